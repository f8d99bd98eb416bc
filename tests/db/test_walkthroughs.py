"""Whole runs through the service: the paths of section 5, retries of section 8, stops of section 9, takeovers
of section 12. After each, rows are what the log folds to (see ``folds_back``)."""

from __future__ import annotations

import pytest

from runs import auth, leases, service
from runs.domain.errors import (
    BudgetExhausted,
    DirectivePending,
    GuardFailed,
    NotAllowedNow,
    RunTerminal,
)
from runs.domain.outcome import outcome
from runs.domain.vocabulary import (
    CompletionMode,
    Directive,
    Ev,
    Gate,
    Role,
    RunStatus,
)
from runs.models import OutboxMessage, Run
from tests.driver import BASE, Driver, failure_of

pytestmark = pytest.mark.django_db

S = RunStatus
LEASED = [S.LEASED, S.PREPARING, S.CONTEXT_BUILDING, S.PLANNING, S.EXECUTING, S.PATCH_READY, S.VERIFYING]


def _outbox(driver: Driver) -> list[str]:
    rows = OutboxMessage.objects.filter(stream=driver.run_id).order_by("id")
    return list(rows.values_list("name", flat=True))


# --- paths --------------------------------------------------------------------------------------


def test_a_pull_request_is_made_and_announced_step_by_step():
    driver = Driver.at(S.SUCCEEDED)
    assert driver.task.status == "COMPLETED"
    assert outcome(driver.state) == "completed"
    assert driver.state.attempts_started == 1
    assert _outbox(driver) == [
        "RunQueued",
        "RunLeased",
        "RunPreparing",
        "RunContextBuilding",
        "RunContextReady",
        "RunPlanCreated",
        "RunPatchReady",
        "RunVerificationStarted",
        "RunVerificationPassed",
        "RunJudgePassed",
        "RunPrCreating",
        "RunPrCreated",
        "RunSucceeded",
    ]


def test_an_analysis_never_has_a_patch():
    driver = Driver.at(S.EXECUTING, completion_mode=CompletionMode.ANALYSIS_REPORT_CREATED.value)
    with pytest.raises(Exception, match="does not take patch_created"):
        driver.post(Ev.PATCH_CREATED, driver.patch())
    driver.drive(S.SUCCEEDED)
    visited = set(Run.objects.get(pk=driver.run_id).events.values_list("to_status", flat=True))
    assert not visited & {S.PATCH_READY, S.VERIFYING, S.PR_CREATING, S.WAITING_FOR_APPROVAL}


def test_a_patch_for_review_ends_without_a_pull_request():
    driver = Driver.at(S.SUCCEEDED, completion_mode=CompletionMode.PATCH_READY_FOR_REVIEW.value)
    assert driver.state.patch is not None
    assert driver.state.guards, "the guards are shown all the same"
    assert Ev.HUMAN_APPROVAL_REQUIRED not in driver.types()


def test_a_secret_in_a_patch_for_review_is_denied():
    mode = CompletionMode.PATCH_READY_FOR_REVIEW.value
    driver = Driver.at(S.EXECUTING, completion_mode=mode)
    found = {"path": "app.py", "line": 3, "rule": "aws", "fingerprint": "x"}
    driver.post(Ev.PATCH_CREATED, driver.patch(secrets=[found]))
    state = driver.drive(S.FAILED)
    assert (state.failure or {})["category"] == "POLICY_DENIED"
    assert driver.task.status == "FAILED"


def test_high_risk_passes_two_gates_with_what_was_shown():
    driver = Driver.at(S.PLANNING, risk_level="high")
    driver.post(Ev.PLAN_CREATED)
    gate = driver.state.gate or {}
    assert (driver.state.status, gate["gate"]) == (S.WAITING_FOR_APPROVAL, Gate.PLAN)
    assert driver.task.status == "WAITING_FOR_APPROVAL"
    stale = driver.decision()
    driver.decide(Ev.VOTE_RECORDED)
    with pytest.raises(Exception, match="changed since"):
        driver.decide(Ev.APPROVED, version=99)
    driver.decide(Ev.APPROVED)
    assert (driver.state.status, driver.task.status) == (S.EXECUTING, "RUNNING")
    driver.drive(S.WAITING_FOR_APPROVAL)
    assert (driver.state.gate or {})["gate"] == Gate.PATCH
    with pytest.raises(Exception, match="changed since"):
        driver.post(Ev.APPROVED, stale)
    driver.decide(Ev.APPROVED)
    assert driver.drive(S.SUCCEEDED).effective_risk == "high"


def test_a_risky_path_adds_the_patch_gate():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.PATCH_CREATED, driver.patch(".github/workflows/ci.yml"))
    state = driver.drive(S.WAITING_FOR_APPROVAL)
    assert state.effective_risk == "high"
    assert [g["name"] for g in state.guards if g["passed"] is not True] == ["risk"]


def test_a_plan_sent_back_can_never_be_approved():
    driver = Driver.at(S.PLANNING, plan_approval="required")
    plan = driver.plan()
    driver.post(Ev.PLAN_CREATED, plan)
    driver.decide(Ev.CHANGES_REQUESTED)
    assert driver.state.status == S.PLANNING
    driver.claim()
    with pytest.raises(GuardFailed):
        driver.post(Ev.PLAN_CREATED, plan)
    driver.post(Ev.PLAN_CREATED)
    driver.decide(Ev.APPROVED)
    assert driver.state.status == S.EXECUTING


def test_requested_changes_start_a_new_attempt():
    driver = Driver.at(S.WAITING_FOR_APPROVAL)
    driver.decide(Ev.CHANGES_REQUESTED, comment="leave the tests alone")
    state = driver.state
    assert (state.status, state.attempts_started) == (S.EXECUTING, 2)
    assert (state.feedback or {})["text"] == "leave the tests alone"


@pytest.mark.parametrize("gate", [Gate.PLAN, Gate.PATCH])
def test_a_rejection_ends_the_run(gate: Gate):
    driver = Driver.at(S.WAITING_FOR_APPROVAL, plan_approval="required" if gate is Gate.PLAN else "never")
    driver.decide(Ev.REJECTED)
    failure = driver.state.failure or {}
    assert (failure["category"], failure["reason"]) == ("REVIEW_REJECTED", f"{gate}_rejected")
    assert (driver.task.status, driver.task.runs_made) == ("FAILED", 1)


def test_a_blocking_guard_forbids_approving():
    driver = Driver.at(S.EXECUTING, forbidden_paths=["secret/**"])
    driver.post(Ev.PATCH_CREATED, driver.patch("secret/a.py"))
    driver.drive(S.WAITING_FOR_APPROVAL)
    with pytest.raises(GuardFailed) as refused:
        driver.decide(Ev.APPROVED)
    assert [g["name"] for g in refused.value.extra["guards"]] == ["paths"]
    assert driver.state.status == S.WAITING_FOR_APPROVAL


# --- tool calls, questions, money ---------------------------------------------------------------


@pytest.mark.parametrize("status", [S.PLANNING, S.EXECUTING])
def test_a_tool_call_waits_for_its_approval(status: RunStatus):
    driver = Driver.at(status, policy={"approval_tools": ["deploy"]})
    driver.post(Ev.TOOL_REQUESTED, driver.tool(tool="deploy", effect="outside"))
    assert (driver.state.gate or {})["gate"] == Gate.TOOL_CALL
    driver.decide(Ev.APPROVED, arguments={"n": 7})
    state = driver.state
    assert (state.status, state.pending["op-1"]["arguments"]) == (status, {"n": 7})
    driver.claim()
    driver.post(Ev.TOOL_COMPLETED, {"operation_id": "op-1", "outcome": "succeeded"})
    assert [op["operation_id"] for op in driver.state.operations] == ["op-1"]


def test_a_rejected_tool_call_is_skipped_with_the_comment():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.TOOL_REQUESTED, driver.tool(requires_approval=True))
    driver.decide(Ev.REJECTED, comment="not on Fridays")
    assert driver.state.pending == {}
    step = driver.run.steps.get(operation_id="op-1")
    assert (step.state, step.summary) == ("SKIPPED", "not on Fridays")


@pytest.mark.parametrize("status", [S.CONTEXT_BUILDING, S.VERIFYING, S.JUDGING])
def test_a_call_that_needs_approval_is_refused_where_nobody_can_be_asked(status: RunStatus):
    driver = Driver.at(status, policy={"approval_tools": ["deploy"]})
    with pytest.raises(NotAllowedNow):
        driver.post(Ev.TOOL_REQUESTED, driver.tool(tool="deploy"))
    assert driver.state.pending == {}


@pytest.mark.parametrize(("decision", "text"), [(Ev.APPROVED, "the second"), (Ev.REJECTED, "no answer")])
def test_a_question_is_answered_by_its_comment(decision: Ev, text: str):
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.QUESTION_ASKED)
    driver.decide(decision, comment="the second")
    assert driver.state.status == S.EXECUTING
    assert (driver.state.feedback or {})["text"] == text


def test_money_spent_is_recorded_and_the_run_stops():
    driver = Driver.at(S.EXECUTING, budget={"max_cost_usd": "1.00"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "0.4"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "2.5"})
    state = driver.state
    assert (state.status, state.used["cost_usd"]) == (S.FAILED, "2.9")
    assert outcome(state) == "budget_exhausted"
    assert driver.task.status == "FAILED"


def test_money_spent_can_be_asked_for():
    policy = {"on_budget_exceeded": "ask"}
    driver = Driver.at(S.EXECUTING, policy=policy, budget={"max_cost_usd": "1.00"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": 1})
    assert (driver.state.gate or {})["gate"] == Gate.BUDGET
    with pytest.raises(NotAllowedNow, match="Raise the budget"):
        driver.decide(Ev.APPROVED)
    driver.post(Ev.BUDGET_RAISED, facts={"budget": {"max_cost_usd": "5"}})
    driver.decide(Ev.APPROVED)
    assert driver.state.status == S.EXECUTING
    driver.claim()
    driver.post(Ev.TOOL_REQUESTED)


def test_money_spent_before_planning_cannot_be_asked_for():
    driver = Driver.at(S.CONTEXT_BUILDING, policy={"on_budget_exceeded": "ask"}, budget={"max_cost_usd": "1"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": 1})
    assert (driver.state.failure or {})["category"] == "BUDGET_EXCEEDED"


def test_intents_beyond_a_limit_are_refused_and_reports_are_not():
    driver = Driver.at(S.EXECUTING, budget={"max_tool_calls": 1})
    driver.post(Ev.TOOL_REQUESTED)
    with pytest.raises(BudgetExhausted) as refused:
        driver.post(Ev.TOOL_REQUESTED)
    assert refused.value.extra["used"]["tool_calls"] == 1
    driver.post(Ev.TOOL_COMPLETED)


def test_the_same_call_again_and_again_ends_the_attempt():
    driver = Driver.at(S.EXECUTING)
    for _ in range(3):
        driver.post(Ev.TOOL_REQUESTED, driver.tool(arguments={}))
        driver.post(Ev.TOOL_COMPLETED)
    driver.post(Ev.TOOL_REQUESTED, driver.tool(arguments={}))
    state = driver.state
    assert (state.attempts_started, state.attempts_failed) == (2, 1)
    assert state.pending == {}


# --- repairs, attempts --------------------------------------------------------------------------


def _fail_checks(driver: Driver) -> None:
    driver.drive(S.VERIFYING)
    driver.post(Ev.VERIFICATION_FAILED_RETRYABLE)


def test_failing_checks_are_repaired_until_attempts_are_used_up():
    driver = Driver.at(S.EXECUTING)
    for repair in (1, 2):
        _fail_checks(driver)
        assert (driver.state.status, (driver.state.attempt or {})["repairs"]) == (S.EXECUTING, repair)
        assert (driver.state.feedback or {})["text"] == "mend it"
    _fail_checks(driver)
    assert (driver.state.attempt or {})["number"] == 2
    for _ in range(3):
        _fail_checks(driver)
    state = driver.state
    assert (state.status, (state.failure or {})["category"]) == (S.FAILED, "VERIFICATION_FAILED")
    assert driver.types().count(Ev.RETRY_DECLINED) == 1, "one end, one decision"
    assert (driver.task.status, driver.task.runs_made) == ("FAILED", 1)


def test_a_judge_may_ask_for_a_fix_within_the_same_bounds():
    driver = Driver.at(S.JUDGING)
    driver.post(Ev.JUDGE_REQUIRES_FIX)
    assert (driver.state.status, (driver.state.attempt or {})["repairs"]) == (S.EXECUTING, 1)
    _fail_checks(driver)
    driver.drive(S.JUDGING)
    driver.post(Ev.JUDGE_REQUIRES_FIX)
    assert (driver.state.attempt or {})["number"] == 2
    assert driver.drive(S.SUCCEEDED).attempts_failed == 1


def test_an_attempt_that_ended_while_judged_is_followed_by_one_that_mends():
    driver = Driver.at(S.JUDGING)
    driver.post(Ev.ATTEMPT_FINISHED, role=Role.AGENT_RUNTIME)
    driver.post(Ev.JUDGE_REQUIRES_FIX)
    assert (driver.state.status, (driver.state.attempt or {})["number"]) == (S.EXECUTING, 2)


def test_failed_attempts_are_used_up_then_a_new_run_starts():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.ATTEMPT_FINISHED, role=Role.AGENT_RUNTIME)
    assert (driver.state.attempt or {})["number"] == 2
    driver.post(Ev.ATTEMPT_FINISHED, role=Role.AGENT_RUNTIME)
    assert driver.state.status == S.FAILED
    assert driver.task.status == "RUNNING"
    assert driver.follow().attempt_no == 2


# --- stops --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("status", [S.PR_CREATED, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.EXPIRED])
def test_too_late_to_cancel_says_what_to_do(status: RunStatus):
    driver = Driver.at(status)
    with pytest.raises(NotAllowedNow, match="instead"):
        driver.direct(Ev.CANCEL_REQUESTED)


def test_a_repeated_cancel_of_a_key_is_answered_again_after_the_end():
    driver = Driver.started()
    asked = {"run_id": driver.run_id, "event": Ev.CANCEL_REQUESTED, "reason": "x", "by": driver.human}
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


@pytest.mark.parametrize("status", [S.QUEUED, S.PREPARING, S.EXECUTING])
def test_winding_down_with_nothing_to_hand_in_ends_at_once(status: RunStatus):
    driver = Driver.at(status)
    if driver.state.holder:
        driver.post(Ev.LEASE_RELEASED)
    _wind_down(driver)
    assert driver.state.status == S.CANCELLED


# --- lost workers -------------------------------------------------------------------------------


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


# --- retries ------------------------------------------------------------------------------------


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
