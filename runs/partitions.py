"""The partitions of the events' table: made ahead of time, each for the runs of some days.

A run's id tells when it was made, so all its events lie in one partition, and a partition ends as a whole.
Events of a run that no partition is there for yet fall into the default one: nothing is refused, and the next
partitions take them up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import connection, transaction

from agentplatform.clock import database_now
from agentplatform.ids import first_id, moment_of

log = structlog.get_logger(__name__)

#: Partitions that are there before anybody needs them.
AHEAD: Final = 3
#: Events that are moved out of the default partition by the way; writers wait meanwhile, for about a second.
MOVED_BY_THE_WAY: Final = 50_000
#: Further than this nobody counts what lies in the default partition.
MOST_COUNTED: Final = 10_000

_BOUNDS: Final = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), pg_total_relation_size(c.oid)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'run_events'::regclass AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
"""
_RANGE: Final = re.compile(r"FROM \((?:MINVALUE|'(?P<first>[^']*)')\) TO \('(?P<beyond>[^']*)'\)")


@dataclass(frozen=True, slots=True)
class Partition:
    """Events of the runs whose ids lie between; ``first`` is "" where it reaches back to the beginning."""

    name: str
    first: str
    beyond: str
    bytes: int = field(default=0, compare=False)

    @property
    def begins(self) -> datetime | None:
        """When its first runs were or will be made."""
        return moment_of(self.first) if self.first else None

    @property
    def ends(self) -> datetime:
        """When runs are made that go into the next one."""
        return moment_of(self.beyond)


def partitions() -> list[Partition]:
    """All but the default one, in order; one query."""
    with connection.cursor() as cursor:
        cursor.execute(_BOUNDS)
        rows = cursor.fetchall()
    found = [(name, _RANGE.search(bounds), size) for name, bounds, size in rows]
    ranges = [Partition(name, m["first"] or "", m["beyond"], size) for name, m, size in found if m]
    return sorted(ranges, key=lambda one: one.beyond)


def make_ahead(*, most: int = MOVED_BY_THE_WAY) -> list[Partition]:
    """Make partitions until ``AHEAD`` of them begin in the future; returns the new ones.

    Each also takes up the events that wait for it in the default partition, if there are at most ``most``.
    Raises ``OperationalError`` where somebody holds a lock for longer than two seconds, or where more wait:
    nothing is lost, the next call goes on.
    """
    made = []
    period = timedelta(days=settings.EVENT_PARTITION_DAYS)
    while last := _last_if_too_near(period):
        ends = last.ends + period
        new = Partition(f"run_events_{last.ends:%Y%m%d}", last.beyond, first_id("run", ends))
        if not _make(new, most):
            break
        log.info("partition_made", partition=new.name, ends=ends.isoformat())
        made.append(new)
    return made


def _last_if_too_near(period: timedelta) -> Partition | None:
    last = partitions()[-1]
    return last if last.ends < database_now() + AHEAD * period else None


def _make(new: Partition, most: int) -> bool:
    """False where another process is at it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('add_event_partition'))")
        if cursor.fetchone() != (True,):
            return False
        cursor.execute("SELECT add_event_partition(%s, %s, %s, %s)", [new.name, new.first, new.beyond, most])
    return True


def strays() -> int:
    """Events for which there was no partition, counted up to ``MOST_COUNTED``; two queries."""
    last = partitions()[-1]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM run_events WHERE run_id >= %s LIMIT %s) found",
            [last.beyond, MOST_COUNTED],
        )
        count: int = cursor.fetchone()[0]
    return count
