"""The state of the fleet as gauges, read from the database when they are asked for.

Ten numbers that an alert looks at, in one statement each, over indexes that hold only what is under way: a
scrape of a platform with a million runs costs what one with a hundred does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.db import DatabaseError, connection
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from runs.domain.vocabulary import ACTIVE, MACHINE_ROLES

_ACTIVE: Final = tuple(sorted(status.value for status in ACTIVE))

_RUNS: Final = """
SELECT status, count(*), extract(epoch FROM clock_timestamp() - min(status_since))::float
FROM runs WHERE status = ANY (%(active)s) GROUP BY status
"""
_ENDED: Final = """
SELECT status, failure_category, count(*) FROM run_outcomes
WHERE ended_at > clock_timestamp() - interval '1 hour' GROUP BY 1, 2
"""
_QUEUE: Final = """
SELECT claim_role, count(*), extract(epoch FROM clock_timestamp()
    - min(greatest(coalesce(idle_since, created_at), coalesce(not_before, created_at))))::float
FROM runs WHERE claim_role <> '' AND (not_before IS NULL OR not_before <= clock_timestamp())
GROUP BY claim_role
"""
_LEASES: Final = "SELECT count(*) FROM run_leases WHERE ended_at IS NULL"
_LOST: Final = """
SELECT count(*) FROM run_leases
WHERE end_reason = 'lease_lost' AND ended_at > clock_timestamp() - interval '15 minutes'
"""
_SWEEP: Final = """
SELECT greatest(0, extract(epoch FROM clock_timestamp() - least(
    (SELECT min(expires_at) FROM run_leases WHERE ended_at IS NULL),
    (SELECT min(expires_at) FROM runs WHERE status = ANY (%(active)s) AND expires_at IS NOT NULL)
)))::float
"""
_OUTBOX: Final = """
SELECT consumer, count(*), greatest(0, extract(epoch FROM clock_timestamp() - min(next_try_at)))::float
FROM deliveries WHERE state = 'pending' GROUP BY consumer
"""
_WORKERS: Final = """
SELECT count(*) FROM worker_accounts
WHERE greatest(last_seen_at, last_asked_at) > clock_timestamp() - interval '60 seconds'
"""
_HOLDS: Final = """
SELECT count(*) FROM holds
WHERE lifted_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
"""
_IDLE: Final = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND state LIKE 'idle in transaction%%' AND state_change < clock_timestamp() - interval '5 seconds'
"""


class FleetCollector:
    """Asked by Prometheus. A database that is away is one figure, ``agentplatform_database_up``."""

    def collect(self) -> Iterator[Metric]:
        """Every gauge, or none but that the database is away."""
        try:
            found = list(_gauges())
        except DatabaseError:
            connection.close()
            yield _one("agentplatform_database_up", "Whether the database answers.", 0)
            return
        yield _one("agentplatform_database_up", "Whether the database answers.", 1)
        yield from found

    def describe(self) -> list[Metric]:
        """Nothing is asked of the database when the process starts."""
        return []


def _gauges() -> Iterator[Metric]:
    yield from _runs()
    yield from _queue()
    yield from _outbox()
    one = (
        ("agentplatform_leases", "Leases in force.", _LEASES),
        ("agentplatform_leases_lost_recently", "Leases lost within 15 minutes.", _LOST),
        ("agentplatform_sweep_lag_seconds", "How long the longest overdue clock is overdue.", _SWEEP),
        ("agentplatform_workers", "Worker accounts seen within a minute.", _WORKERS),
        ("agentplatform_holds", "Holds in force.", _HOLDS),
        ("agentplatform_idle_transactions", "Transactions idle for more than 5 seconds.", _IDLE),
    )
    for name, sentence, statement in one:
        yield _one(name, sentence, _rows(statement)[0][0] or 0)


def _runs() -> Iterator[Metric]:
    rows = {status: (count, age) for status, count, age in _rows(_RUNS)}
    counts = GaugeMetricFamily("agentplatform_runs", "Unfinished runs.", labels=["status"])
    ages = GaugeMetricFamily(
        "agentplatform_runs_oldest_seconds",
        "How long the run has been there that came first.",
        labels=["status"],
    )
    for status in _ACTIVE:  # all of them: a series that comes and goes cannot be told from a gap
        count, age = rows.get(status, (0, 0.0))
        counts.add_metric([status], count)
        ages.add_metric([status], age)
    ended = GaugeMetricFamily(
        "agentplatform_runs_ended_recently", "Runs that ended within an hour.", labels=["status", "category"]
    )
    for status, category, count in _rows(_ENDED):
        ended.add_metric([status, category], count)
    yield from (counts, ages, ended)


def _queue() -> Iterator[Metric]:
    rows = {role: (count, age) for role, count, age in _rows(_QUEUE)}
    counts = GaugeMetricFamily("agentplatform_claimable_runs", "Runs to be claimed now.", labels=["role"])
    waits = GaugeMetricFamily(
        "agentplatform_queue_wait_seconds", "How long the foremost of them waits.", labels=["role"]
    )
    for role in MACHINE_ROLES:
        count, age = rows.get(role.value, (0, 0.0))
        counts.add_metric([role.value], count)
        waits.add_metric([role.value], age)
    yield from (counts, waits)


def _outbox() -> Iterator[Metric]:
    pending = GaugeMetricFamily("agentplatform_outbox_pending", "Messages to deliver.", labels=["consumer"])
    lags = GaugeMetricFamily(
        "agentplatform_outbox_lag_seconds", "How long the first that is due waits.", labels=["consumer"]
    )
    for consumer, count, lag in _rows(_OUTBOX):
        pending.add_metric([consumer], count)
        lags.add_metric([consumer], lag)
    yield from (pending, lags)


def _one(name: str, sentence: str, value: float) -> Metric:
    return GaugeMetricFamily(name, sentence, float(value))


def _rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"active": list(_ACTIVE)})
        return list(cursor.fetchall())
