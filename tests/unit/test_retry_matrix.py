"""Every row of the retry table, and everything that stops a retry (lifecycle contract, section 8)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from runs.domain.policy import DEFAULTS
from runs.domain.retry import BLOCK, MATRIX, NEW_RUN, NONE, PERSON, REASONS, History, decide_retry
from runs.domain.vocabulary import FailureCategory, RunStatus

S, F = RunStatus, FailureCategory

FRESH: dict[str, Any] = {
    "runs_made": 1,
    "max_runs": 3,
    "cost_usd": Decimal(1),
    "max_cost_usd": Decimal(10),
    "previous": None,
    "instruction_changed": False,
}


def decided(
    failed_in: str, category: str, reason: str = "it_broke", *, retryable: Any = None, **seen: Any
) -> Any:
    failure = {"category": category, "reason": reason, "retryable": retryable}
    history = History(**{**FRESH, **seen})
    return decide_retry(failed_in=failed_in, failure=failure, history=history, policy=DEFAULTS, dice=0.5)


#: The contract's rows, transcribed: those that a run's end decides; repairs are decided inside it.
ROWS = [
    (S.PREPARING, F.REPOSITORY_ACCESS, BLOCK),
    (S.PLANNING, F.PLANNING_FAILED, NEW_RUN),
    (S.EXECUTING, F.BUDGET_EXCEEDED, NONE),
    (S.EXECUTING, F.TOOL_FAILED, NEW_RUN),
    (S.EXECUTING, F.INFRASTRUCTURE, NEW_RUN),
    (S.VERIFYING, F.VERIFICATION_FAILED, NONE),
    (S.JUDGING, F.JUDGE_REJECTED, NONE),
    (S.PR_CREATING, F.INFRASTRUCTURE, NONE),
    (S.PR_CREATING, F.PR_CREATION_FAILED, NONE),
]


@pytest.mark.parametrize("category", list(F))
@pytest.mark.parametrize("failed_in", list(S))
def test_every_cell_of_the_table(failed_in, category):
    own = {(status, kind): action for status, kind, action in ROWS}
    anywhere = {
        F.INFRASTRUCTURE: NEW_RUN,
        F.TOOL_FAILED: NEW_RUN,
        F.UNKNOWN: PERSON,
    }
    found = decided(failed_in, category)
    assert found.action == own.get((failed_in, category), anywhere.get(category, NONE))
    assert REASONS[found.rule]
    assert found.saw["failed_in"] == failed_in
    assert found.saw["category"] == category


@pytest.mark.parametrize("rule", MATRIX, ids=lambda rule: f"{rule.name}-{rule.category}")
def test_each_rule_is_reached(rule):
    for failed_in in rule.failed_in or (S.VERIFYING,):
        assert decided(failed_in, rule.category, rule.reason or "it_broke").rule == rule.name


@pytest.mark.parametrize(
    ("seen", "rule"),
    [
        ({"runs_made": 3}, "max_runs"),
        ({"cost_usd": Decimal(10)}, "max_cost_usd"),
        ({"previous": ("TOOL_FAILED", "it_broke")}, "deterministic"),
        ({"retryable": False}, "worker_says_final"),
    ],
)
def test_what_stops_a_retry_is_named(seen, rule):
    found = decided(S.EXECUTING, F.TOOL_FAILED, **seen)
    assert (found.action, found.rule) == (NONE, rule)


def test_the_same_failure_twice_may_be_tried_again_when_something_changed():
    twice = ("TOOL_FAILED", "it_broke")
    assert decided(S.EXECUTING, F.TOOL_FAILED, previous=twice, instruction_changed=True).action == NEW_RUN
    assert decided(S.EXECUTING, F.TOOL_FAILED, "another", previous=twice).action == NEW_RUN
    assert decided(S.EXECUTING, F.INFRASTRUCTURE, previous=("INFRASTRUCTURE", "it_broke")).action == NEW_RUN


def test_a_moved_base_and_a_smaller_context_are_tried_once():
    for failed_in, category, reason, rule in (
        (S.PR_CREATING, F.PR_CREATION_FAILED, "base_conflict", "base_moved"),
        (S.PLANNING, F.PLANNING_FAILED, "no_plan", "smaller_context"),
    ):
        first = decided(failed_in, category, reason)
        assert (first.action, first.rule, len(first.hints)) == (NEW_RUN, rule, 1)
        assert decided(failed_in, category, reason, runs_by_rule={rule: 1}).rule == "rule_used_up"


def test_a_decision_says_what_it_saw():
    saw = decided(S.EXECUTING, F.TOOL_FAILED, risk="high", base_moved=True).saw
    assert (saw["risk"], saw["base_moved"], saw["runs_made"], saw["cost_usd"]) == ("high", True, 1, "1")


@pytest.mark.parametrize(("runs_made", "longest"), [(1, 5), (2, 10), (3, 20), (7, 300), (40, 300)])
@pytest.mark.parametrize("dice", [0.0, 0.5, 1.0])
def test_the_backoff_doubles_up_to_its_maximum_with_full_jitter(runs_made, longest, dice):
    failure = {"category": F.INFRASTRUCTURE, "reason": "node_gone"}
    history = History(**{**FRESH, "runs_made": runs_made, "max_runs": 99})
    found = decide_retry(failed_in=S.LEASED, failure=failure, history=history, policy=DEFAULTS, dice=dice)
    assert found.delay_seconds == longest * dice
