"""Cancel, pause and wind-down in every status (section 9).

After each, rows are what the log folds to (see ``folds_back``).
"""

from __future__ import annotations

from typing import Any

import pytest

from runs import auth, leases, service
from runs.domain.errors import (
    DirectivePending,
    NotAllowedNow,
)
from runs.domain.outcome import outcome
from runs.domain.vocabulary import (
    MACHINE_ROLES,
    Directive,
    Ev,
    Role,
    RunStatus,
)
from tests import factories
from tests.driver import Driver, contract_of, failure_of

pytestmark = pytest.mark.django_db

S = RunStatus
LEASED = [S.LEASED, S.PREPARING, S.CONTEXT_BUILDING, S.PLANNING, S.EXECUTING, S.PATCH_READY, S.VERIFYING]


@pytest.mark.parametrize("status", [S.CREATED, S.QUEUED, S.WAITING_FOR_APPROVAL])
def test_cancelling_what_nobody_holds_is_done_at_once(status: RunStatus):
    driver = Driver.at(status)
    driver.direct(Ev.CANCEL_REQUESTED, "not needed")
    state = driver.state
    assert (state.status, state.cancel_reason, driver.task.status) == (S.CANCELLED, "not needed", "CANCELLED")
    assert driver.types()[-2:] == [Ev.CANCEL_REQUESTED, Ev.RUN_CANCELLED]


@pytest.mark.parametrize("status", [*LEASED, S.JUDGING])
def test_cancelling_what_is_held_waits_for_the_worker(status: RunStatus):
    driver = Driver.at(status)
    driver.direct(Ev.CANCEL_REQUESTED)
    assert (driver.state.status, driver.state.directive) == (status, Directive.CANCEL)
    beat = leases.lease_heartbeat(
        principal=auth.of_worker(driver.worker), run_id=driver.run_id, token=driver.token
    )
    assert beat.directive == Directive.CANCEL
    assert driver.types()[-1] == Ev.DIRECTIVE_SEEN
    with pytest.raises(DirectivePending) as refused:
        driver.post(Ev.NON_RETRYABLE_FAILURE)
    assert Ev.RUN_CANCELLED in refused.value.extra["allowed_events"]
    driver.post(Ev.RUN_CANCELLED)
    assert (driver.state.status, driver.state.cleanup or {})[0] == S.CANCELLED
    assert (driver.state.cleanup or {})["cleanup"] == "done"


def test_a_cancelled_run_whose_worker_died_ends_with_cleanup_unknown():
    driver = Driver.at(S.EXECUTING)
    driver.direct(Ev.CANCEL_REQUESTED)
    driver.lose_lease()
    assert driver.state.status == S.CANCELLED
    assert (driver.state.cleanup or {})["cleanup"] == "unknown"


@pytest.mark.parametrize("directive", [Ev.CANCEL_REQUESTED, Ev.WIND_DOWN_REQUESTED])
def test_what_people_stopped_is_not_begun_anew_however_it_ends(directive: Ev):
    driver = Driver.at(S.EXECUTING, budget={"max_attempts": 1})
    driver.direct(directive)
    driver.post(
        Ev.ATTEMPT_FINISHED,
        {"outcome": "failed", "failure": failure_of("INFRASTRUCTURE")},
        role=Role.CONTROL_PLANE,
    )
    assert driver.state.status == S.CANCELLED
    assert driver.task.status == "CANCELLED"
    other = Driver.at(S.EXECUTING)
    other.direct(Ev.WIND_DOWN_REQUESTED)
    other.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of("INFRASTRUCTURE")})
    assert (other.state.status, other.task.runs_made) == (S.FAILED, 1)
    assert other.types()[-1] == Ev.RETRY_DECLINED


def test_a_cancelled_run_is_not_stopped_by_what_it_cost():
    policy = {"on_budget_exceeded": "ask"}
    driver = Driver.at(S.EXECUTING, policy=policy, budget={"max_cost_usd": "1"})
    driver.post(Ev.TOOL_REQUESTED)
    driver.direct(Ev.CANCEL_REQUESTED)
    driver.post(Ev.TOOL_COMPLETED, {"operation_id": "op-1", "outcome": "failed", "cost_usd": 3})
    assert (driver.state.status, driver.state.used["cost_usd"]) == (S.EXECUTING, "3")
    driver.post(Ev.RUN_CANCELLED)


def test_a_pull_request_not_begun_is_cancelled_at_once():
    driver = Driver.at(S.WAITING_FOR_APPROVAL)
    driver.decide(Ev.APPROVED)
    driver.direct(Ev.CANCEL_REQUESTED)
    assert driver.state.status == S.CANCELLED


@pytest.mark.parametrize("found", [True, False])
def test_a_pull_request_once_begun_is_reconciled_first(found: bool):
    driver = Driver.at(S.WAITING_FOR_APPROVAL)
    driver.decide(Ev.APPROVED)
    driver.claim(Role.GIT_INTEGRATION)
    driver.lose_lease()
    driver.direct(Ev.CANCEL_REQUESTED)
    assert driver.state.status == S.PR_CREATING
    driver.claim(Role.GIT_INTEGRATION)
    driver.post(Ev.PR_CREATED if found else Ev.RUN_CANCELLED)
    assert driver.state.status == (S.SUCCEEDED if found else S.CANCELLED)


def test_a_judge_that_integrates_too_has_begun_where_it_keeps_its_lease():
    run = factories.queued_run(auto_pr=True)
    holder = factories.drive(factories.claim(factories.worker(*MACHINE_ROLES), run), S.JUDGING)
    holder.judge()
    assert (holder.state.status, holder.state.pr_begun) == (S.PR_CREATING, True)
    by: Any = auth.of_person(run.task.created_by).caller
    service.run_direct(run_id=run.pk, event=Ev.CANCEL_REQUESTED, reason="x", by=by)
    assert holder.state.status == S.PR_CREATING
    holder.open_pull_request()
    assert holder.state.status == S.SUCCEEDED


@pytest.mark.parametrize("status", [S.PR_CREATED, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.EXPIRED])
def test_too_late_to_cancel_says_what_to_do(status: RunStatus):
    driver = Driver.at(status)
    with pytest.raises(NotAllowedNow, match="instead"):
        driver.direct(Ev.CANCEL_REQUESTED)


def test_a_repeated_cancel_of_a_key_is_answered_again_after_the_end():
    driver = Driver.started()
    asked: dict[str, Any] = {
        "run_id": driver.run_id,
        "event": Ev.CANCEL_REQUESTED,
        "reason": "x",
        "by": driver.human,
    }
    first = service.run_direct(**asked, key="k")
    again = service.run_direct(**asked, key="k")
    assert again.replayed
    assert first.event is not None
    assert again.event is not None
    assert again.event.id == first.event.id


@pytest.mark.parametrize("status", LEASED)
def test_a_paused_run_goes_on_where_it_stood(status: RunStatus):
    driver = Driver.at(status)
    driver.direct(Ev.PAUSE_REQUESTED)
    driver.post(Ev.RUN_INTERRUPTED)
    stood = S.QUEUED if status is S.LEASED else status
    assert (driver.state.status, outcome(driver.state)) == (stood, "interrupted")
    assert driver.run.claim_role == ""
    driver.direct(Ev.RUN_RESUMED)
    driver.claim()
    driver.drive(S.SUCCEEDED)


def test_a_pause_keeps_the_checkpoint_it_was_reported_with():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.TOOL_REQUESTED)
    driver.post(Ev.TOOL_COMPLETED)
    driver.direct(Ev.PAUSE_REQUESTED)
    with pytest.raises(DirectivePending):
        driver.post(Ev.TOOL_REQUESTED)
    saved = driver.checkpoint()["checkpoint_artifact_id"]
    driver.post(Ev.RUN_INTERRUPTED, {"checkpoint_artifact_id": saved})
    state = driver.state
    assert (state.checkpoint or {})["id"] == saved
    assert (state.lost, state.attempts_started, state.used["takeovers"]) == ([], 1, 0)


def test_winding_down_hands_in_what_there_is():
    driver = Driver.at(S.EXECUTING)
    driver.direct(Ev.WIND_DOWN_REQUESTED)
    with pytest.raises(DirectivePending):
        driver.post(Ev.TOOL_REQUESTED)
    assert driver.drive(S.SUCCEEDED).directive == Directive.WIND_DOWN


def _wind_down(driver: Driver) -> None:
    driver.direct(Ev.WIND_DOWN_REQUESTED)


@pytest.mark.parametrize("event", [Ev.VERIFICATION_FAILED_RETRYABLE, Ev.JUDGE_REQUIRES_FIX])
def test_winding_down_makes_no_repairs(event: Ev):
    driver = Driver.at(S.VERIFYING if event is Ev.VERIFICATION_FAILED_RETRYABLE else S.JUDGING)
    _wind_down(driver)
    driver.post(event)
    assert driver.state.status == S.CANCELLED
    assert driver.state.patch, "its evidence is kept"


def test_winding_down_starts_no_attempt():
    driver = Driver.at(S.EXECUTING)
    _wind_down(driver)
    driver.post(Ev.ATTEMPT_FINISHED, role=Role.AGENT_RUNTIME)
    assert driver.state.status == S.CANCELLED
    assert driver.state.attempts_started == 1


def test_winding_down_ends_where_a_reviewer_would_send_it_back():
    driver = Driver.at(S.WAITING_FOR_APPROVAL)
    _wind_down(driver)
    assert driver.state.status == S.WAITING_FOR_APPROVAL, "the patch may still be taken"
    driver.decide(Ev.CHANGES_REQUESTED)
    assert (driver.state.status, driver.task.status) == (S.CANCELLED, "CANCELLED")


@pytest.mark.parametrize("gate", ["plan", "question", "tool_call"])
def test_winding_down_waits_for_no_answer_that_would_lead_to_new_work(gate: str):
    wanted = "required" if gate == "plan" else "never"
    driver = Driver.at(S.PLANNING if gate == "plan" else S.EXECUTING, plan_approval=wanted)
    if gate == "tool_call":
        driver.post(Ev.TOOL_REQUESTED, {**driver.tool(), "requires_approval": True})
    else:
        driver.post(Ev.PLAN_CREATED if gate == "plan" else Ev.QUESTION_ASKED)
    assert (driver.state.gate or {})["gate"] == gate
    _wind_down(driver)
    assert driver.state.status == S.CANCELLED


def test_a_cancelled_parent_cancels_its_parts():
    parent = Driver.started()
    parts = [_part_of(parent) for _ in range(3)]
    parts[0].direct(Ev.CANCEL_REQUESTED)
    parts[1].drive(S.EXECUTING)
    parent.direct(Ev.CANCEL_REQUESTED)
    cancelled = service.parts_cancel(task_id=parent.task_id)
    assert cancelled == sorted(part.task_id for part in parts[1:])
    assert parts[1].state.directive == Directive.CANCEL
    assert parts[2].state.status == S.CANCELLED
    assert parent.task_id in parts[2].state.cancel_reason
    assert service.parts_cancel(task_id=parent.task_id) == [parts[1].task_id], "and nothing is doubled"
    assert parts[1].types().count(Ev.CANCEL_REQUESTED) == 1


def _part_of(parent: Driver) -> Driver:
    part = Driver.prepared()
    data = contract_of()
    task, _ = service.task_create(data=data, repository=part.repository, by=part.human, parent=parent.task)
    part.task_id, part.run_id = task.pk, task.latest_run_id
    return part


@pytest.mark.parametrize("status", [S.QUEUED, S.PREPARING, S.EXECUTING])
def test_winding_down_with_nothing_to_hand_in_ends_at_once(status: RunStatus):
    driver = Driver.at(status)
    if driver.state.holder:
        driver.post(Ev.LEASE_RELEASED)
    _wind_down(driver)
    assert driver.state.status == S.CANCELLED
