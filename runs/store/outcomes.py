"""The row of a run that ended."""

from __future__ import annotations

from typing import Final

from django.db.models import F, Q
from django.db.models.fields.json import KT

from runs.domain.facts import Json
from runs.domain.outcomes import TOLD, Move, outcome_columns
from runs.domain.state import RunState
from runs.models import Run, RunEvent, RunOutcome

_CONFIDENCE: Final = KT("facts__judgement__confidence")
_GATE: Final = KT("payload__gate")


def write_outcome(run: Run, state: RunState, contract: Json) -> None:
    """Write the row, once; to be called after the events of its end. Two queries."""
    RunOutcome.objects.create(run=run, **outcome_of(run, state, contract))


def outcome_of(run: Run, state: RunState, contract: Json) -> Json:
    """The columns as the log says; rebuild compares with the same function. One query."""
    rows = RunEvent.objects.filter(run=run).filter(
        ~Q(from_status=F("to_status")) | Q(event_type__in=[event.value for event in TOLD])
    )
    names = ("event_type", "from_status", "to_status", "recorded_at", _CONFIDENCE, _GATE)
    moves = [Move(*row) for row in rows.order_by("sequence").values_list(*names)]
    return {**outcome_columns(state, moves, contract), "cost_usd": run.cost_usd}
