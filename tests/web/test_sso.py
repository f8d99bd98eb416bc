"""Sign-in at the company's provider, and second factors: who comes in, and who does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.test import Client
from django.urls import reverse

from agentplatform import sign_in
from runs.domain.vocabulary import PersonRole
from runs.models import AuditEntry, Person
from tests import factories as make
from tests.web import identity

pytestmark = pytest.mark.django_db
PASSWORD = "secret"


@pytest.fixture
def provider(settings) -> Iterator[identity.Provider]:
    with identity.running() as found:
        settings.SOCIALACCOUNT_PROVIDERS = sign_in.configure(
            issuer=found.url,
            client_id=identity.CLIENT_ID,
            client_secret=identity.CLIENT_SECRET,
            name="the company",
            second_factors=True,
            production=False,
        ).providers
        yield found


@pytest.fixture
def rita() -> Person:
    return make.person(PersonRole.REVIEWER, name="rita", email="rita@example.com")


def _sign_in_there(client: Client, provider: identity.Provider, *, to: str = "") -> Any:
    begun: Any = client.get(
        reverse("openid_connect_login", args=[sign_in.PROVIDER]), {"next": to} if to else {}
    )
    assert begun.status_code == 302
    assert begun.url.startswith(f"{provider.url}/authorize?")
    return client.get(provider.authorize(begun.url), follow=True)


def test_the_sign_in_page_offers_the_provider(client, provider):
    assert (
        reverse("openid_connect_login", args=[sign_in.PROVIDER])
        in client.get("/accounts/login/").content.decode()
    )


def test_who_the_provider_knows_by_a_verified_address_is_signed_in_as_themselves(client, provider, rita):
    provider.claims = {"sub": "42", "email": "Rita@example.com", "email_verified": True}
    answer = _sign_in_there(client, provider, to="/tasks/")
    assert answer.request["PATH_INFO"] == "/tasks/"
    assert answer.context["user"] == rita
    assert AuditEntry.objects.filter(kind="social account", by="rita").count() == 1

    client.logout()
    provider.claims = {"sub": "42", "email": "renamed@example.com", "email_verified": True}
    assert _sign_in_there(client, provider).context["user"] == rita, "from then on the identity counts"


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "1", "email": "rita@example.com", "email_verified": False},
        {"sub": "1", "email": "rita@example.com"},
        {"sub": "1", "email": "stranger@example.com", "email_verified": True},
        {"sub": "1"},
    ],
)
def test_nobody_else_comes_in_and_no_account_is_made(client, provider, rita, claims):
    provider.claims = claims
    before = Person.objects.count()
    answer = _sign_in_there(client, provider)
    assert not answer.context["user"].is_authenticated
    assert "Ask an admin for an account" in answer.content.decode()
    assert Person.objects.count() == before


def test_an_address_of_two_accounts_signs_in_neither(client, provider, rita):
    make.person(PersonRole.ADMIN, name="rita-admin", email="rita@example.com")
    provider.claims = {"sub": "1", "email": "rita@example.com", "email_verified": True}
    assert not _sign_in_there(client, provider).context["user"].is_authenticated


def test_a_leaver_does_not_come_back_by_the_provider(client, provider, rita):
    provider.claims = {"sub": "42", "email": "rita@example.com", "email_verified": True}
    _sign_in_there(client, provider)
    client.logout()
    Person.objects.filter(pk=rita.pk).update(is_active=False)
    assert not _sign_in_there(client, provider).context["user"].is_authenticated


def test_a_code_from_elsewhere_signs_nobody_in(client, provider, rita):
    """A sign-in that another browser began: its state is not this one's."""
    provider.claims = {"sub": "42", "email": "rita@example.com", "email_verified": True}
    begun: Any = Client().get(reverse("openid_connect_login", args=[sign_in.PROVIDER]))
    answer = client.get(provider.authorize(begun.url), follow=True)
    assert not answer.context["user"].is_authenticated
    assert "did not sign you in" in answer.content.decode()


def _code_of(secret: str) -> str:
    return format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time()))))


@pytest.fixture
def guarded(rita: Person) -> Person:
    """Somebody with a second factor, set up on the pages."""
    client = Client()
    client.post("/accounts/login/", {"username": "rita", "password": PASSWORD})
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    shown = client.get(reverse("mfa_activate_totp"))
    assert shown.status_code == 200
    assert "<svg" in shown.content.decode()
    assert "data:" not in shown.content.decode()
    secret = shown.context["form"].secret
    done = client.post(reverse("mfa_activate_totp"), {"code": _code_of(secret)}, follow=True)
    assert len(done.context["unused_codes"]) == 10
    assert secret not in str(Authenticator.objects.get(user=rita, type="totp").data), "kept encrypted"
    return rita


def test_a_password_alone_does_not_sign_in_who_has_a_second_factor(client, guarded, settings):
    answer = client.post(
        "/accounts/login/?next=/runs/", {"username": "rita", "password": PASSWORD}, follow=True
    )
    assert answer.request["PATH_INFO"] == reverse("mfa_authenticate")
    assert client.get("/tasks/").status_code == 302
    wrong = client.post(reverse("mfa_authenticate"), {"code": "000000"})
    assert wrong.status_code == 200
    assert client.get("/tasks/").status_code == 302
    from django.core.cache import cache

    cache.clear()  # a code counts once: the one of the set-up was used
    recovery = Authenticator.objects.get(user=guarded, type="recovery_codes").wrap().get_unused_codes()[0]
    assert client.post(reverse("mfa_authenticate"), {"code": recovery}).status_code == 302
    assert client.get("/tasks/").context["user"] == guarded


def test_the_provider_does_not_go_past_the_second_factor(client, provider, guarded):
    provider.claims = {"sub": "42", "email": "rita@example.com", "email_verified": True}
    answer = _sign_in_there(client, provider)
    assert answer.request["PATH_INFO"] == reverse("mfa_authenticate")
    assert client.get("/tasks/").status_code == 302


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"client_secret": ""}, "OIDC_CLIENT_SECRET"),
        ({"issuer": "http://id.example.com"}, "https"),
        ({"issuer": "id.example.com"}, "https"),
    ],
)
def test_half_a_provider_is_refused_at_start_by_name(changed, said):
    from django.core.exceptions import ImproperlyConfigured

    given = {"issuer": "https://id.example.com", "client_id": "a", "client_secret": "b", "name": "x"}
    with pytest.raises(ImproperlyConfigured, match=said):
        sign_in.configure(**{**given, **changed}, second_factors=False, production=True)


def test_strangers_and_half_signed_in_people_set_up_nothing(client, guarded):
    names = [
        "mfa_index", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_view_recovery_codes",
        "mfa_generate_recovery_codes", "mfa_download_recovery_codes", "mfa_reauthenticate",
        "account_reauthenticate",
    ]  # fmt: skip
    half = Client()
    half.post("/accounts/login/", {"username": "rita", "password": PASSWORD})
    for name in names:
        for browser in (client, half):
            for answer in (browser.get(reverse(name)), browser.post(reverse(name), {"code": "1"})):
                assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/accounts/login/"), (
                    name
                )
