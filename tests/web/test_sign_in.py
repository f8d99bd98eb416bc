"""Sign-in: nobody guesses, nobody learns who has an account, nobody locks a company out."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http.multipartparser import MultiPartParser
from django.test import Client

from agentplatform.clock import database_now
from runs.domain.vocabulary import PersonRole
from runs.models import AuditEntry, Person, Session
from tests import factories as make
from tests.web.admin_forms import page_of, press

pytestmark = pytest.mark.django_db
GOOD = "secret"


def test_a_strangers_upload_is_refused_before_anything_of_it_is_read(monkeypatch):
    """Django reads forms before it looks who sends them, and files of any size."""

    def read(_: Any) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(MultiPartParser, "parse", read)
    for path in ("/accounts/login/", "/tasks/new/file/", "/admin/login/"):
        file = SimpleUploadedFile("big", b"x" * (3 << 20))
        assert Client().post(path, {"file": file}).status_code == 413


def _try(name: str, password: str, *, address: str = "10.0.0.1") -> Any:
    """One attempt with a browser of its own."""
    browser = Client(REMOTE_ADDR=address)
    return browser.post("/accounts/login/", {"username": name, "password": password})


def _text(answer: Any, name: str) -> str:
    page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", answer.content.decode())
    return re.sub(r"[0-9a-f]{32}", "", page).replace(name, "NAME")


def test_an_unknown_name_is_answered_and_locked_like_a_known_one():
    make.person(PersonRole.VIEWER, name="vera")
    for _ in range(7):
        known, unknown = _try("vera", "wrong"), _try("nora", "wrong")
        assert known.status_code == unknown.status_code
        assert _text(known, "vera") == _text(unknown, "nora")
    assert known.status_code == 429


def test_behind_a_proxy_that_is_believed_each_address_is_locked_by_itself(settings):
    make.person(PersonRole.VIEWER, name="vera")

    def attempt(password: str, said: str) -> int:
        headers = {"X-Forwarded-For": said}
        data = {"username": "vera", "password": password}
        return Client(REMOTE_ADDR="10.0.0.1").post("/accounts/login/", data, headers=headers).status_code

    settings.TRUST_PROXY_HEADERS = True
    found = [attempt("wrong", f"198.51.100.{n}, 203.0.113.7") for n in range(7)]
    assert found[-1] == 429, "what the caller writes before the proxy's word moves nobody"
    assert attempt(GOOD, "203.0.113.8") == 302
    assert Session.objects.latest("begun_at").address == "203.0.113.8"


def test_an_unknown_name_costs_as_much_as_a_wrong_password(monkeypatch):
    """Both hash the password: what an answer takes says nothing. Leavers are no exception."""
    make.person(PersonRole.VIEWER, name="vera")
    make.person(PersonRole.VIEWER, name="lena", is_active=False)
    from django.contrib.auth.hashers import MD5PasswordHasher

    hashed: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: Any, password: str, salt: str) -> str:
        hashed.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    spent = []
    for name in ("vera", "nora", "lena"):
        hashed.clear()
        _try(name, "wrong")
        spent.append(len(hashed))
    assert spent[0] == spent[1] == spent[2] > 0


def test_a_lock_holds_for_one_name_from_one_address():
    make.person(PersonRole.VIEWER, name="vera")
    make.person(PersonRole.VIEWER, name="otto")
    for _ in range(5):
        _try("vera", "wrong")
    assert _try("vera", GOOD).status_code == 429, "the right password does not open it"
    assert _try("otto", GOOD).status_code == 302, "behind the same proxy others sign in"
    assert _try("vera", GOOD, address="10.0.0.2").status_code == 302, "and so does she from elsewhere"


def test_an_admin_unlocks(client):
    client.force_login(Person.objects.create_superuser("chief"))
    make.person(PersonRole.VIEWER, name="vera")
    for _ in range(5):
        _try("vera", "wrong")
    from axes.models import AccessAttempt

    assert press(client, list(AccessAttempt.objects.all()), "unlock") == "1 done, 0 refused."
    assert _try("vera", GOOD).status_code == 302


def test_admin_has_no_door_of_its_own(client):
    answer: Any = client.get("/admin/login/?next=/admin/runs/run/")
    assert (answer.status_code, answer.url) == (302, "/accounts/login/?next=/admin/runs/run/")
    client.force_login(make.person(PersonRole.OPERATOR))
    assert client.get("/admin/", follow=True).status_code == 403


# --- one's own account --------------------------------------------------------------------------------


@pytest.fixture
def vera(client: Client) -> Person:
    person = make.person(PersonRole.OPERATOR, name="vera")
    client.post("/accounts/login/", {"username": "vera", "password": GOOD}, HTTP_USER_AGENT="Here/1.0")
    return person


def test_people_see_where_they_are_signed_in_and_end_it(client, vera):
    other = Client(REMOTE_ADDR="10.9.9.9", HTTP_USER_AGENT="Elsewhere/2.0")
    other.post("/accounts/login/", {"username": "vera", "password": GOOD})
    page = client.get("/accounts/me/").content.decode()
    assert "This browser" in page
    assert "Elsewhere/2.0" in page
    assert "10.9.9.9" in page
    session = Session.objects.get(browser="Elsewhere/2.0")
    client.post("/accounts/me/sessions/end/", {"session": session.pk})
    assert other.get("/tasks/").status_code == 302
    assert client.get("/tasks/").status_code == 200
    assert AuditEntry.objects.latest("id").note == "Signed out."


def test_nobody_ends_the_session_of_somebody_else(client, vera):
    other = Client()
    other.force_login(make.person(PersonRole.VIEWER, name="otto"))
    theirs = Session.objects.get(person__username="otto")
    assert client.post("/accounts/me/sessions/end/", {"session": theirs.pk}).status_code == 404
    assert other.get("/tasks/").status_code == 200


def test_the_table_of_sessions_opens_no_session(client, vera):
    row = Session.objects.get(person=vera)
    key = client.cookies["sessionid"].value
    assert key not in str(Session.objects.filter(pk=row.pk).values())
    thief = Client()
    thief.cookies["sessionid"] = row.pk
    assert thief.get("/tasks/").status_code == 302


def test_sessions_that_ended_by_themselves_are_forgotten(client, vera):
    from runs.tasks import forget_sessions

    past, here = database_now() - timedelta(minutes=1), Session.objects.get(person=vera)
    Session.objects.create(session_key="ended", session_data="", expire_date=past, person=vera)
    forget_sessions()
    assert [session.pk for session in Session.objects.all()] == [here.pk]


def test_a_new_password_signs_every_other_browser_out(client, vera):
    other = Client()
    other.force_login(vera)
    new = "tr0ubador-and-horse"
    weak = {"old_password": GOOD, "new_password1": "vera12345", "new_password2": "vera12345"}
    assert client.post("/accounts/me/password/", weak).status_code == 422
    form = {"old_password": GOOD, "new_password1": new, "new_password2": new}
    assert client.post("/accounts/me/password/", form).status_code == 302
    assert client.get("/tasks/").status_code == 200
    assert other.get("/tasks/").status_code == 302
    assert _try("vera", new).status_code == 302


def _made(client: Client, role: str = "") -> str:
    page = client.post(
        "/accounts/me/tokens/", {"name": "script", "role": role, "days": "30"}
    ).content.decode()
    found = re.search(r"tok_[\w.-]+\.[\w-]{40,}", page)
    assert found
    assert found[0] not in client.get("/accounts/me/").content.decode()
    return found[0]


def _ask(secret: str, method: str, path: str, body: Any = None) -> int:
    from tests.api.calls import Caller

    return int(Caller(secret).send(method, f"/api/v1/{path}", body).status_code)


@pytest.mark.parametrize(
    ("role", "answers"),
    [("", [200, 200, 200]), ("viewer", [200, 403, 403]), ("submitter", [404] * 3), ("operator", [200] * 3)],
)
def test_a_token_may_what_its_role_and_its_owner_may_and_never_more(client, vera, role, answers):
    """Vera is an operator and no submitter: a role that she lacks gives her token nothing."""
    run = make.queued_run()
    secret = _made(client, role)
    asked = [("GET", "", None), ("POST", "/note", {"text": "x"}), ("POST", "/pause", {"reason": "x"})]
    assert [_ask(secret, method, f"runs/{run.pk}{path}", body) for method, path, body in asked] == answers


def test_a_token_of_an_admin_can_be_a_readers(client):
    client.force_login(Person.objects.create_superuser("chief"))
    run = make.queued_run()
    secret = _made(client, "viewer")
    assert _ask(secret, "GET", f"runs/{run.pk}") == 200
    assert _ask(secret, "POST", f"runs/{run.pk}/pause", {"reason": "x"}) == 403


def test_a_token_loses_what_its_owner_loses(client, vera):
    run = make.queued_run()
    secret = _made(client)
    vera.grants.all().delete()
    assert _ask(secret, "GET", f"runs/{run.pk}") == 404


def test_people_renew_and_revoke_their_own_tokens(client, vera):
    secret = _made(client)
    token = vera.tokens.get()
    page = client.post(f"/accounts/me/tokens/{token.pk}/renew/").content.decode()
    renewed = re.search(r"tok_[\w.-]+\.[\w-]{40,}", page)
    assert renewed
    for one in (secret, renewed[0]):
        assert _ask(one, "GET", "tasks") == 200
    client.post(f"/accounts/me/tokens/{token.pk}/revoke/")
    assert _ask(secret, "GET", "tasks") == 401
    assert _ask(renewed[0], "GET", "tasks") == 200


def test_a_machines_token_of_one_role_claims_for_that_alone():
    from runs import service
    from runs.auth import find_bearer

    account = make.worker().account
    _, secret = service.token_create(by=service.COMMAND_LINE, worker=account, roles=["verifier"])
    bearer = find_bearer(secret)
    assert bearer
    assert bearer.principal.caller.roles == {"verifier"}
    assert _ask(secret, "POST", "leases", {"roles": ["worker"]}) == 403
    assert len(type(account).objects.get(pk=account.pk).roles) > 1


def test_the_admin_page_of_a_person_shows_their_tokens_and_no_secret(client):
    client.force_login(Person.objects.create_superuser("chief"))
    otto = make.person(PersonRole.VIEWER, name="otto")
    secret = make.person_token(otto)
    page = client.get(page_of(otto, "change")).content.decode()
    assert otto.tokens.get().pk in page
    assert secret not in page
