"""The extra around signing in: a company's OpenID Connect provider, and second factors. Off by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

#: The one provider's name in addresses and rows.
PROVIDER: Final = "company"


@dataclass(frozen=True, slots=True)
class Extra:
    """What the settings take in; all empty where the extra is off."""

    apps: list[str] = field(default_factory=list)
    middleware: list[str] = field(default_factory=list)
    providers: dict[str, Any] = field(default_factory=dict)

    @property
    def is_on(self) -> bool:
        """Whether sign-in goes through it."""
        return bool(self.apps)


def configure(
    *, issuer: str, client_id: str, client_secret: str, name: str, second_factors: bool, production: bool
) -> Extra:
    """What these settings need. Raises ``ImproperlyConfigured`` by name."""
    if not issuer and not second_factors:
        return Extra()
    if find_spec("allauth") is None:
        raise ImproperlyConfigured(
            "OIDC_ISSUER and SECOND_FACTORS need the extra sso:"
            " pip install --require-hashes -r requirements.production.lock."
        )
    if issuer:
        _check(issuer, client_id, client_secret, production=production)
    return Extra(
        apps=[
            "allauth",
            "allauth.account",
            "allauth.socialaccount",
            "allauth.socialaccount.providers.openid_connect",
            "allauth.mfa",
        ],
        middleware=["allauth.account.middleware.AccountMiddleware"],
        providers={"openid_connect": _provider(issuer, client_id, client_secret, name)} if issuer else {},
    )


def _check(issuer: str, client_id: str, client_secret: str, *, production: bool) -> None:
    if not (client_id and client_secret):
        raise ImproperlyConfigured("OIDC_ISSUER needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.")
    address = urlsplit(issuer)
    schemes = {"https"} if production else {"https", "http"}
    if address.scheme not in schemes or not address.netloc:
        raise ImproperlyConfigured(f"OIDC_ISSUER must be an https address; it is {issuer!r}.")


def _provider(issuer: str, client_id: str, client_secret: str, name: str) -> dict[str, Any]:
    app = {
        "provider_id": PROVIDER,
        "name": name,
        "client_id": client_id,
        "secret": client_secret,
        "settings": {"server_url": issuer.rstrip("/")},
    }
    return {"APPS": [app], "OAUTH_PKCE_ENABLED": True}
