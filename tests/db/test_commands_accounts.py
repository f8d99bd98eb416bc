"""The commands that make people, worker accounts and repositories."""

import io
import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from agentplatform.clock import database_now
from runs import auth
from runs.models import ApiToken, Person, Policy, Repository, WorkerAccount

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue().rstrip("\n")


def principal_of(secret: str) -> auth.Principal:
    bearer = auth.find_bearer(secret)
    assert bearer is not None
    return bearer.principal


def make_repository(name: str = "clock", *words: str) -> Repository:
    return Repository.objects.get(pk=run("create_repository", name, "--url", "/srv/clock.git", *words))


def test_a_persons_token_stands_alone_and_speaks_for_the_person():
    secret = run("create_person", "sam", "--role", "submitter", "--role", "reviewer", "--token")
    assert "\n" not in secret
    who = principal_of(secret)
    assert (who.name, {role for role, _ in who.grants}) == ("sam", {"submitter", "reviewer"})


def test_a_password_is_read_from_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("a long way to Tipperary\n"))
    run("create_person", "sam", "--role", "viewer", "--password-stdin")
    assert Person.objects.get(username="sam").check_password("a long way to Tipperary")


def test_without_a_password_nobody_signs_in():
    run("create_person", "sam", "--role", "viewer")
    assert not Person.objects.get(username="sam").has_usable_password()


def test_a_weak_password_makes_nobody(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("12345\n"))
    with pytest.raises(CommandError, match="password: "):
        run("create_person", "sam", "--role", "viewer", "--password-stdin")
    assert not Person.objects.exists()


def test_roles_may_be_limited_to_repositories():
    clock, other = make_repository(), make_repository("other")
    secret = run("create_person", "rita", "--role", "reviewer", "--repository", "clock", "--token")
    who = principal_of(secret)
    assert auth.may(who, auth.Action.APPROVE, clock.pk)
    assert not auth.may(who, auth.Action.READ, other.pk)


def test_an_admin_of_one_repository_is_no_superuser():
    make_repository()
    run("create_person", "ada", "--role", "admin", "--repository", "clock")
    run("create_person", "eve", "--role", "admin")
    assert [Person.objects.get(username=name).is_superuser for name in ("ada", "eve")] == [False, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create_person", "SAM", "--role", "viewer"], "name: SAM exists already"),
        (["create_person", "a b", "--role", "viewer"], "name: must be"),
        (["create_person", "bob", "--role", "viewer", "--repository", "none"], "There is no repository none"),
        (["create_worker", "bot", "--role", "judge", "--owner", "nobody"], "There is nobody named nobody"),
        (["create_worker", "w-\u0430", "--role", "judge"], "name: must be"),
        (["create_worker", "w-a\nINFO lease granted", "--role", "judge"], "name: must be"),
        (["create_worker", "w" * 129, "--role", "judge"], "name: must be"),
        (["create_worker", "bot", "--role", "judge", "--label", "a b"], "labels: "),
        (["create_worker", "bot", "--role", "judge", "--expires-days", "0"], "at least 1"),
        (["create_repository", "x", "--url=--upload-pack=touch"], "url: "),
        (["create_repository", "x", "--url=ext::sh -c id"], "url: "),
        (["create_repository", "x", "--url=https://a:b@host.invalid/r.git"], "no password"),
        (["create_repository", "x", "--url=https://ghp_token@host.invalid/r.git"], "no password or token"),
        (["create_repository", "x", "--url=/r.git", "--inherits", "none"], "inherits: there is no policy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_name_and_makes_nothing(words, message):
    run("create_person", "sam", "--role", "viewer")
    with pytest.raises(CommandError, match=message):
        run(*words)
    counts = [model.objects.count() for model in (Person, WorkerAccount, Repository, ApiToken)]
    assert counts == [1, 0, 0, 0]


def test_a_workers_token_has_its_roles_limits_labels_and_end():
    clock = make_repository()
    run("create_person", "lena", "--role", "operator")
    secret = run(
        "create_worker", "verifier-1", "--role", "verifier", "--role", "judge", "--repository", "clock",
        "--label", "python", "--expires-days", "7", "--owner", "lena",
    )  # fmt: skip
    worker = WorkerAccount.objects.get(name="verifier-1")
    assert (worker.roles, worker.labels) == (["verifier", "judge"], ["python"])
    assert worker.owner == Person.objects.get(username="lena")
    assert principal_of(secret).repositories == {clock.pk}
    token = ApiToken.objects.get(worker=worker)
    assert token.expires_at is not None
    assert timedelta(days=6) < token.expires_at - database_now() <= timedelta(days=7)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=database_now())
    assert auth.find_bearer(secret) is None


def test_a_repositorys_own_policy_stands_below_the_platforms(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"allow_auto_pr": False, "judge_confidence": 0.9}))
    repository = make_repository("clock", "--policy", str(file))
    assert repository.policy.inherits == Policy.objects.get(name=Policy.PLATFORM)
    assert repository.policy.versions.get().values == {"allow_auto_pr": False, "judge_confidence": 0.9}
    heir = make_repository("other", "--inherits", repository.policy.name)
    assert heir.policy.inherits == repository.policy


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "policy.json"), ("[]", "must be a JSON object"), ('{"no_such": 1}', "policy.no_such")],
)
def test_a_wrong_policy_file_is_named(tmp_path, text, message):
    file = tmp_path / "policy.json"
    file.write_text(text)
    with pytest.raises(CommandError, match=message):
        make_repository("clock", "--policy", str(file))
    assert not Repository.objects.exists()
