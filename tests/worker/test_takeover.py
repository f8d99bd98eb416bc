"""A run that another worker left, in each status, is taken up where it stands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worker.repositories import commit_files, git
from worker.claiming import Worker
from worker.client.errors import Refused, Unavailable
from worker.client.plane import ControlPlane
from worker.config import WorkerConfig
from worker.conformance.stand_in import StandIn
from worker.drain import Drain

Work = Callable[..., None]


@pytest.fixture
def patch(repository: Path) -> bytes:
    """What the agent of the contract would have made."""
    (repository / "notes.txt").write_text("one\nthree\n")
    text = git(repository, "diff", "--binary", "--full-index") + "\n"
    git(repository, "checkout", "-q", "--", ".")
    return text.encode()


@pytest.fixture
def left_behind(plane: StandIn, repository: Path, patch: bytes) -> Callable[[str], None]:
    """A run in this status, with the evidence that must exist in it."""

    def leave(status: str) -> None:
        plane.state.status = status
        plane.fence = 1
        if status != "PREPARING":
            plane.state.base_commit = git(repository, "rev-parse", "HEAD")
        plan = {"files": ["*.txt"], "must_not_change": []}
        plane.state.cited["plan"] = plane.store("plan", json.dumps(plan).encode())
        if status in {"PATCH_READY", "VERIFYING", "JUDGING"}:
            plane.state.cited["patch"] = plane.store("patch", patch)
        if status == "JUDGING":
            report = {
                "patch_sha256": hashlib.sha256(patch).hexdigest(),
                "commands": [{"name": "no-two", "command": "grep", "exit_code": 0, "duration_ms": 1}],
            }
            data = json.dumps(report).encode()
            plane.state.cited["verification_report"] = plane.store("verification_report", data)

    return leave


@pytest.mark.parametrize(
    ("status", "first"),
    [
        ("QUEUED", "worker_started"),
        ("LEASED", "worker_started"),
        ("PREPARING", "sandbox_ready"),
        ("CONTEXT_BUILDING", "sandbox_ready"),
        ("PLANNING", "plan_created"),
        ("EXECUTING", "sandbox_ready"),
        ("PATCH_READY", "verification_started"),
        ("VERIFYING", "sandbox_ready"),
        ("JUDGING", "judge_passed"),
    ],
)
def test_a_run_is_finished_from_any_status(
    plane: StandIn,
    work: Work,
    left_behind: Callable[[str], None],
    status: str,
    first: str,
) -> None:
    left_behind(status)
    work()
    assert plane.types()[0] == first
    assert plane.state.status == "SUCCEEDED"


def test_a_recorded_base_commit_is_kept_when_the_branch_moves(
    plane: StandIn, work: Work, repository: Path, left_behind: Callable[[str], None]
) -> None:
    left_behind("EXECUTING")
    recorded = plane.state.base_commit
    commit_files(repository, {"notes.txt": "one\ntwo\nfour\n"})
    work()
    assert plane.payloads("sandbox_ready")[0]["base_commit"] == recorded
    assert plane.state.status == "SUCCEEDED"


def test_a_pending_call_is_repeated_under_its_own_id(
    plane: StandIn, work: Work, left_behind: Callable[[str], None]
) -> None:
    left_behind("EXECUTING")
    plane.state.pending = [
        {"operation_id": "op-of-the-dead", "tool": "script", "arguments": {"command": "rm notes.txt"}}
    ]
    plane.state.contract["verifiers"] = []
    work()
    assert "tool_requested" not in plane.types()
    assert plane.payloads("tool_completed")[0]["operation_id"] == "op-of-the-dead"
    # A person may have edited the arguments at a gate: those hold.
    assert b"deleted file" in plane.stored("patch")[0]


def test_finished_work_with_a_checkpoint_is_handed_in_without_running_the_agent_again(
    plane: StandIn, work: Work, left_behind: Callable[[str], None], patch: bytes
) -> None:
    left_behind("EXECUTING")
    plane.state.cited["checkpoint"] = plane.store("checkpoint", patch)
    plane.state.steps = [{"operation_id": "run_1.a1.r0.f1", "state": "SUCCEEDED"}]
    work()
    assert "tool_requested" not in plane.types()
    assert plane.stored("patch")[0] == patch
    assert plane.state.status == "SUCCEEDED"


def test_a_lost_call_is_run_again_on_the_checkpoint(
    plane: StandIn, work: Work, left_behind: Callable[[str], None], repository: Path
) -> None:
    left_behind("EXECUTING")
    (repository / "first.txt").write_text("saved\n")
    git(repository, "add", "-N", "first.txt")
    saved = (git(repository, "diff", "--binary") + "\n").encode()
    plane.state.cited["checkpoint"] = plane.store("checkpoint", saved)
    step = {"operation_id": "run_1.a1.r0.f1", "state": "SUCCEEDED"}
    plane.state.steps, plane.state.lost = [step], [step]
    work()
    assert plane.payloads("tool_requested")[0]["operation_id"] == "run_1.a1.r0.f2"
    handed_in = plane.stored("patch")[0]
    assert b"+saved" in handed_in
    assert b"+three" in handed_in


def test_lost_work_without_a_checkpoint_aborts_the_attempt(
    plane: StandIn, work: Work, left_behind: Callable[[str], None]
) -> None:
    left_behind("EXECUTING")
    plane.state.lost = [{"operation_id": "run_1.a1.r0.f1"}]
    # The follow-up of the control plane: a new attempt, in which nothing is lost.
    plane.after_event = lambda event: plane.state.lost.clear() if event == "attempt_finished" else None
    work()
    finished = plane.payloads("attempt_finished")[0]
    assert finished["outcome"] == "aborted"
    assert finished["failure"]["reason"] == "workspace_lost"
    assert plane.state.status == "SUCCEEDED"


def test_a_patch_that_does_not_apply_fails_verification_for_good(
    plane: StandIn, work: Work, left_behind: Callable[[str], None]
) -> None:
    left_behind("VERIFYING")
    wrong = b"diff --git a/notes.txt b/notes.txt\n--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-x\n+y\n"
    plane.state.cited["patch"] = plane.store("patch", wrong)
    work()
    failure = plane.payloads("non_retryable_failure")[0]["failure"]
    assert (failure["category"], failure["reason"]) == ("VERIFICATION_FAILED", "patch_does_not_apply")


def test_a_status_of_another_role_is_given_back(plane: StandIn, work: Work) -> None:
    plane.state.status = "PR_CREATING"
    work()
    assert plane.released == ["this worker does nothing in PR_CREATING"]


def test_a_worker_of_one_role_stops_where_the_next_role_begins(
    plane: StandIn, work: Work, left_behind: Callable[[str], None]
) -> None:
    left_behind("PATCH_READY")
    # The control plane ends the lease where the status passes to a role that this worker has not.
    plane.after_event = lambda event: (
        setattr(plane, "lease_token", None) if event == "verification_passed" else None
    )
    plane.roles = {"verifier"}
    work()
    assert plane.types()[-1] == "verification_passed"
    assert plane.state.status == "JUDGING"
    assert not plane.released


def test_a_judge_is_a_service_of_its_own(
    plane: StandIn, make_worker: Callable[..., Any], left_behind: Callable[[str], None]
) -> None:
    left_behind("JUDGING")
    plane.roles = {"judge"}
    plane.after_event = lambda event: setattr(plane, "lease_token", None) if event == "judge_passed" else None
    make_worker(roles=("judge",)).run(once=True)
    assert plane.types() == ["judge_passed"]
    (report,) = plane.stored("judge_report")
    assert json.loads(report)["verdict"] == "pass"


def test_a_role_asked_for_by_name_that_the_account_has_not_is_an_error(
    plane: StandIn, make_worker: Callable[..., Any]
) -> None:
    plane.roles = {"verifier"}
    with pytest.raises(Refused, match="actor_not_allowed"):
        make_worker(roles=("verifier", "judge")).run(once=True)


def test_an_analysis_is_taken_up_where_it_is_judged(
    plane: StandIn, work: Work, left_behind: Callable[[str], None]
) -> None:
    left_behind("JUDGING")
    plane.state.contract["completion_mode"] = "analysis_report_created"
    report = plane.store("analysis_report", b"clock.py tells the hour. " * 30)
    plane.store("analysis_report", b"an older try " * 30)
    plane.state.cited["checkpoint"] = report
    work()
    assert plane.state.status == "SUCCEEDED"
    judged = json.loads(plane.stored("judge_report")[0])
    assert judged["subject_sha256"] == report["sha256"]


def test_an_analysis_sent_back_runs_again_without_restoring_its_report(
    plane: StandIn, work: Work, left_behind: Callable[[str], None]
) -> None:
    left_behind("EXECUTING")
    plane.state.contract["completion_mode"] = "analysis_report_created"
    plane.state.contract["agent"]["command"] = "seq 60"
    plane.state.cited["checkpoint"] = plane.store("analysis_report", b"too short")
    plane.state.repairs = 1
    work()
    assert plane.state.status == "SUCCEEDED"


def test_a_run_given_up_is_not_claimed_again_at_once(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Impatient(Drain):
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            if len(waits) == 3:
                self.ask()
            return self.asked

    client = ControlPlane(url="http://127.0.0.1:9", token="token")
    worker = Worker(config=WorkerConfig(work_dir=work_dir), plane=client, drain=Impatient(grace_seconds=0))
    monkeypatch.setattr(worker, "_claim", object)
    monkeypatch.setattr(worker, "work_on", lambda claim: Unavailable("500 internal"))
    worker.run()
    client.close()
    # Each wait is drawn from a range twice as long as the one before.
    assert 0.5 <= waits[0] <= 1.0 <= waits[1] <= 2.0 <= waits[2] <= 4.0
