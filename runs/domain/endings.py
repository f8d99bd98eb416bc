"""How runs end badly, and what follows in the same transaction (lifecycle contract, sections 7 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from runs.domain.commands import Context, Draft, NextRun
from runs.domain.facts import POLICY, Event, Json, stamp
from runs.domain.retry import BLOCK, NEW_RUN, NONE, PERSON, REASONS, Retry, decide_retry
from runs.domain.state import RunState
from runs.domain.vocabulary import Directive, Ev, FailureCategory, Role, RunStatus

S, F = RunStatus, FailureCategory
Follow = Iterator[Draft | NextRun]


def failure_of(category: FailureCategory, reason: str, summary: str) -> Json:
    """A failure as the control plane states it itself."""
    return {
        "category": category.value,
        "reason": reason,
        "summary": summary,
        "retryable": None,
        "evidence_artifact_id": "",
    }


def fail(state: RunState, failure: Json) -> Draft:
    """The run fails by a decision of the control plane."""
    facts = {"failure": {**failure, "retryable": failure.get("retryable") is not False}}
    return Draft(Ev.NON_RETRYABLE_FAILURE, S.FAILED, {"failure": failure}, Role.CONTROL_PLANE, facts)


def deny(state: RunState, reason: str, summary: str) -> Draft:
    """Policy ends the run; trying again would change nothing."""
    failure = {**failure_of(F.POLICY_DENIED, reason, summary), "retryable": False}
    return Draft(Ev.NON_RETRYABLE_FAILURE, S.FAILED, {"failure": failure}, Role.POLICY, {"failure": failure})


def after_the_end(state: RunState, event: Event, context: Context) -> Follow:
    """The retry decision, with the rule and what it saw, in the transaction that ends the run."""
    if state.status not in (S.FAILED, S.EXPIRED) or context.history is None:
        return
    failure = state.failure
    if _is_called_off(state):  # however it ended: what people stopped is not begun anew
        found = Retry(NONE, "final_cancel", {"directive": str(state.directive)})
        yield from _retry(state, context, found)
        return
    if state.status == S.EXPIRED:
        scope = (state.expiration or {}).get("scope")
        summary = f"The {scope} clock ran out."
        failure = failure_of(F.INFRASTRUCTURE, f"{scope}_timeout", summary)
        if scope == "queue":  # nobody came for a whole day: another day of waiting changes nothing
            failure["retryable"] = False
    found = decide_retry(
        failed_in=event.from_status,
        failure=failure or failure_of(F.UNKNOWN, "unknown", "Unknown."),
        history=context.history(state),
        policy=context.policy,
        dice=context.dice,
    )
    yield from _retry(state, context, found)


def _is_called_off(state: RunState) -> bool:
    """Whether somebody asked it to stop or to finish up; policy asks the latter where a log is full."""
    by = (state.directive_info or {}).get("by")
    wound_down = state.directive == Directive.WIND_DOWN and by != POLICY.name
    return wound_down or state.directive == Directive.CANCEL


def _retry(state: RunState, context: Context, found: Retry) -> Follow:
    facts: Json = {
        "rule": found.rule,
        "reason": REASONS[found.rule],
        "saw": found.saw,
        "then": found.action,
    }
    if found.action != NEW_RUN:
        facts["needs_person"] = found.action in (BLOCK, PERSON)
        yield Draft(Ev.RETRY_DECLINED, state.status, {}, Role.POLICY, facts)
        return
    not_before = stamp(context.now + timedelta(seconds=found.delay_seconds))
    facts |= {"not_before": not_before, "delay_seconds": found.delay_seconds}
    yield Draft(Ev.RETRY_SCHEDULED, state.status, {}, Role.POLICY, facts)
    yield NextRun(not_before, found.hints, found.rule, state.feedback)
