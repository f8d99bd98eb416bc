"""Sign-in: by password (locked after repeated failure), and by one click in the demonstration."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from runs.models import Person

#: User name → what that person does in the demonstration.
DEMO_PEOPLE: Final = {
    "submitter": "asks for work",
    "reviewer": "decides reviews",
    "lead": "reviews, stops, retries and sets the priorities",
    "admin": "may do everything, with the admin pages",
}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


class SignIn(LoginView):
    """The sign-in page; somebody signed in already goes on to where they wanted to be."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Adds the demonstration's accounts, where there is one."""
        return super().get_context_data(**kwargs, demo=_offer(self.request))


@require_POST
def demo_sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """Sign in as one of the demonstration's people; 404 but on this machine's own demonstration."""
    person = Person.objects.filter(username=name, is_active=True).first()
    if not is_demo(request) or name not in DEMO_PEOPLE or person is None:
        raise Http404
    login(request, person, backend=_BACKEND)
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return redirect(wanted if is_ours else reverse("home"))


def is_demo(request: HttpRequest) -> bool:
    """Whether one-click sign-in is offered: demonstration mode, no production, asked for on this machine."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    local = host in _LOOPBACK and request.META.get("REMOTE_ADDR", "") in _LOOPBACK
    return local and bool(getattr(settings, "DEMO", False)) and not settings.PRODUCTION


def _offer(request: HttpRequest) -> dict[str, Any] | None:
    if not is_demo(request):
        return None
    there = set(Person.objects.filter(username__in=DEMO_PEOPLE).values_list("username", flat=True))
    return {
        "sentence": "One click, no password. Only on this machine, only while demonstration data is in use.",
        "accounts": [
            {"name": name, "does": does, "href": reverse("demo_sign_in", args=[name])}
            for name, does in DEMO_PEOPLE.items()
            if name in there
        ],
    }
