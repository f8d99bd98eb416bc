"""The hash chain of each log and its keyed head (lifecycle contract, 4.3 rule 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Manager, QuerySet

from runs import store
from runs.domain.errors import LogArchived, NotFound
from runs.domain.facts import Event
from runs.models import Campaign, CampaignEvent, EventArchive, Run, RunEvent, Task, TaskEvent


@dataclass(frozen=True, slots=True)
class Break:
    """Where a log was changed past the product: its first event that does not hold, and why."""

    stream: str
    sequence: int
    why: str

    def __str__(self) -> str:
        return f"{self.stream} breaks at event {self.sequence}: {self.why}"


def breaks(stream_id: str = "") -> Iterator[Break]:
    """The first break of each log, or of one stream's alone; drafts that were deleted included.

    Raises ``NotFound`` for an id without a log, ``LogArchived`` for one whose log is in a file.
    """
    if stream_id and not _is_logged(stream_id):
        if archive := EventArchive.of(stream_id):
            raise LogArchived(archive.sentence, archive=archive.file)
        raise NotFound
    run_ids = _logged(RunEvent.objects.filter(run_id=stream_id) if stream_id else RunEvent.objects, "run_id")
    for run_id in run_ids:
        yield from _break(run_id, store.events_of(run_id), Run.objects.filter(pk=run_id).first())
    own = CampaignEvent.objects.filter(campaign_id=stream_id) if stream_id else CampaignEvent.objects
    for campaign_id in _logged(own, "campaign_id"):
        row = Campaign.objects.filter(pk=campaign_id).first()
        yield from _break(campaign_id, store.campaign_events_of(campaign_id), row)
    rows = TaskEvent.objects.filter(task_id=stream_id) if stream_id else TaskEvent.objects
    for task_id in _logged(rows, "task_id"):
        yield from _break(task_id, store.task_events_of(task_id), Task.objects.filter(pk=task_id).first())


def _is_logged(stream_id: str) -> bool:
    return (
        RunEvent.objects.filter(run_id=stream_id).exists()
        or TaskEvent.objects.filter(task_id=stream_id).exists()
        or CampaignEvent.objects.filter(campaign_id=stream_id).exists()
    )


def _logged(rows: QuerySet | Manager, name: str) -> Iterator[str]:
    yield from rows.order_by(name).values_list(name, flat=True).distinct().iterator(chunk_size=1_000)


def _break(stream: str, events: Iterable[Event], row: Run | Task | Campaign | None) -> Iterator[Break]:
    """At most one: all that follows the first hangs in the air."""
    sequence, link = 0, ""
    for event in events:
        sequence += 1
        if why := wrong_link(event, sequence, link):
            yield Break(stream, sequence, why)
            return
        link = event.hash
    if row is None:
        return
    if row.version != sequence:
        yield Break(stream, sequence + 1, f"{row.version} events were recorded, {sequence} are there")
    elif row.chain_hash != link:
        yield Break(stream, sequence, "the recorded head is another event's")
    elif row.chain_mac != store.mac(stream, sequence, link):
        yield Break(stream, sequence, "the head's key does not fit: it was made without the platform's key")


def wrong_link(event: Event, sequence: int, link: str) -> str:
    """What is wrong with the event that should be number ``sequence`` and follow ``link``; "" if nothing."""
    if event.sequence != sequence:
        return f"the next event there is number {event.sequence}"
    if event.previous_hash != link:
        return "it does not continue the event before it"
    return "" if store.hash_of(event) == event.hash else "its content is not what was recorded"
