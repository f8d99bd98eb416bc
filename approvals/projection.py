"""Requests follow their runs: opened and closed by the run's own events, in the run's transaction.

So there is never an open request whose run does not wait, nor a waiting run without one.
"""

from __future__ import annotations

from approvals.asking.clock import next_tick
from approvals.folding import SHOWS_ANEW, WAITING, closed, opened, request_columns, shown_anew
from approvals.models import ApprovalRequest
from approvals.notices.tell import settle
from approvals.people import closed_sentence
from runs.domain.facts import Event, Json, moment
from runs.domain.state import RunState
from runs.domain.vocabulary import ApprovalStatus, Ev
from runs.models import Run
from runs.projections import Told


def follow_run(told: Told) -> None:
    """Open, close or renew the request of the run that was told of."""
    for event in told.events:
        if event.type == Ev.HUMAN_APPROVAL_REQUIRED:
            _open(told.run, event)
        elif event.from_status == WAITING and event.to_status != WAITING:
            _close(told, event)
    if told.state.gate and any(event.type in SHOWS_ANEW for event in told.events):
        _show_anew(told.state)


def _open(run: Run, event: Event) -> None:
    columns = request_columns(opened(run, event))
    request = ApprovalRequest(id=event.payload["approval_id"], run=run, **columns)
    request.clock_at = next_tick(request)
    request.save(force_insert=True)


def _close(told: Told, event: Event) -> None:
    request = ApprovalRequest.objects.get(run=told.run, status=ApprovalStatus.OPEN)
    _set(request, closed(told, event))
    settle(request.pk, closed_sentence(request, moment(event.recorded_at)))


def _show_anew(state: RunState) -> None:
    request = ApprovalRequest.objects.get(pk=(state.gate or {})["approval_id"])
    _set(request, shown_anew(state))
    # Past its escalation it has no clock in the run; ours acts once more, at once.
    escalated = (state.gate or {}).get("escalated")
    request.clock_at = moment(state.updated_at) if escalated else next_tick(request)
    request.save(update_fields=["clock_at"])


def _set(request: ApprovalRequest, values: Json) -> None:
    columns = request_columns(values)
    for name, value in columns.items():
        setattr(request, name, value)
    request.save(update_fields=list(columns))
