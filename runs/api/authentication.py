"""Who calls: a token, or a person's session with CSRF (REST contract, "Who calls")."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from runs.auth import Principal, find_bearer, of_person
from runs.domain.errors import NotAuthenticated, PermissionDenied
from runs.models import ApiToken, Person

#: ``last_used_at`` is for people who look for stale tokens: a minute is exact enough.
USED_EVERY: Final = timedelta(minutes=1)

Authenticated = tuple[Any, Principal]


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>`` of a worker account or a person."""

    def authenticate(self, request: Request) -> Authenticated | None:
        """The account of the token; None without one. Raises ``NotAuthenticated`` for one not in force."""
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer":
            raise NotAuthenticated("Send the token as: Authorization: Bearer <token>.")
        bearer = find_bearer(secret.strip())
        if bearer is None:
            raise NotAuthenticated("This token is not known, has expired or was revoked.")
        _note_use(bearer.token, bearer.now)
        return bearer.principal.person or AnonymousUser(), bearer.principal

    def authenticate_header(self, request: Request) -> str:
        """The scheme that a 401 names."""
        return "Bearer"


class SessionAuthentication(BaseAuthentication):
    """The session of somebody who signed in; what changes anything needs the CSRF token too."""

    def authenticate(self, request: Request) -> Authenticated | None:
        """The person signed in, or None. Raises ``PermissionDenied`` without the CSRF token."""
        person = getattr(request._request, "user", None)  # noqa: SLF001  DRF's own way to the session
        if not isinstance(person, Person) or not person.is_active:
            return None
        _require_csrf(request._request)  # noqa: SLF001
        return person, of_person(person)


class _Csrf(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def _require_csrf(request: HttpRequest) -> None:
    def nothing(_: HttpRequest) -> HttpResponse:
        return HttpResponse()

    check = _Csrf(nothing)
    check.process_request(request)
    if reason := check.process_view(request, nothing, (), {}):
        raise PermissionDenied(f"The CSRF check failed: {reason}")


def _note_use(token: ApiToken, now: datetime) -> None:
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
