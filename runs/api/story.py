"""The story of a run in sentences, and the receipt of a stop."""

from __future__ import annotations

from typing import Any, Final

from rest_framework.request import Request

from runs.domain.facts import Json, stamp
from runs.domain.state import RunState
from runs.domain.timeline import Item
from runs.domain.timeline import timeline as told
from runs.domain.vocabulary import Ev
from runs.models import Run, RunEvent
from runs.selectors.archived import require_log

#: Events that one answer folds.
WINDOW: Final = 2_000
UNCONFIRMED: Final = "unconfirmed"


def timeline(request: Request, run: Run, *, upto: int) -> Json:
    """``{phases: [{title, items}], earlier}``: the window of events that ends at ``upto``. One query,
    one more for a run that ended. Raises ``LogArchived``."""
    require_log(run)
    last = min(upto, run.version)
    rows = RunEvent.objects.filter(run=run, sequence__gt=last - WINDOW, sequence__lte=last).order_by(
        "sequence"
    )
    phases = told([row.as_fact() for row in rows])
    earlier = f"{request.path}?upto={last - WINDOW}" if last > WINDOW else None
    return {
        "phases": [
            {"title": phase.title, "items": [_item(item) for item in phase.items]} for phase in phases
        ],
        "earlier": request.build_absolute_uri(earlier) if earlier else None,
    }


def _item(item: Item) -> Json:
    said = item.said
    return {
        "seq_from": item.seq_from,
        "seq_to": item.seq_to,
        "at": item.at,
        "kind": item.kind,
        "sentence": item.sentence,
        "detail": said.detail or None,
        "tone": said.tone,
        "icon": said.icon,
        "artifact_id": said.artifact_id or None,
    }


# --- receipt --------------------------------------------------------------------------------------

_ASKED: Final = (Ev.CANCEL_REQUESTED, Ev.WIND_DOWN_REQUESTED)
_OF_A_STOP: Final = (*_ASKED, Ev.DIRECTIVE_SEEN, Ev.RUN_CANCELLED, Ev.CLEANUP_REPORTED, Ev.PR_CREATED)


def receipt(run: Run) -> Json:
    """Asked, seen, process group gone, artifacts saved, pull request reconciled: each with its time, or
    "unconfirmed"; null where there was nothing to confirm (lifecycle contract, section 9). Two queries.

    Raises ``LogArchived``."""
    require_log(run)
    state = RunState.from_json(run.state)
    rows = RunEvent.objects.filter(run=run, event_type__in=[event.value for event in _OF_A_STOP])
    events = list(rows.order_by("sequence"))
    asked = next(
        (row for row in events if row.event_type in (Ev.CANCEL_REQUESTED, Ev.WIND_DOWN_REQUESTED)), None
    )
    if asked is None:
        return dict.fromkeys(
            ("asked", "seen", "process_group_gone", "artifacts_saved", "pull_request_reconciled", "ended_at")
        )
    since = [row for row in events if row.sequence >= asked.sequence]
    reconciled = {Ev.PR_CREATED, Ev.RUN_CANCELLED}
    began = bool(state.worker_id)
    return {
        "asked": {
            "directive": "cancel" if asked.event_type == Ev.CANCEL_REQUESTED else "wind_down",
            "by": asked.actor_name,
            "reason": asked.payload.get("reason") or None,
            "at": stamp(asked.recorded_at),
        },
        "seen": _time(since, {Ev.DIRECTIVE_SEEN}) if began else None,
        "process_group_gone": _cleaned(since, "process_group_gone") if began else None,
        "artifacts_saved": _cleaned(since, "artifacts_saved") if began else None,
        "pull_request_reconciled": _time(since, reconciled) if state.pr_begun else None,
        "ended_at": state.completed_at or None,
    }


def _time(rows: list[RunEvent], events: set[Ev]) -> str:
    return next((stamp(row.recorded_at) for row in rows if row.event_type in events), UNCONFIRMED)


def _cleaned(rows: list[RunEvent], name: str) -> Any:
    ends = (Ev.RUN_CANCELLED, Ev.CLEANUP_REPORTED)
    said = (row for row in rows if row.event_type in ends and row.payload.get(name) is True)
    return next((stamp(row.recorded_at) for row in said), UNCONFIRMED)
