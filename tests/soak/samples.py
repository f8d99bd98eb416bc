"""One look at a product under load, and what a row of them says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

import psutil
import psycopg

from agentplatform.postgres import OWNER_ROLE
from tests.chaos.world import World

MIB: Final = 2**20
#: Growth after warm-up that is still level (reliability, "soak").
MOST_GROWTH: Final = 0.05
#: A level that a sample or two may leave for a moment: what was being written when it was looked at.
MOST_WAITING: Final = 200
MOST_DEAD: Final = 5_000

#: Rows that were replaced and not yet cleared away, and those that live, in tables that are written often.
_TABLES: Final = """
SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint
FROM pg_stat_user_tables WHERE relname IN ('runs', 'run_leases', 'deliveries', 'outbox', 'worker_accounts',
    'run_watches', 'steps', 'attempts', 'tasks')
"""
_EVENTS: Final = (
    "SELECT coalesce(sum(n_tup_ins), 0)::bigint FROM pg_stat_user_tables"
    " WHERE starts_with(relname, 'run_events')"
)
_WAITING: Final = "SELECT count(*) FROM deliveries WHERE state = 'pending'"
_IDLE: Final = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '5 seconds'
"""
_SIZE: Final = "SELECT pg_database_size(current_database())"


@dataclass(frozen=True)
class Sample:
    """At ``at`` seconds: MiB of each program, rows dead and alive, messages waiting, transactions idling."""

    at: float
    web: float
    background: float
    workers: float
    database: float
    dead: int
    live: int
    size: float
    events: int
    waiting: int
    idle: int

    HEAD: ClassVar[str] = (
        "seconds  web MiB  background MiB  workers MiB  database MiB  dead rows  live rows  on disk MiB"
        "  events  outbox  idle transactions"
    )

    def __str__(self) -> str:
        return (
            f"{self.at:7.0f}  {self.web:7.1f}  {self.background:14.1f}  {self.workers:11.1f}"
            f"  {self.database:12.1f}  {self.dead:9d}  {self.live:9d}  {self.size:11.1f}"
            f"  {self.events:6d}  {self.waiting:6d}  {self.idle:17d}"
        )


def look(here: World, *, at: float) -> Sample:
    """What it is like now."""
    machines = [machine.process.pid for machine in here.machines if machine.process is not None]
    with psycopg.connect(here.server.url(OWNER_ROLE), autocommit=True) as database:
        dead, live = _row(database, _TABLES)
        (events,), (waiting,), (idle,), (size,) = (
            _row(database, text) for text in (_EVENTS, _WAITING, _IDLE, _SIZE)
        )
    return Sample(
        at=at,
        web=resident(here.children("gunicorn")),
        background=resident(here.children("celery")),
        workers=resident(psutil.Process(pid) for pid in machines if psutil.pid_exists(pid)),
        database=resident(here.database()),
        dead=dead,
        live=live,
        size=size / MIB,
        events=events,
        waiting=waiting,
        idle=idle,
    )


def _row(database: psycopg.Connection, statement: str) -> tuple[int, ...]:
    row = database.execute(statement).fetchone()
    assert row is not None
    return tuple(int(value) for value in row)


def resident(processes: Iterable[psutil.Process]) -> float:
    """MiB that they hold by themselves: what processes share is not counted once for each."""
    found = 0
    for process in processes:
        with suppress(psutil.Error):
            found += process.memory_full_info().uss
    return found / MIB


def verdicts(samples: Sequence[Sample]) -> list[str]:
    """What is not level, in words. The first quarter is warm-up."""
    rest = samples[len(samples) // 4 :]
    found = [
        f"memory of {name} grew by {growth:.0%} after warm-up"
        for name in ("web", "background", "workers")
        if (growth := _growth([getattr(sample, name) for sample in rest])) > MOST_GROWTH
    ]
    if idle := max(sample.idle for sample in samples):
        found.append(f"{idle} transactions idled for more than 5 s")
    if (waiting := _median([sample.waiting for sample in rest])) > MOST_WAITING:
        found.append(f"{waiting:.0f} messages waited in the outbox")
    last = rest[len(rest) // 2 :]
    if all(sample.dead > max(MOST_DEAD, sample.live) for sample in last):
        found.append("more dead rows than living ones, and nobody clears them away")
    if samples[-1].events <= samples[0].events:
        found.append("nothing happened: there was no load")
    return found


def _growth(values: Sequence[float]) -> float:
    """Of the median of the last third over that of the first; a single peak is no growth."""
    third = max(1, len(values) // 3)
    first, last = _median(values[:third]), _median(values[-third:])
    return (last - first) / first if first else 0.0


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
