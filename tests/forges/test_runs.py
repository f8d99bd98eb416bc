"""Runs and a forge: what the log says was opened stands there, whatever happens to the answers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from runs import auth, service
from runs.domain.commands import CONTROL_PLANE, Command
from runs.domain.vocabulary import Ev, PersonRole, Role, RunStatus
from runs.models import PullRequest, Run, RunEvent
from runs.pull_requests.run import Done, create_pull_requests
from runs.pull_requests.text import branch_name
from tests import factories
from tests.forges.faults import Fault
from tests.forges.github import FakeGitHub
from tests.forges.kinds import FORGES
from tests.forges.serving import FakeForge, serving

pytestmark = pytest.mark.django_db

S = RunStatus


@pytest.fixture
def origin(tmp_path):
    return factories.make_origin(tmp_path / "origin")


@pytest.fixture(params=sorted(FORGES))
def forge(request, origin, settings, tmp_path) -> Iterator[FakeForge]:
    with serving(FORGES[request.param], origin.path) as forge:
        settings.REPOSITORY_CREDENTIALS = str(tmp_path / "credentials.toml")
        (tmp_path / "credentials.toml").write_text(f'["*"]\n{forge.credentials()}')
        yield forge


def approved(origin, forge: FakeForge, **policy) -> Run:
    """A run whose patch waits to go out to the forge."""
    where = factories.repository(url=origin.url, policy=policy or None)
    where.provider = forge.name
    where.save()
    run = factories.queued_run(where, auto_pr=True)
    holder = factories.claim(run=run)
    holder.patch, holder.base_commit = origin.patch, origin.commit
    factories.drive(holder, S.PR_CREATING)
    return Run.objects.get(pk=run.pk)


def again(run: Run) -> Run:
    """As after the backoff."""
    Run.objects.filter(pk=run.pk).update(not_before=None)
    return Run.objects.get(pk=run.pk)


def cancel(run: Run) -> None:
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=run.pk, event=Ev.CANCEL_REQUESTED, reason="changed my mind", by=by)


def claimed(run: Run) -> list[str]:
    """The pull requests that the log says were opened."""
    return [row.payload["url"] for row in RunEvent.objects.filter(run=run, event_type=Ev.PR_CREATED.value)]


def test_an_approved_patch_becomes_a_pull_request_with_its_evidence(origin, forge):
    run = approved(origin, forge, pull_request_draft=True, pull_request_labels=["agent"])
    assert create_pull_requests() == [Done(run.pk, "pr_created")]
    record, (pull,) = PullRequest.objects.get(run=run), forge.pulls
    assert (record.number, record.url, record.provider) == (1, pull["url"], forge.name)
    assert (pull["draft"], pull["labels"], pull["title"]) == (True, ["agent"], run.task.title)
    assert pull["body"].startswith(record.body[:200])
    assert again(run).status == S.SUCCEEDED


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LATE, Fault.ERROR_BEFORE], ids=lambda f: f.name)
def test_the_log_claims_no_pull_request_that_does_not_exist(origin, forge, fault):
    run = approved(origin, forge)
    forge.plan("POST", forge.opening, fault, times=2)
    forge.plan("GET", forge.lookup, Fault.LOST_ANSWER)
    for _ in range(5):
        create_pull_requests()
        assert claimed(run) == [pull["url"] for pull in forge.pulls][: len(claimed(run))]
        if again(run).status == S.SUCCEEDED:
            break
    assert claimed(run) == [pull["url"] for pull in forge.pulls]
    assert len(forge.pulls) == 1


def test_a_cancel_while_nothing_was_opened_takes_the_branch_back(origin, forge):
    run = approved(origin, forge)
    forge.plan("POST", forge.opening, Fault.ERROR_BEFORE)
    # One alone: on a slow machine the backoff may be over before it is done.
    assert create_pull_requests(limit=1) == [Done(run.pk, "pr_creation_failed")]
    cancel(run)
    again(run)
    create_pull_requests()
    assert (again(run).status, forge.pulls, claimed(run)) == (S.CANCELLED, [], [])
    assert forge.branch(branch_name(run.pk, run.task.title)) == ""


def test_a_cancel_after_it_was_opened_finds_it(origin, forge):
    run = approved(origin, forge)
    integration = factories.claim(factories.worker(Role.GIT_INTEGRATION), run)
    git = ["git", f"--git-dir={origin.path}"]
    branch = branch_name(run.pk, run.task.title)
    subprocess.run([*git, "branch", branch, "main"], check=True)
    forge.open_by_somebody(branch, f"What was checked.\n\n<!-- agent-run: {run.pk} -->")
    cancel(run)
    service.apply_event(integration.run_id, Command(Ev.LEASE_LOST, {}, CONTROL_PLANE, ""))
    assert create_pull_requests() == [Done(run.pk, "pr_created")]
    assert again(run).status == S.SUCCEEDED


@pytest.mark.parametrize("forge", [FakeGitHub.name], indirect=True)
def test_an_app_asks_for_a_token_of_its_own_for_each_push(origin, forge, settings, tmp_path):
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    forge.app = ("12345", public.decode())
    forge.tokens.clear()
    (tmp_path / "key.pem").write_bytes(pem)
    fields = forge.credentials(app_id="12345", private_key_file=str(tmp_path / "key.pem"))
    (tmp_path / "credentials.toml").write_text(f'["*"]\n{fields}')
    run = approved(origin, forge)
    forge.plan("POST", forge.opening, Fault.ERROR_BEFORE)
    for number, event in ((1, "pr_creation_failed"), (2, "pr_created")):
        assert create_pull_requests() == [Done(run.pk, event)]
        again(run)
        assert len(forge.tokens) == number
        said = [str(event.payload) + str(event.facts) for event in RunEvent.objects.filter(run=run)]
        assert not [text for text in said if any(token in text for token in forge.tokens)]


def test_credentials_that_cannot_be_used_are_said_by_name_and_wait(origin, forge, tmp_path):
    run = approved(origin, forge)
    (tmp_path / "credentials.toml").write_text('["*"]\ntokn = "hush"\n')
    assert create_pull_requests(limit=1) == [Done(run.pk, "pr_creation_failed")]
    failure = RunEvent.objects.get(run=run, event_type="pr_creation_failed").payload["failure"]
    assert failure["category"] == "REPOSITORY_ACCESS"
    assert "tokn is not known" in failure["summary"]
    assert "hush" not in failure["summary"]
