"""Sign-in by password (locked after repeated failure), and what somebody sees of their own account: where
they are signed in, their tokens, their password."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agentplatform.clock import database_now
from agentplatform.middleware import client_address
from agentplatform.sign_in import PROVIDER
from runs import service
from runs.domain.vocabulary import PersonRole
from runs.models import Person
from runs.models.sessions import ADDRESS, BEGUN_AT, BROWSER, digest
from runs.selectors.accounts import account_of
from runs.web import demo
from runs.web.session import page, principal_of

#: The longest life of a token that people make for themselves.
MOST_DAYS: Final = 365


class SignIn(LoginView):
    """The sign-in page; somebody signed in already goes on to where they wanted to be."""

    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in; where the extra is on, by way of the second factor."""
        if not settings.EXTRA.is_on:
            return super().form_valid(form)
        from runs.web import sso

        return sso.finish(self.request, form.get_user(), to=self.get_success_url())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Adds the demonstration's accounts and the company's provider, where there are any."""
        provider = {"name": settings.OIDC_NAME, "href": _provider_address()}
        return super().get_context_data(
            **kwargs, demo=demo.offer(self.request), provider=provider if provider["href"] else None
        )


def _provider_address() -> str:
    known = settings.SOCIALACCOUNT_PROVIDERS
    return reverse("openid_connect_login", args=[PROVIDER]) if known else ""


def remember_where(*, request: HttpRequest, **_: Any) -> None:
    """Receiver of `user_logged_in`: what the list of sessions shows, so that a strange one is recognised."""
    request.session[BEGUN_AT] = database_now().isoformat()
    request.session[ADDRESS] = client_address(request)[:64]
    request.session[BROWSER] = request.headers.get("User-Agent", "")[:200]


class PasswordForm(PasswordChangeForm):
    """Django's, at the foot of a page: it does not ask for the focus."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["old_password"].widget.attrs.pop("autofocus", None)


class TokenForm(forms.Form):
    """A personal token: never more than the person may, less where they choose so."""

    name = forms.CharField(max_length=100, help_text="What it is for; shown in this list alone.")
    role = forms.ChoiceField(
        label="What it may do",
        choices=[("", "All that I may"), *((role.value, role.label) for role in PersonRole)],
        required=False,
        help_text="One role narrows it to that; a role that you lack gives nothing.",
    )
    days = forms.IntegerField(
        min_value=1, max_value=MOST_DAYS, initial=90, help_text="Then it ends by itself."
    )


@page
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """The person's own sessions and tokens, and their password."""
    return _show(request)


@page
@require_POST
def session_end(request: HttpRequest) -> HttpResponse:
    """Sign one of the person's own browsers out, or all but this one."""
    person, here = _person(request), digest(request.session.session_key or "")
    mine = person.sessions.all()
    one = request.POST.get("session", "")
    chosen = mine.filter(pk=one) if one else mine.exclude(pk=here)
    count = service.sessions_end(sessions=chosen, by=principal_of(request).caller)
    if one and not count:
        raise Http404
    messages.success(request, f"Signed out: {count}.")
    return redirect("account")


@page
@require_POST
def token_add(request: HttpRequest) -> HttpResponse:
    """Make a token for oneself. Its secret stands on this answer, and nowhere else."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _show(request, status=422, token_form=form)
    told = form.cleaned_data
    _, secret = service.token_create(
        by=principal_of(request).caller,
        person=_person(request),
        name=told["name"],
        roles=[told["role"]] if told["role"] else [],
        expires_at=database_now() + timedelta(days=told["days"]),
    )
    return _show(request, secret=secret)


@page
@require_POST
def token_act(request: HttpRequest, token_id: str, act: str) -> HttpResponse:
    """Revoke or renew one of the person's own tokens."""
    token = _person(request).tokens.filter(pk=token_id).first()
    if token is None:
        raise Http404
    by = principal_of(request).caller
    if act == "renew":
        _, secret = service.token_renew(token=token, by=by)
        return _show(request, secret=secret)
    service.tokens_revoke(tokens=[token], by=by)
    messages.success(request, "Revoked. It stopped working.")
    return redirect("account")


@page
@require_POST
def password_change(request: HttpRequest) -> HttpResponse:
    """A new password signs every other browser out."""
    person = _person(request)
    form = PasswordForm(person, request.POST)
    if not form.is_valid():
        return _show(request, status=422, password_form=form)
    form.save()
    update_session_auth_hash(request, person)
    here = digest(request.session.session_key or "")
    service.sessions_end(sessions=person.sessions.exclude(pk=here), by=principal_of(request).caller)
    messages.success(request, "The password is changed; other browsers are signed out.")
    return redirect("account")


def _person(request: HttpRequest) -> Person:
    person = principal_of(request).person
    if person is None:
        raise Http404
    return person


def _show(request: HttpRequest, *, status: int = 200, secret: str = "", **forms_: Any) -> HttpResponse:
    person = _person(request)
    context = {
        **account_of(person=person, here=digest(request.session.session_key or "")),
        "secret": secret,
        "second_factors": settings.EXTRA.is_on,
        "token_form": forms_.get("token_form") or TokenForm(),
        "password_form": forms_.get("password_form") or PasswordForm(person),
    }
    answer = render(request, "accounts/account.html", context, status=status)
    answer["Cache-Control"] = "private, no-store"
    return answer
