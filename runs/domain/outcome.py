"""How a run ended or why it pauses (lifecycle contract, section 12)."""

from __future__ import annotations

from runs.domain.state import RunState
from runs.domain.vocabulary import Directive, FailureCategory, Gate, Outcome, RunStatus

_ENDINGS = {
    RunStatus.SUCCEEDED: Outcome.COMPLETED,
    RunStatus.CANCELLED: Outcome.CANCELLED,
    RunStatus.EXPIRED: Outcome.TIMED_OUT,
}


def outcome(state: RunState) -> str | None:
    """The outcome word, or None while the run simply goes on."""
    if state.status == RunStatus.FAILED:
        spent = (state.failure or {}).get("category") == FailureCategory.BUDGET_EXCEEDED
        return (Outcome.BUDGET_EXHAUSTED if spent else Outcome.FAILED).value
    if state.is_terminal:
        return _ENDINGS[state.run_status].value
    if state.status == RunStatus.WAITING_FOR_APPROVAL and state.gate:
        if state.gate.get("escalated"):
            return Outcome.ESCALATED.value
        is_budget = state.gate["gate"] == Gate.BUDGET
        return (Outcome.BUDGET_EXHAUSTED if is_budget else Outcome.APPROVAL_REQUIRED).value
    if state.directive == Directive.PAUSE and state.holder is None:
        return Outcome.INTERRUPTED.value
    return None
