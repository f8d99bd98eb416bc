"""What follows a failed run: the matrix as data (lifecycle contract, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from runs.domain.facts import Json
from runs.domain.vocabulary import FailureCategory, RunStatus

F, S = FailureCategory, RunStatus

#: The reason of a failure: the patch no longer applies to the base branch.
BASE_CONFLICT: Final = "base_conflict"

NEW_RUN, BLOCK, PERSON, NONE = "new_run", "block", "person", "none"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: a failure of ``category`` in ``failed_in`` (None: anywhere) leads to ``action``."""

    name: str
    failed_in: tuple[RunStatus, ...] | None
    category: FailureCategory
    action: str
    hint: str = ""
    at_most: int | None = None  #: new runs that this rule alone may make
    reason: str = ""  #: only for this reason; empty: for any


#: The first match wins.
MATRIX: Final[tuple[Rule, ...]] = (
    Rule("access_to_renew", (S.PREPARING,), F.REPOSITORY_ACCESS, BLOCK),
    Rule(
        "smaller_context",
        (S.PLANNING,),
        F.PLANNING_FAILED,
        NEW_RUN,
        hint="Use a smaller context: the last run could not make a plan.",
        at_most=1,
    ),
    Rule(
        "base_moved",
        (S.PR_CREATING,),
        F.PR_CREATION_FAILED,
        NEW_RUN,
        hint="The base branch moved into conflict with the last patch: begin from where it is now.",
        at_most=1,
        reason=BASE_CONFLICT,
    ),
    Rule("pr_given_up", (S.PR_CREATING,), F.INFRASTRUCTURE, NONE),
    Rule("pr_given_up", (S.PR_CREATING,), F.PR_CREATION_FAILED, NONE),
    Rule("work_again", None, F.INFRASTRUCTURE, NEW_RUN),
    Rule("work_again", None, F.TOOL_FAILED, NEW_RUN),
    Rule("final_policy", None, F.POLICY_DENIED, NONE),
    Rule("final_cancel", None, F.USER_CANCELLED, NONE),
    Rule("final_review", None, F.REVIEW_REJECTED, NONE),
    Rule("person_decides", None, F.UNKNOWN, PERSON),
)


@dataclass(frozen=True, slots=True)
class History:
    """What the task went through before this failure."""

    runs_made: int
    max_runs: int
    cost_usd: Decimal
    max_cost_usd: Decimal
    previous: tuple[str, str] | None  #: category and reason of the run before
    instruction_changed: bool
    risk: str = ""  #: the effective risk of the run that failed
    base_moved: bool | None = None  #: whether today's base branch is another commit; None: nobody looked
    runs_by_rule: Mapping[str, int] = field(default_factory=dict)  #: how often each rule made a run


@dataclass(frozen=True, slots=True)
class Retry:
    """The decision, the rule that made it, and what it saw."""

    action: str
    rule: str
    saw: Json
    delay_seconds: float = 0.0
    hints: tuple[str, ...] = ()


def decide_retry(
    *, failed_in: str, failure: Json, history: History, policy: Mapping[str, Any], dice: float
) -> Retry:
    """The next move after a failure. ``dice`` is uniform in 0..1 (full jitter)."""
    saw: Json = {
        "failed_in": failed_in,
        "category": failure["category"],
        "reason": failure["reason"],
        "runs_made": history.runs_made,
        "max_runs": history.max_runs,
        "cost_usd": f"{history.cost_usd:f}",
        "max_cost_usd": f"{history.max_cost_usd:f}",
        "risk": history.risk,
        "base_moved": history.base_moved,
        "instruction_changed": history.instruction_changed,
    }
    rule = find_rule(failed_in, failure["category"], failure["reason"])
    if rule is None:
        return Retry(NONE, "no_retry_for_this", saw)
    if rule.action != NEW_RUN:
        return Retry(rule.action, rule.name, saw)
    if stop := _stopped(rule, failure, history):
        return Retry(NONE, stop, saw)
    delay = backoff_seconds(history.runs_made - 1, policy, dice)
    return Retry(NEW_RUN, rule.name, saw, delay, (rule.hint,) if rule.hint else ())


def find_rule(failed_in: str, category: str, reason: str = "") -> Rule | None:
    """The matrix row for a failure, or None where it says "no retry"."""
    for rule in MATRIX:
        of_kind = rule.category == category and rule.reason in ("", reason)
        if of_kind and (rule.failed_in is None or failed_in in rule.failed_in):
            return rule
    return None


def _stopped(rule: Rule, failure: Json, history: History) -> str:
    if failure.get("retryable") is False:
        return "worker_says_final"
    if history.runs_made >= history.max_runs:
        return "max_runs"
    if history.cost_usd >= history.max_cost_usd:
        return "max_cost_usd"
    if rule.at_most is not None and history.runs_by_rule.get(rule.name, 0) >= rule.at_most:
        return "rule_used_up"
    same = history.previous == (failure["category"], failure["reason"])
    if same and failure["category"] != F.INFRASTRUCTURE and not history.instruction_changed:
        return "deterministic"
    return ""


def backoff_seconds(tries: int, policy: Mapping[str, Any], dice: float) -> float:
    """``min(base · 2^tries, max)`` with full jitter, in seconds."""
    base, longest = float(policy["retry_base_seconds"]), float(policy["retry_max_seconds"])
    ceiling: float = min(base * 2.0 ** min(max(tries, 0), 30), longest)
    return round(ceiling * dice, 3)


#: Words for people: the rule's reason, shown on the run page and in the log.
REASONS: Final = {
    "access_to_renew": "The repository could not be reached; somebody must renew access first.",
    "smaller_context": "One more run with a smaller context.",
    "base_moved": "The base branch moved into conflict; one more run begins from where it is now.",
    "pr_given_up": "Opening the pull request was tried often enough.",
    "work_again": "The failure was not the work's own; a new run starts after a pause.",
    "final_policy": "Policy denied it; trying again would change nothing.",
    "final_cancel": "A person cancelled it.",
    "final_review": "A reviewer rejected it.",
    "person_decides": "Nobody knows why it failed; a person decides.",
    "no_retry_for_this": "Failures of this kind are not tried again.",
    "worker_says_final": "The worker says that trying again would not help.",
    "max_runs": "The task has used all its runs.",
    "max_cost_usd": "The task has used all its money.",
    "rule_used_up": "This remedy was tried already.",
    "deterministic": "The same failure came twice in a row; without a change it would come again.",
}
