"""Lost workers, takeovers and retries (sections 8, 11 and 12).

After each, rows are what the log folds to (see ``folds_back``).
"""

from __future__ import annotations

import pytest

from runs import service
from runs.domain.errors import (
    GuardFailed,
    NotAllowedNow,
    RunTerminal,
)
from runs.domain.outcome import outcome
from runs.domain.vocabulary import (
    Ev,
    Role,
    RunStatus,
)
from tests.driver import BASE, Driver, failure_of

pytestmark = pytest.mark.django_db

S = RunStatus


def test_a_worker_lost_before_it_began_expires_the_run():
    driver = Driver.at(S.EXPIRED)
    assert driver.types()[-3:] == [Ev.LEASE_LOST, Ev.TIMEOUT, Ev.RETRY_SCHEDULED]
    assert (driver.state.expiration or {})["scope"] == "lease"
    assert outcome(driver.state) == "timed_out"
    assert driver.follow().attempt_no == 2
    assert driver.drive(S.SUCCEEDED).attempt_no == 2


def test_a_taker_goes_on_from_the_checkpoint():
    driver = Driver.at(S.EXECUTING)
    for outside in (False, True):
        driver.post(Ev.TOOL_REQUESTED, driver.tool(effect="outside" if outside else "workspace"))
        driver.post(Ev.TOOL_COMPLETED)
    driver.post(Ev.CHECKPOINT_SAVED)
    driver.post(Ev.TOOL_REQUESTED)
    driver.post(Ev.TOOL_COMPLETED)
    driver.post(Ev.TOOL_REQUESTED)
    driver.lose_lease()
    state = driver.state
    assert (state.attempts_started, state.lost, list(state.pending)) == (1, ["op-3"], ["op-4"])
    assert [op["operation_id"] for op in state.operations] == ["op-2"]
    driver.claim()
    assert driver.state.fence == 2
    driver.post(Ev.SANDBOX_READY)
    driver.post(Ev.TOOL_REQUESTED, {**driver.tool(), "operation_id": "op-3"})
    with pytest.raises(NotAllowedNow, match="its result stands"):
        driver.post(Ev.TOOL_REQUESTED, {**driver.tool(), "operation_id": "op-2"})
    driver.post(Ev.TOOL_COMPLETED, {"operation_id": "op-3", "outcome": "succeeded"})
    driver.drive(S.SUCCEEDED)


def test_without_a_checkpoint_the_attempt_is_aborted():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.TOOL_REQUESTED)
    driver.post(Ev.TOOL_COMPLETED)
    driver.lose_lease()
    attempts = driver.run.attempts.values_list("number", "state")
    assert list(attempts) == [(1, "ABORTED"), (2, "STARTED")]
    driver.drive(S.SUCCEEDED)


def test_work_that_died_at_a_gate_is_listed_as_lost():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.TOOL_REQUESTED)
    driver.post(Ev.TOOL_COMPLETED)
    driver.post(Ev.QUESTION_ASKED)
    assert (driver.state.unsaved, driver.state.lost) == ([], ["op-1"])


def test_too_many_takeovers_expire_the_run():
    driver = Driver.at(S.EXECUTING)
    driver.lose_lease()
    for _ in range(2):
        assert driver.state.status == S.EXECUTING
        driver.claim()
        driver.lose_lease()
    assert (driver.state.status, (driver.state.expiration or {})["scope"]) == (S.EXPIRED, "heartbeat")
    assert driver.types().count(Ev.RETRY_SCHEDULED) == 1
    assert driver.follow().status == S.QUEUED


def test_a_worker_that_gives_back_without_beginning_counts_as_a_takeover():
    driver = Driver.started()
    for _ in range(3):
        driver.claim()
        driver.post(Ev.LEASE_RELEASED)
    assert driver.state.status == S.EXPIRED
    assert driver.types().count(Ev.RETRY_SCHEDULED) == 1


def test_nobody_can_lose_a_lease_that_nobody_has():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.LEASE_RELEASED)
    with pytest.raises(NotAllowedNow):
        driver.lose_lease()
    assert driver.state.used["takeovers"] == 0


def test_a_taker_stands_on_the_recorded_commit():
    driver = Driver.at(S.EXECUTING)
    driver.lose_lease()
    driver.claim()
    with pytest.raises(GuardFailed):
        driver.post(Ev.SANDBOX_READY, {"sandbox_id": "s", "base_commit": "e" * 40})
    driver.post(Ev.SANDBOX_READY, {"sandbox_id": "s", "base_commit": BASE})


def test_a_late_result_of_a_dead_worker_changes_nothing():
    driver = Driver.at(S.EXECUTING)
    old, driver.token = driver.token, ""
    driver.post(Ev.LEASE_LOST, {})
    driver.claim()
    before = driver.types()
    with pytest.raises(Exception, match="not the active one"):
        driver.post(Ev.PATCH_CREATED, driver.patch(), lease_token=old)
    assert driver.types() == before


@pytest.mark.parametrize(
    ("status", "category", "task_status", "rule"),
    [
        (S.PREPARING, "INFRASTRUCTURE", "RUNNING", "work_again"),
        (S.PLANNING, "PLANNING_FAILED", "RUNNING", "smaller_context"),
        (S.EXECUTING, "BUDGET_EXCEEDED", "FAILED", "no_retry_for_this"),
        (S.EXECUTING, "TOOL_FAILED", "RUNNING", "work_again"),
        (S.VERIFYING, "VERIFICATION_FAILED", "FAILED", "no_retry_for_this"),
        (S.JUDGING, "JUDGE_REJECTED", "FAILED", "no_retry_for_this"),
        (S.JUDGING, "INFRASTRUCTURE", "RUNNING", "work_again"),
        (S.PR_CREATING, "INFRASTRUCTURE", "FAILED", "pr_given_up"),
        (S.EXECUTING, "POLICY_DENIED", "FAILED", "final_policy"),
        (S.EXECUTING, "UNKNOWN", "WAITING_FOR_APPROVAL", "person_decides"),
        (S.CONTEXT_BUILDING, "REPOSITORY_ACCESS", "FAILED", "no_retry_for_this"),
        (S.PREPARING, "REPOSITORY_ACCESS", "WAITING_FOR_APPROVAL", "access_to_renew"),
    ],
)
def test_the_retry_matrix(status: RunStatus, category: str, task_status: str, rule: str):
    driver = Driver.at(status)
    if driver.state.holder is None:
        driver.claim()
    driver.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of(category, "it_broke")})
    assert driver.state.status == S.FAILED
    assert (driver.state.retry or {})["rule"] == rule
    assert driver.task.status == task_status
    assert driver.task.runs_made == (2 if task_status == "RUNNING" else 1)


def test_renewed_access_makes_a_new_run():
    driver = Driver.at(S.PREPARING)
    driver.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of("REPOSITORY_ACCESS", "denied")})
    service.access_renewed(task_id=driver.task_id, by=driver.human)
    assert driver.follow().attempt_no == 2
    with pytest.raises(NotAllowedNow):
        service.access_renewed(task_id=driver.task_id, by=driver.human)
    driver.drive(S.SUCCEEDED)
    assert driver.task.status == "COMPLETED"


def test_a_deterministic_failure_is_not_repeated():
    driver = Driver.at(S.EXECUTING)
    broken = {"failure": failure_of("TOOL_FAILED", "linter_missing")}
    driver.post(Ev.NON_RETRYABLE_FAILURE, broken)
    driver.follow()
    driver.drive(S.EXECUTING)
    driver.post(Ev.NON_RETRYABLE_FAILURE, broken)
    assert (driver.state.retry or {})["rule"] == "deterministic"
    assert (driver.task.status, driver.task.runs_made) == ("FAILED", 2)


def test_a_new_instruction_makes_a_deterministic_failure_worth_another_try():
    driver = Driver.at(S.EXECUTING)
    broken = {"failure": failure_of("TOOL_FAILED", "linter_missing")}
    driver.post(Ev.NON_RETRYABLE_FAILURE, broken)
    driver.follow()
    service.instruction_add(task_id=driver.task_id, text="Install the linter.", by=driver.human)
    driver.drive(S.EXECUTING)
    driver.post(Ev.NON_RETRYABLE_FAILURE, broken)
    assert driver.task.runs_made == 3


def test_a_task_has_its_runs_and_no_more():
    driver = Driver.started()
    for number in (1, 2, 3):
        assert driver.state.attempt_no == number
        driver.drive(S.EXPIRED)
        driver.follow()
    assert driver.task.status == "FAILED"
    assert (driver.state.retry or {})["rule"] == "max_runs"


def test_a_new_run_gets_the_money_that_is_left():
    driver = Driver.at(S.EXECUTING, policy={"budget": {"max_cost_usd": "10"}})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "6"})
    driver.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of("INFRASTRUCTURE", "node_gone")})
    assert driver.follow().budget["max_cost_usd"] == "4"
    driver.drive(S.EXECUTING)
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "0.5"})
    driver.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of("INFRASTRUCTURE", "node_gone")})
    assert (driver.state.retry or {})["rule"] == "work_again", "3.50 of 10.00 are left"
    assert driver.follow().budget["max_cost_usd"] == "3.5"


def test_a_worker_may_say_that_trying_again_would_not_help():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of(retryable=False)})
    assert (driver.state.retry or {})["rule"] == "worker_says_final"


def test_opening_a_pull_request_is_tried_five_times():
    driver = Driver.at(S.PR_CREATING)
    driver.post(Ev.PR_CREATION_FAILED)
    for _ in range(4):
        state = driver.state
        assert (state.status, state.holder) == (S.PR_CREATING, None)
        assert state.not_before
        driver.post(Ev.PRIORITY_CHANGED, {"priority": 5, "start_now": True})
        driver.claim(Role.GIT_INTEGRATION)
        driver.post(Ev.PR_CREATION_FAILED)
    assert driver.state.status == S.FAILED
    assert driver.types().count(Ev.RETRY_DECLINED) == 1
    with pytest.raises(RunTerminal):
        driver.post(Ev.PR_CREATED)


def test_only_the_last_worker_reports_on_an_ended_run():
    driver = Driver.at(S.FAILED)
    driver.post(Ev.CLEANUP_REPORTED)
    assert (driver.state.cleanup or {})["cleanup"] == "done"
    stranger = Driver.prepared().worker
    driver.worker = stranger
    with pytest.raises(Exception, match="last lease"):
        driver.post(Ev.CLEANUP_REPORTED)
