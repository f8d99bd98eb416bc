"""The story of a run as runs/_timeline.html takes it, in windows of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.urls import reverse

from runs.domain.facts import Actor, Event, Json, moment, stamp
from runs.domain.said import DETAIL, KEY, NORMAL
from runs.domain.sentences import FAILURES
from runs.domain.timeline import Item, timeline
from runs.domain.vocabulary import Ev
from runs.models import Run, RunEvent
from runs.selectors.archived import archived_sentence
from runs.selectors.words import when

#: Events that one page of the story folds.
WINDOW: Final = 2_000
LEVELS: Final = {"key": KEY, "normal": NORMAL, "all": DETAIL}
_COLUMNS: Final = (
    "sequence",
    "event_type",
    "from_status",
    "to_status",
    "attempt",
    "fence",
    "actor_type",
    "actor_id",
    "actor_name",
    "payload",
    "facts",
    "schema_version",
    "recorded_at",
)


def run_timeline(*, run: Run, params: Mapping[str, str]) -> Json:
    """``{phases, archived, announce, levels, earlier, later, failure}``. One query, two where the log is
    longer than the window or archived. ``failure``: the way to the next failure outside of it, round the end
    of the log, or "".

    ``params``: ``show`` (key, normal, all), ``upto`` (the last sequence of the window) or ``at`` (a
    sequence that the window holds).
    """
    last = _window_end(run.version, params)
    rows = RunEvent.objects.filter(run=run, sequence__gt=last - WINDOW, sequence__lte=last)
    level = params.get("show", "") if params.get("show", "") in LEVELS else "normal"
    events = [_event(run.pk, row) for row in rows.order_by("sequence").values(*_COLUMNS)]
    phases = timeline(events, importance=LEVELS[level])
    told: list[Json] = [
        {"title": phase.title, "items": [_item(run.pk, item) for item in phase.items]} for phase in phases
    ]
    items = [item for phase in told for item in phase["items"] if not item["gap"]]
    return {
        "phases": told,
        "archived": "" if events else archived_sentence(run),
        "announce": items[-1]["sentence"] if items else "",
        "levels": _levels(level, params),
        "earlier": f"?upto={last - WINDOW}&show={level}" if last > WINDOW else "",
        "later": f"?upto={min(last + WINDOW, run.version)}&show={level}" if last < run.version else "",
        "failure": _failure_beyond(run, last, level),
    }


def _failure_beyond(run: Run, last: int, level: str) -> str:
    first = last - WINDOW
    if first <= 0 and last >= run.version:
        return ""
    told = Q(event_type__in=FAILURES) | Q(
        event_type=Ev.ATTEMPT_FINISHED, payload__outcome__in=["failed", "aborted"]
    )
    beyond = RunEvent.objects.filter(told, Q(sequence__gt=last) | Q(sequence__lte=first), run=run)
    is_before = ExpressionWrapper(Q(sequence__lte=first), output_field=BooleanField())
    number = beyond.order_by(is_before, "sequence").values_list("sequence", flat=True).first()
    return f"?at={number}&show={level}#e{number}" if number else ""


def _window_end(version: int, params: Mapping[str, str]) -> int:
    """The newest window, or the one that ends at ``upto`` or holds ``at``."""
    for name in ("upto", "at"):
        if (text := params.get(name, "")).isdigit() and len(text) < 12:  # noqa: PLR2004
            wanted = int(text) if name == "upto" else int(text) + WINDOW // 2
            return max(min(wanted, version), min(version, 1))
    return version


def _levels(level: str, params: Mapping[str, str]) -> list[Json]:
    words = {"key": "Turning points", "normal": "Story", "all": "Everything"}
    upto = f"&upto={params['upto']}" if params.get("upto", "").isdigit() else ""
    return [
        {"label": label, "href": f"?show={name}{upto}", "current": name == level}
        for name, label in words.items()
    ]


def _event(run_id: str, row: Json) -> Event:
    recorded = stamp(row["recorded_at"])
    return Event(
        run_id=run_id,
        sequence=row["sequence"],
        type=row["event_type"],
        from_status=row["from_status"],
        to_status=row["to_status"],
        attempt=row["attempt"],
        actor=Actor(row["actor_type"], row["actor_id"], row["actor_name"]),
        fence=row["fence"],
        payload=row["payload"],
        facts=row["facts"],
        recorded_at=recorded,
        occurred_at=recorded,
        schema_version=row["schema_version"],
    )


def _item(run_id: str, item: Item) -> Json:
    if item.gap:
        return {"gap": True, "sentence": item.sentence}
    said = item.said
    times = when(item.at) or {}
    link = {}
    if said.artifact_id:
        link = {"link": {"href": reverse("artifact", args=[said.artifact_id]), "text": "download"}}
    return {
        "gap": False,
        "seq_from": item.seq_from,
        "seq_to": item.seq_to,
        "anchor": f"e{item.seq_from}",
        "time_exact": times["iso"],
        "time_text": f"{moment(item.at):%H:%M}",
        "tone": said.tone,
        "icon": said.icon,
        "sentence": item.sentence,
        "detail": said.detail,
        "events": [],
        "events_url": f"{reverse('run_events', args=[run_id])}?from={item.seq_from}&to={item.seq_to}",
        **link,
    }
