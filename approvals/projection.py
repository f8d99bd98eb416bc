"""Requests follow their runs: opened and closed by the run's own events, in the run's transaction.

So there is never an open request whose run does not wait, nor a waiting run without one.
"""

from __future__ import annotations

from typing import Final

from approvals.models import ApprovalRequest
from runs.domain.facts import Event, moment
from runs.domain.state import RunState
from runs.domain.vocabulary import ApprovalStatus, Ev, Gate, Role, RunStatus
from runs.models import Run
from runs.projections import Told

_WAITING: Final = RunStatus.WAITING_FOR_APPROVAL
_DECIDED: Final = {
    Ev.APPROVED: ApprovalStatus.APPROVED,
    Ev.CHANGES_REQUESTED: ApprovalStatus.CHANGES_REQUESTED,
    Ev.REJECTED: ApprovalStatus.REJECTED,
}
_SHOWS_ANEW: Final = frozenset({Ev.GUARD_WAIVED, Ev.POLICY_EVALUATED})


def follow_run(told: Told) -> None:
    """Open, close or renew the request of the run that was told of."""
    for event in told.events:
        if event.type == Ev.HUMAN_APPROVAL_REQUIRED:
            _open(told.run, event)
        elif event.from_status == _WAITING and event.to_status != _WAITING:
            _close(told, event)
    if told.state.gate and any(event.type in _SHOWS_ANEW for event in told.events):
        _show_anew(told.state)


def _open(run: Run, event: Event) -> None:
    facts = event.facts
    ApprovalRequest.objects.create(
        id=event.payload["approval_id"],
        run=run,
        task_id=run.task_id,
        repository_id=run.repository_id,
        gate=event.payload["gate"],
        subject_sha256=facts["subject_sha256"],
        subject=facts["subject"],
        guards=facts["guards"],
        effective_risk=facts["effective_risk"],
        needed=facts["needed"],
        requested_at=moment(event.recorded_at),
        due_at=moment(facts["due_at"]) if facts.get("due_at") else None,
        on_timeout=facts.get("on_timeout", "cancel"),
    )


def _close(told: Told, event: Event) -> None:
    request = ApprovalRequest.objects.get(run=told.run, status=ApprovalStatus.OPEN)
    request.status, request.closed_by, request.close_reason = _end(told, event)
    request.closed_at = moment(event.recorded_at)
    request.save(update_fields=["status", "closed_by", "close_reason", "closed_at"])


def _end(told: Told, event: Event) -> tuple[str, str, str]:
    """Status, by whom, and why."""
    if decided := _DECIDED.get(Ev(event.type)):
        return decided.value, event.actor.name, event.payload.get("comment") or ""
    if event.type == Ev.RUN_CANCELLED:
        asked = next((e for e in told.events if e.type == Ev.CANCEL_REQUESTED), event)
        overdue = asked.actor.type == Role.POLICY
        status = ApprovalStatus.EXPIRED if overdue else ApprovalStatus.CANCELLED
        return status.value, asked.actor.name, told.state.cancel_reason
    failure = told.state.failure or {}
    overdue = failure.get("reason") == "approval_timeout"
    status = ApprovalStatus.EXPIRED if overdue else ApprovalStatus.CANCELLED
    return status.value, event.actor.name, failure.get("summary") or event.type


def _show_anew(state: RunState) -> None:
    gate = state.gate or {}
    request = ApprovalRequest.objects.get(pk=gate["approval_id"])
    request.version, request.subject_sha256 = gate["version"], gate["subject_sha256"]
    request.effective_risk = state.effective_risk
    request.due_at = moment(gate["due_at"]) if gate["due_at"] else None
    if request.gate == Gate.PATCH:
        request.guards = state.guards
    request.save(update_fields=["version", "subject_sha256", "guards", "effective_risk", "due_at"])
