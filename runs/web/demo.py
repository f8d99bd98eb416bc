"""One-click sign-in, in demonstration mode: for whoever sits at this machine, and for nobody else."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from agentplatform.demonstration import is_loopback
from runs.demo.people import PEOPLE
from runs.models import Person

_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
#: A proxy on this machine speaks for clients elsewhere, and says so in one of these.
_OF_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")


@require_POST
def demo_sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """Sign in as one of the demonstration's people; 404 wherever it is not offered."""
    known = {person.name for person in PEOPLE}
    person = Person.objects.filter(username=name, is_active=True).first() if name in known else None
    if person is None or not is_offered(request):
        raise Http404
    login(request, person, backend=_BACKEND)
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return redirect(wanted if is_ours else reverse("home"))


def is_offered(request: HttpRequest) -> bool:
    """Whether demonstration mode is on, and both the address asked for and who asks are this machine."""
    asked_for = split_domain_port(request.get_host())[0]
    return (
        settings.DEMO
        and not settings.PRODUCTION
        and is_loopback(asked_for)
        and is_loopback(request.META.get("REMOTE_ADDR", ""))
        and not any(header in request.headers for header in _OF_PROXIES)
    )


def offer(request: HttpRequest) -> dict[str, Any] | None:
    """``{sentence, accounts: [{name, does, href}]}`` for the sign-in page; None where it is not offered."""
    if not is_offered(request):
        return None
    names = [person.name for person in PEOPLE]
    there = set(Person.objects.filter(username__in=names, is_active=True).values_list("username", flat=True))
    return {
        "sentence": "Demonstration mode: one click, no password, on this machine only.",
        "accounts": [
            {
                "name": person.name,
                "does": f"{person.part}: {person.does}",
                "href": reverse("demo_sign_in", args=[person.name]),
            }
            for person in PEOPLE
            if person.name in there
        ],
    }
