"""The raw log of a run: pages, pieces of it, and the whole as JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder

from runs.domain.facts import Json, stamp
from runs.domain.times import spell
from runs.domain.versions import is_of_the_future
from runs.domain.vocabulary import Ev
from runs.models import Run, RunEvent
from runs.selectors.archived import archived_sentence
from runs.selectors.words import joined, when

PAGE: Final = 100
#: Beyond this, a caller's own time says more of its clock than of the event.
CLOCK_OFF: Final = timedelta(minutes=5)


def run_events(*, run: Run, params: Mapping[str, str]) -> Json:
    """``{events, archived, earlier, later, note}``: a page of the log, oldest first. One query; one more
    where there are none.

    ``params``: ``from`` and ``to``, sequences, both counted in; without them the newest page.
    """
    first, last = _number(params, "from"), _number(params, "to")
    if first is None:
        first = max((last or run.version) - PAGE + 1, 1)
    until = min(last or first + PAGE - 1, first + PAGE - 1)
    rows = RunEvent.objects.filter(run=run, sequence__gte=first, sequence__lte=until).order_by("sequence")
    shown = [_shown(row) for row in rows]
    return {
        "events": shown,
        "archived": "" if shown else archived_sentence(run),
        "earlier": f"?tab=events&from={max(first - PAGE, 1)}" if first > 1 else "",
        "later": f"?tab=events&from={until + 1}" if until < run.version else "",
        "note": f"{first:,} to {min(until, run.version):,} of {run.version:,}",
    }


def _number(params: Mapping[str, str], name: str) -> int | None:
    text = params.get(name, "")
    return max(int(text), 1) if text.isdigit() and len(text) < 12 else None  # noqa: PLR2004


def _shown(row: RunEvent) -> Json:
    moved = f"{row.from_status} → {row.to_status}" if row.from_status != row.to_status else row.to_status
    return {
        "seq": row.sequence,
        "type": row.event_type,
        "actor": f"{row.actor_name} as {row.actor_type.replace('_', ' ')}",
        "moved": joined(moved, *_remarks(row)),
        "at": when(row.recorded_at),
        "payload_json": _pretty({"payload": row.payload, "facts": row.facts} if row.facts else row.payload),
    }


def _remarks(row: RunEvent) -> Iterator[str]:
    if row.event_type not in set(Ev):
        yield "unknown to this version"
    elif is_of_the_future(row.event_type, row.schema_version):
        yield "written by a newer version"
    off = abs(row.occurred_at - row.recorded_at)
    if off > CLOCK_OFF:
        yield f"clock off by {spell(off)}"


def _pretty(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) if value else ""


def event_lines(*, run: Run) -> Iterator[bytes]:
    """The whole log, one JSON object a line, read in pieces. One query."""
    for row in RunEvent.objects.filter(run=run).order_by("sequence").iterator(chunk_size=500):
        yield json.dumps(_whole(row), ensure_ascii=False, cls=DjangoJSONEncoder).encode() + b"\n"


def _whole(row: RunEvent) -> dict[str, Any]:
    names = ("id", "run_id", "sequence", "from_status", "to_status", "attempt", "fence", "schema_version")
    return {
        **{name: getattr(row, name) for name in names},
        "type": row.event_type,
        "actor": {"type": row.actor_type, "id": row.actor_id, "name": row.actor_name},
        "payload": row.payload,
        "facts": row.facts,
        "occurred_at": stamp(row.occurred_at),
        "recorded_at": stamp(row.recorded_at),
        "previous_hash": row.previous_hash,
        "hash": row.hash,
    }
