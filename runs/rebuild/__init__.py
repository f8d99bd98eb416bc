"""Rows against their log: fold again, compare, rewrite (lifecycle contract, 4.3 rule 5).

Leases are no projection, nor is the moment at which the sweep looks next: both follow the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import structlog
from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from agentplatform import stopping
from agentplatform.clock import database_now
from runs import store
from runs.domain.errors import LogArchived, NotFound
from runs.models import Alarm, Campaign, EventArchive, LogCheck, Run, Task
from runs.rebuild.alarms import note
from runs.rebuild.campaigns import campaign_differences, rewrite_campaign
from runs.rebuild.chain import Break, breaks
from runs.rebuild.comparing import Difference
from runs.rebuild.runs import rewrite_run, run_differences
from runs.rebuild.tasks import rewrite_task, task_differences

__all__ = [
    "Break",
    "Difference",
    "Unreadable",
    "all_streams",
    "assert_folds",
    "breaks",
    "check",
    "check_all",
    "differences",
    "rebuild",
]

log = structlog.get_logger(__name__)

_PAGE: Final = 1_000


def assert_folds(stream_id: str) -> None:
    """Raise ``AssertionError`` with every difference of one run, task or campaign."""
    found = differences(stream_id, whole=True)
    assert not found, "\n".join(map(str, found))  # noqa: S101  that is what it is for


class Unreadable(Exception):  # noqa: N818  a finding, not an error
    """A log that cannot be folded at all: somebody changed it past every guard."""


@transaction.atomic
def differences(stream_id: str, *, whole: bool = False) -> list[Difference]:
    """Where the rows of one run, task or campaign differ from its log; under its lock, so nobody writes.

    A long run is folded from its last checkpoint, unless the ``whole`` log is asked for. Raises ``NotFound``
    for an unknown id, and ``Unreadable``.
    """
    try:
        return _differences(stream_id, whole=whole)
    except (NotFound, LogArchived, DatabaseError):
        raise
    except Exception as error:  # a changed event may hold anything
        raise Unreadable(f"{stream_id} cannot be folded: {type(error).__name__}: {error}"[:300]) from error


def _differences(stream_id: str, *, whole: bool) -> list[Difference]:
    if EventArchive.of(stream_id):
        return []  # `verify_log --file` holds the archive against the row
    if Run.objects.filter(pk=stream_id).exists():
        return list(run_differences(store.lock_run(stream_id), whole=whole))
    if Campaign.objects.filter(pk=stream_id).exists():
        return list(campaign_differences(store.lock_campaign(stream_id).row))
    return list(task_differences(store.lock_task(stream_id)))


def all_streams() -> Iterator[str]:
    """Ids of all campaigns, then of all tasks, then of all runs whose log is at hand."""
    yield from _in_pages(Campaign.objects.values_list("pk", flat=True))
    yield from _in_pages(Task.objects.values_list("pk", flat=True))
    runs = Run.objects.all()
    for archive in EventArchive.objects.filter(removed_at__isnull=False):
        runs = runs.exclude(pk__gte=archive.first, pk__lt=archive.beyond)
    yield from _in_pages(runs.values_list("pk", flat=True))


def _in_pages(ids: QuerySet[Any, str]) -> Iterator[str]:
    """Page by page, each a statement of its own: a cursor would have to outlive many transactions."""
    after = ""
    while page := list(ids.filter(pk__gt=after).order_by("pk")[:_PAGE]):
        yield from page
        after = page[-1]


@transaction.atomic
def rebuild(stream_id: str) -> list[Difference]:
    """Rewrite the rows of one run, task or campaign from its log, clear its alarms; returns what differed.

    The database refuses a status that the table does not allow from the stored one: such a row was changed
    past every guard, and its repair is a decision, not a command.
    """
    found = differences(stream_id, whole=True)
    if found and Run.objects.filter(pk=stream_id).exists():
        rewrite_run(store.lock_run(stream_id))
    elif found and Campaign.objects.filter(pk=stream_id).exists():
        rewrite_campaign(store.lock_campaign(stream_id).row)
    elif found:
        rewrite_task(store.lock_task(stream_id))
    Alarm.objects.filter(stream=stream_id, kind=Alarm.ROWS).delete()
    return found


# --- the nightly check ----------------------------------------------------------------------------


def check_all() -> LogCheck:
    """Look at every log and its rows: alarms are what was found, those of what is right again are gone.

    A check that the process's end cuts short has no end, and counts for none.
    """
    row = LogCheck.objects.create(started_at=database_now())
    for stream_id in all_streams():
        row.alarms += check(stream_id)
        row.streams += 1
        if stopping.is_asked():
            row.save()
            return row
    row.finished_at = database_now()
    row.save()
    log.info("log_checked", streams=row.streams, alarms=row.alarms)
    return row


def check(stream_id: str) -> int:
    """Look at one run, task or campaign, rows and chain; how many alarms it has now."""
    try:
        broken = list(breaks(stream_id))
        return note(stream_id, differences(stream_id), broken)
    except (NotFound, LogArchived):  # a draft that was deleted meanwhile, a log that has left
        return note(stream_id, [], [])
    except Unreadable as unreadable:
        return note(stream_id, [], broken, unreadable=str(unreadable))
