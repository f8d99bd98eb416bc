"""Tool calls, questions, money, repairs and attempts (sections 4, 8 and 12).

After each, rows are what the log folds to (see ``folds_back``).
"""

from __future__ import annotations

import pytest

from runs import service
from runs.domain.errors import (
    BudgetExhausted,
    NotAllowedNow,
)
from runs.domain.facts import fingerprint
from runs.domain.outcome import outcome
from runs.domain.vocabulary import (
    Ev,
    Gate,
    Role,
    RunStatus,
)
from tests.driver import Driver, contract_of, failure_of

pytestmark = pytest.mark.django_db


def test_a_draft_whose_branch_is_emptied_is_on_the_repositorys_own():
    driver = Driver.prepared()
    task, _ = service.task_create(
        data=contract_of(submit=False, base_branch="next"), repository=driver.repository, by=driver.human
    )
    for empty in ("", None):
        edited = service.task_edit(task_id=task.pk, data={"base_branch": empty}, by=driver.human)
        assert edited.contract["base_branch"] == "main"


S = RunStatus


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
    asked = driver.run.events.get(event_type=Ev.HUMAN_APPROVAL_REQUIRED)
    assert asked.facts["subject_sha256"] == fingerprint(asked.facts["subject"]), (
        "what is shown is what is sealed"
    )
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


def _end_attempt(driver: Driver, how: str) -> None:
    """In each of the ways in which an attempt comes to nothing."""
    if how in ("failed", "aborted"):
        driver.post(Ev.ATTEMPT_FINISHED, {"outcome": how, "failure": failure_of()}, role=Role.AGENT_RUNTIME)
        return
    driver.post(Ev.TOOL_REQUESTED)
    driver.post(Ev.TOOL_COMPLETED)
    driver.post(Ev.LEASE_RELEASED)  # its work since the last checkpoint, which there is none of, is gone
    if not driver.state.is_terminal:
        driver.claim()


@pytest.mark.parametrize("ways", [("failed", "failed"), ("aborted", "aborted"), ("given back", "aborted")])
def test_attempts_that_come_to_nothing_are_used_up_then_a_new_run_starts(ways: tuple[str, str]):
    driver = Driver.at(S.EXECUTING)
    _end_attempt(driver, ways[0])
    assert (driver.state.attempt or {})["number"] == 2
    _end_attempt(driver, ways[1])
    assert (driver.state.status, driver.state.attempts_started) == (S.FAILED, 2)
    assert driver.task.status == "RUNNING"
    assert driver.follow().attempt_no == 2


def test_attempts_that_died_with_their_workers_are_bounded_as_takeovers():
    driver = Driver.at(S.EXECUTING)
    for number in (2, 3):
        driver.post(Ev.TOOL_REQUESTED)
        driver.post(Ev.TOOL_COMPLETED)
        driver.lose_lease()
        driver.claim()
        assert (driver.state.status, (driver.state.attempt or {})["number"]) == (S.EXECUTING, number)
    driver.lose_lease()
    assert driver.state.status == S.EXPIRED
