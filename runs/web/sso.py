"""Sign-in by the company's provider, and second factors. Imported only where the extra is on.

The provider says who somebody is; what they may do is decided here, by the roles of an account that an admin
made. Nobody gets an account by signing in.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.utils import perform_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from cryptography.fernet import Fernet
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import salted_hmac

from runs import service
from runs.domain.commands import Caller
from runs.domain.vocabulary import Role
from runs.models import Person
from runs.models.audit import Act

_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


def finish(request: HttpRequest, person: Person, *, to: str) -> HttpResponse:
    """After the password: ask for the second factor where there is one, then sign in."""
    answer: HttpResponse = perform_login(request, person, email_verification="none", redirect_url=to)
    return answer


class Accounts(DefaultAccountAdapter):
    """People's accounts are made by admins."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def login(self, request: HttpRequest, user: Person) -> None:
        """The session is of Django's own kind, whatever brought them in."""
        user.backend = _BACKEND
        super().login(request, user)

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Pages of ours say what happened."""

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """None: mail goes out by the letters of notices alone."""


class Providers(DefaultSocialAccountAdapter):
    """An identity at the provider belongs to one person here, from the first sign-in on."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Never."""
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Find the person by the address that the provider has verified; nobody else comes in."""
        if sociallogin.is_existing:
            if not sociallogin.user.is_active:
                self._refuse(request)
            return
        verified = [one.email for one in sociallogin.email_addresses if one.verified and one.email]
        found = list(Person.objects.filter(email__iexact=verified[0], is_active=True)[:2]) if verified else []
        if len(found) != 1:
            self._refuse(request)
        person = found[0]
        sociallogin.connect(request, person)
        service.audit_record(
            by=Caller(person.pk, person.get_username(), frozenset({Role.HUMAN})),
            act=Act.ADDED,
            row=sociallogin.account,
            after={"person": person.get_username(), "issuer": sociallogin.account.provider},
            note="Signed in at the provider for the first time.",
        )

    def on_authentication_error(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Back to the sign-in, in words."""
        self._refuse(request, "The provider did not sign you in. Try again, or ask an admin.")

    def _refuse(self, request: HttpRequest, said: str = "") -> None:
        words = "Nobody here has the address that the provider knows you by. Ask an admin for an account."
        messages.error(request, said or words)
        raise ImmediateHttpResponse(redirect("login"))


class SecondFactors(DefaultMFAAdapter):
    """What an authenticator app shares with us is kept as only this platform can read it."""

    def encrypt(self, text: str) -> str:
        """For the database."""
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """From the database."""
        return _cipher().decrypt(encrypted_text.encode()).decode()


def _cipher() -> Fernet:
    key = salted_hmac("agentplatform.second-factor", "1", algorithm="sha256").digest()
    return Fernet(urlsafe_b64encode(key))
