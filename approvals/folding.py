"""What a run's events say of its approval requests: the same functions serve the transaction that writes them
and the fold that checks them. Rows are JSON here; ``request_columns`` makes of them what the table holds."""

from __future__ import annotations

from typing import Final

from approvals.models import ApprovalRequest
from runs.domain.facts import Event, Json, moment
from runs.domain.state import RunState
from runs.domain.vocabulary import ApprovalStatus, Ev, Gate, Role, RunStatus
from runs.models import Run
from runs.projections import Rows, Told

WAITING: Final = RunStatus.WAITING_FOR_APPROVAL
_DECIDED: Final[dict[str, ApprovalStatus]] = {
    Ev.APPROVED: ApprovalStatus.APPROVED,
    Ev.CHANGES_REQUESTED: ApprovalStatus.CHANGES_REQUESTED,
    Ev.REJECTED: ApprovalStatus.REJECTED,
}
SHOWS_ANEW: Final = frozenset({Ev.GUARD_WAIVED, Ev.POLICY_EVALUATED})
_MOMENTS: Final = frozenset({"requested_at", "due_at", "closed_at"})


def opened(run: Run, event: Event) -> Json:
    """A new request."""
    facts = event.facts
    return {
        "task_id": run.task_id,
        "repository_id": run.repository_id,
        "gate": event.payload["gate"],
        "status": ApprovalStatus.OPEN.value,
        "version": 1,
        "subject_sha256": facts["subject_sha256"],
        "subject": facts["subject"],
        "guards": facts["guards"],
        "effective_risk": facts["effective_risk"],
        "needed": facts["needed"],
        "requested_at": event.recorded_at,
        "due_at": facts.get("due_at") or None,
        "on_timeout": facts.get("on_timeout", "cancel"),
        "closed_at": None,
        "closed_by": "",
        "close_reason": "",
    }


def closed(told: Told, event: Event) -> Json:
    """How the open one ended, with the event that leaves the gate."""
    status, by, reason = _end(told, event)
    return {"status": status, "closed_by": by, "close_reason": reason, "closed_at": event.recorded_at}


def _end(told: Told, event: Event) -> tuple[str, str, str]:
    """Status, by whom, and why."""
    if decided := _DECIDED.get(event.type):
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


def shown_anew(state: RunState) -> Json:
    """What the open one shows after a waiver or another look at the guards."""
    gate = state.gate or {}
    shown = {
        "version": gate["version"],
        "subject_sha256": gate["subject_sha256"],
        "effective_risk": state.effective_risk,
        "due_at": gate["due_at"] or None,
    }
    return {**shown, "guards": state.guards} if gate["gate"] == Gate.PATCH else shown


def request_columns(values: Json) -> Json:
    """Stamps as moments, for the table."""
    return {name: moment(value) if name in _MOMENTS and value else value for name, value in values.items()}


# --- the fold -------------------------------------------------------------------------------------


def evolve_requests(rows: dict[str, Json], told: Told) -> None:
    """Lay what one transaction did over the requests of its run so far."""
    for event in told.events:
        if event.type == Ev.HUMAN_APPROVAL_REQUIRED:
            rows[event.payload["approval_id"]] = opened(told.run, event)
        elif event.from_status == WAITING and event.to_status != WAITING:
            for row in rows.values():
                if row["status"] == ApprovalStatus.OPEN:
                    row.update(closed(told, event))
    if told.state.gate and any(event.type in SHOWS_ANEW for event in told.events):
        rows[told.state.gate["approval_id"]].update(shown_anew(told.state))


REQUESTS: Final = Rows("approval", ApprovalRequest, evolve_requests, request_columns)
