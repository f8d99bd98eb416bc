"""Checks that fail on the untouched base: the policy says what that means (lifecycle contract, section 6)."""

from __future__ import annotations

import pytest

from runs.domain.errors import Invalid
from runs.domain.facts import Json
from runs.domain.vocabulary import Ev, RunStatus
from tests.driver import Driver

pytestmark = pytest.mark.django_db

S = RunStatus
RED: list[Json] = [{"name": "test", "command": "true", "exit_code": 1, "duration_ms": 5, "cached": True}]
FLAKY: list[Json] = [{"name": "test", "command": "true", "exit_code": 0, "duration_ms": 5, "flaky": True}]


def checked(rule: str, *, exit_code: int, baseline: list[Json] = RED) -> Driver:
    """A run whose report names ``baseline``, under a policy of ``rule``."""
    driver = Driver.at(S.VERIFYING, policy={"on_red_base": rule})
    event = Ev.VERIFICATION_FAILED_RETRYABLE if exit_code else Ev.VERIFICATION_PASSED
    driver.post(event, driver.verification(exit_code=exit_code, baseline=baseline))
    return driver


@pytest.mark.parametrize("exit_code", [0, 1])
def test_fail_ends_the_run_at_the_first_report(exit_code):
    state = checked("fail", exit_code=exit_code).state
    failure = state.failure or {}
    assert (state.status, failure["category"], failure["reason"]) == (
        S.FAILED,
        "VERIFICATION_FAILED",
        "red_base",
    )
    assert "test failed on the untouched base" in failure["summary"]
    assert (state.retry or {})["decision"] == Ev.RETRY_DECLINED


def test_ask_asks_once_before_a_repair_and_hands_the_answer_to_the_agent():
    driver = checked("ask", exit_code=1)
    assert (driver.state.status, (driver.state.gate or {})["gate"]) == (S.WAITING_FOR_APPROVAL, "question")
    driver.decide(Ev.APPROVED, comment="Leave it as it is.")
    assert (driver.state.status, (driver.state.feedback or {})["text"]) == (S.EXECUTING, "Leave it as it is.")
    driver.drive(S.VERIFYING)
    driver.post(Ev.VERIFICATION_FAILED_RETRYABLE, driver.verification(exit_code=1, baseline=RED))
    assert driver.state.status == S.EXECUTING, "it was asked already; now it repairs"


def test_ask_lets_no_patch_out_by_itself_that_turned_red_to_green():
    driver = checked("ask", exit_code=0)
    driver.post(Ev.JUDGE_PASSED)
    assert (driver.state.status, (driver.state.gate or {})["gate"]) == (S.WAITING_FOR_APPROVAL, "patch")
    failing = [guard for guard in driver.state.guards if guard["passed"] is not True]
    assert [(guard["name"], guard["value"]) for guard in failing] == [("verification", "red base")]


def test_continue_goes_on_and_says_so():
    driver = checked("continue", exit_code=0)
    driver.post(Ev.JUDGE_PASSED)
    assert driver.state.status == S.PR_CREATING
    (guard,) = [guard for guard in driver.state.guards if guard["name"] == "verification"]
    assert "failed on the untouched base: test" in guard["evidence"]
    assert checked("continue", exit_code=1).state.status == S.EXECUTING


@pytest.mark.parametrize("rule", ["fail", "ask", "continue"])
def test_a_flaky_baseline_is_not_red(rule):
    driver = checked(rule, exit_code=0, baseline=FLAKY)
    driver.post(Ev.JUDGE_PASSED)
    assert driver.state.status == S.PR_CREATING


@pytest.mark.parametrize("baseline", [{"name": "test"}, ["test"], [{"name": "test"}], "red"])
def test_a_baseline_that_says_nothing_is_refused_by_name(baseline):
    driver = Driver.at(S.VERIFYING)
    with pytest.raises(Invalid) as refused:
        driver.post(Ev.VERIFICATION_PASSED, driver.verification(baseline=baseline))
    assert "payload.verification_report_id.baseline" in refused.value.errors
