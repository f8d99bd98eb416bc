"""The git integration brings out exactly what was approved, once, whatever happens in between."""

import io
from datetime import timedelta

import pytest
from django.core.management import call_command

from agentplatform.clock import database_now
from runs import auth, leases, service, store
from runs.domain.commands import CONTROL_PLANE, Command
from runs.domain.errors import Invalid
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, Role, RunStatus
from runs.models import Artifact, Lease, PullRequest, Run, RunEvent, Task, WorkerAccount
from runs.pull_requests import run as pull_requests
from runs.pull_requests.run import ACCOUNT, Done, create_pull_requests, integration_account
from runs.pull_requests.text import branch_name
from tests import factories
from tests.evidence import stored_at
from tests.pushing import bring, commit_to_main, git

pytestmark = pytest.mark.django_db

S = RunStatus


@pytest.fixture
def origin(tmp_path):
    return factories.make_origin(tmp_path / "origin")


@pytest.fixture
def approved(origin):
    return bring(origin)


def run_of(holder) -> Run:
    return Run.objects.get(pk=holder.run_id)


def branches(origin) -> list[str]:
    return git("for-each-ref", "--format=%(refname:short)", "refs/heads/agent", at=origin.path).split()


def lose_lease(holder) -> None:
    service.apply_event(holder.run_id, Command(Ev.LEASE_LOST, {}, CONTROL_PLANE, ""))


def wait_long(holder) -> None:
    """The pause it was given has jitter, from nothing on; a test needs one that is not over yet."""
    later = database_now() + timedelta(hours=1)
    assert Run.objects.filter(pk=holder.run_id, not_before__isnull=False).update(not_before=later) == 1


def cancel(holder) -> None:
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="changed my mind", by=by)


def test_a_branch_that_is_another_runs_is_refused_and_nothing_is_recorded():
    where = factories.repository()
    first = factories.run_in(RunStatus.SUCCEEDED, where=where).run
    integration = factories.worker(Role.GIT_INTEGRATION)
    second = factories.claim(integration, factories.run_in(RunStatus.PR_CREATING, where=where).run)
    payload = {
        "provider": "git", "url": "file:///origin.git", "branch": first.pull_request.branch,
        "commit_sha": "c" * 40, "tree_sha": (second.state.patch or {})["tree"], "body": "What was done.",
    }  # fmt: skip
    with pytest.raises(Invalid) as refused:
        second.post(Ev.PR_CREATED, **payload)
    assert first.pk in str(refused.value.extra)
    assert second.run.status == RunStatus.PR_CREATING


def test_an_approved_patch_becomes_one_branch_with_one_commit(origin, approved):
    assert create_pull_requests() == [Done(approved.run_id, "pr_created")]
    run = run_of(approved)
    assert (run.status, Task.objects.get(pk=run.task_id).status) == (S.SUCCEEDED, "COMPLETED")
    (branch,) = branches(origin)
    record = PullRequest.objects.get(run=run)
    assert (record.branch, record.commit_sha) == (branch, git("rev-parse", branch, at=origin.path))
    assert git("rev-parse", f"{branch}^", at=origin.path) == origin.commit
    assert git("diff", "--name-only", origin.commit, branch, at=origin.path) == "clock.py"
    assert create_pull_requests() == []


def test_the_body_shows_the_evidence_and_lets_no_words_act(origin, settings):
    settings.PUBLIC_URL = "https://agents.example.invalid"
    bring(origin, title="Fix @everyone [x](http://evil.invalid) #1")
    create_pull_requests()
    body = PullRequest.objects.get().body
    assert f"https://agents.example.invalid/runs/{PullRequest.objects.get().run_id}/" in body
    for words in ("test: exit code 0", "verdict pass, confidence 0.95", "secret\\_scan: passed"):
        assert words in body
    assert "\\@everyone \\[x\\]\\(http://evil.invalid\\) \\#1" in body


def test_a_command_does_the_same(approved):
    out = io.StringIO()
    call_command("create_pull_requests", stdout=out)
    assert out.getvalue() == f"{approved.run_id}: pr_created\n"


def test_the_integration_has_no_token_and_only_its_role():
    account = integration_account()
    assert (account.name, account.roles, account.tokens.count()) == (ACCOUNT, [Role.GIT_INTEGRATION], 0)
    assert integration_account() == account
    assert WorkerAccount.objects.filter(name=ACCOUNT).count() == 1


def test_labels_and_isolation_that_agents_need_do_not_keep_a_patch_in(origin):
    where = factories.repository(url=origin.url, policy={"require_isolation": "none"})
    holder = bring(origin, where=where, needs=["gpu"])
    store.add_policy_version(where.policy, {"require_isolation": "vm"}, by="test")
    assert create_pull_requests() == [Done(holder.run_id, "pr_created")]


def test_a_crash_after_the_push_is_found_by_the_next_try(origin, approved, monkeypatch):
    apply = service.apply_event
    calls: list[Command] = []

    def crash_once(run_id, command):
        if command.event is Ev.PR_CREATED and not calls:
            calls.append(command)
            raise KeyboardInterrupt
        return apply(run_id, command)

    monkeypatch.setattr(service, "apply_event", crash_once)
    with pytest.raises(KeyboardInterrupt):
        create_pull_requests()
    pushed = git("rev-parse", *branches(origin), at=origin.path)
    lease = Lease.objects.get(run_id=approved.run_id, ended_at=None)
    lose_lease(approved)
    assert create_pull_requests() == [Done(approved.run_id, "pr_created")]
    assert PullRequest.objects.get().commit_sha == pushed
    assert RunEvent.objects.filter(event_type="pr_created").count() == 1
    assert Lease.objects.filter(run_id=approved.run_id, fence__gt=lease.fence).count() == 1


def test_a_repository_that_cannot_be_reached_is_tried_again_then_given_up(origin, approved, tmp_path):
    origin.path.rename(tmp_path / "away")
    for _ in range(5):
        assert [done.event for done in create_pull_requests()] == ["pr_creation_failed"]
        assert create_pull_requests() == [], "it waits before the next try"
        Run.objects.filter(pk=approved.run_id).update(not_before=None)
    run = run_of(approved)
    assert (run.status, run.failure_category) == (S.FAILED, "PR_CREATION_FAILED")


def test_access_that_comes_back_in_time_needs_no_new_approval(origin, approved, tmp_path):
    away = origin.path.rename(tmp_path / "away")
    create_pull_requests()
    away.rename(origin.path)
    wait_long(approved)
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.task_retry(task_id=run_of(approved).task_id, by=by)
    assert create_pull_requests() == [Done(approved.run_id, "pr_created")]


def test_a_branch_with_somebody_elses_commit_is_never_overwritten(origin, approved):
    branch = branch_name(approved.run_id, run_of(approved).task.title)
    git("branch", branch, "main", at=origin.path)
    assert create_pull_requests() == [Done(approved.run_id, "non_retryable_failure")]
    assert run_of(approved).state["failure"]["reason"] == "branch_conflict"
    assert git("rev-parse", branch, at=origin.path) == origin.commit


@pytest.mark.parametrize(
    ("meanwhile", "status", "reason"),
    [
        ({"clock.py": "def now():\n    return None\n"}, S.FAILED, "base_conflict"),
        ({"other.py": "\n"}, S.SUCCEEDED, ""),
        ({"clock.py": factories.EDITED}, S.FAILED, "no_changes"),
    ],
)
def test_a_base_that_moved_is_never_merged_silently(origin, approved, meanwhile, status, reason):
    commit_to_main(origin, meanwhile)
    create_pull_requests()
    run = run_of(approved)
    assert (run.status, (run.state["failure"] or {}).get("reason", "")) == (status, reason)
    assert ("What helps is a new run" in str(run.state["failure"])) == (reason == "base_conflict")
    assert len(branches(origin)) == (1 if status is S.SUCCEEDED else 0)


def test_other_bytes_than_the_approved_ones_never_go_out(origin, approved):
    artifact = Artifact.objects.get(run_id=approved.run_id, kind=ArtifactKind.PATCH)
    path = stored_at(artifact)
    path.write_bytes(path.read_bytes().replace(b"clock.py", b"other.py"))
    try:
        create_pull_requests()
    finally:
        path.write_bytes(origin.patch)
    assert run_of(approved).state["failure"]["reason"] == "artifact_missing"
    assert branches(origin) == []


def test_other_paths_than_the_guards_saw_never_go_out(origin, approved):
    artifact = Artifact.objects.get(run_id=approved.run_id, kind=ArtifactKind.PATCH)
    facts = artifact.facts
    facts["files"][0]["path"] = "harmless.py"
    Artifact.objects.filter(pk=artifact.pk).update(facts=facts)
    create_pull_requests()
    failure = run_of(approved).state["failure"]
    assert (failure["category"], failure["reason"]) == ("POLICY_DENIED", "paths_differ")
    assert branches(origin) == []


def test_a_policy_that_forbids_the_path_meanwhile_holds(origin):
    where = factories.repository(url=origin.url, policy={"forbidden_paths": []})
    holder = bring(origin, where=where)
    store.add_policy_version(where.policy, {"forbidden_paths": ["clock.py"]}, by="test")
    create_pull_requests()
    assert run_of(holder).state["failure"]["reason"] == "guards_differ"
    assert branches(origin) == []


def die_after_the_push(monkeypatch) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pull_requests, "_created", die)
        with pytest.raises(KeyboardInterrupt):
            create_pull_requests()


def test_what_went_out_before_the_policy_forbade_it_is_recorded(origin, monkeypatch):
    where = factories.repository(url=origin.url, policy={"forbidden_paths": []})
    holder = bring(origin, where=where)
    die_after_the_push(monkeypatch)
    lose_lease(holder)
    store.add_policy_version(where.policy, {"forbidden_paths": ["clock.py"]}, by="test")
    assert create_pull_requests() == [Done(holder.run_id, "pr_created")]
    assert PullRequest.objects.get().branch in branches(origin)


def test_cancelled_without_its_bytes_it_does_not_say_that_nothing_went_out(origin, approved, monkeypatch):
    die_after_the_push(monkeypatch)
    cancel(approved)
    lose_lease(approved)
    path = stored_at(Artifact.objects.get(run_id=approved.run_id, kind=ArtifactKind.PATCH))
    path.unlink()
    try:
        assert create_pull_requests() == [Done(approved.run_id, "run_cancelled")]
    finally:
        path.write_bytes(origin.patch)
    payload = RunEvent.objects.get(run_id=approved.run_id, event_type="run_cancelled").payload
    assert payload["cleanup"] == "unknown"
    assert "cannot be told" in payload["note"]


def test_cancelled_after_the_push_the_pull_request_wins(origin, approved, monkeypatch):
    die_after_the_push(monkeypatch)
    cancel(approved)
    lose_lease(approved)
    assert create_pull_requests() == [Done(approved.run_id, "pr_created")]
    assert run_of(approved).status == S.SUCCEEDED


def test_cancelled_before_anything_was_pushed_nothing_is(origin, approved):
    principal = auth.of_worker(integration_account())
    assert leases.lease_claim(principal=principal)
    cancel(approved)
    lose_lease(approved)
    assert create_pull_requests() == [Done(approved.run_id, "run_cancelled")]
    assert (run_of(approved).status, branches(origin)) == (S.CANCELLED, [])


def test_a_cancelled_run_whose_provider_is_silent_is_not_ended_by_a_guess(origin, approved, tmp_path):
    principal = auth.of_worker(integration_account())
    assert leases.lease_claim(principal=principal)
    cancel(approved)
    lose_lease(approved)
    origin.path.rename(tmp_path / "away")
    assert create_pull_requests() == [Done(approved.run_id, "lease_released")]
    assert run_of(approved).status == S.PR_CREATING
    assert create_pull_requests() == [], "it is looked at again later"


def test_a_provider_without_an_adapter_is_said_by_name(origin):
    holder = bring(origin)
    repository = run_of(holder).repository
    repository.provider = "somewhere"
    repository.save()
    create_pull_requests()
    failure = run_of(holder).state["failure"]
    assert failure["reason"] == "provider_unknown"
    assert "no adapter for somewhere" in failure["summary"]
