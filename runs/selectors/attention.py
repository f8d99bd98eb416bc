"""What needs an operator's eye: alarms, parked deliveries, and whether the check of the log still runs.

Shown on the first page of the admin, and to Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.db import DatabaseError, connection
from django.db.models import Count
from django.urls import reverse
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from runs import partitions
from runs.domain.facts import Json
from runs.models import Alarm, Delivery, LogCheck
from runs.selectors.words import when

#: Seconds. Every statement of ours ends within one (docs, operations).
LONGEST_TRANSACTION: Final = 300


def attention() -> list[Json]:
    """``[{text, href}]``, the worst first; empty when all is well. Five queries."""
    found = []
    if alarms := sum(alarms_by_kind().values()):
        what = "1 alarm: a row or a log is" if alarms == 1 else f"{alarms} alarms: rows or logs are"
        found.append({"text": f"{what} not as recorded.", "href": reverse("admin:runs_alarm_changelist")})
    if parked := parked_by_consumer():
        names = ", ".join(f"{count} for {name}" for name, count in sorted(parked.items()))
        href = f"{reverse('admin:runs_delivery_changelist')}?state={Delivery.PARKED}"
        found.append({"text": f"Deliveries were given up: {names}.", "href": href})
    if (age := oldest_transaction()) > LONGEST_TRANSACTION:
        text = f"A transaction is open for {age // 60:.0f} minutes: meanwhile tables grow and claims slow."
        found.append({"text": text, "href": reverse("admin:index")})
    if partitions.strays():
        text = "Events lie in no partition of their time: `manage.py partitions` says which, and moves them."
        found.append({"text": text, "href": reverse("admin:runs_runevent_changelist")})
    return found


def oldest_transaction() -> float:
    """Seconds that the oldest transaction of the app's own logins is open, this one aside. One query.

    It holds back the vacuum of every table: dead rows of the queue are then read again by each claim.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)"
            " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return float(cursor.fetchone()[0])


def last_check() -> Json | None:
    """``{when, alarms}`` of the newest finished check, or None. One query."""
    row = LogCheck.objects.filter(finished_at__isnull=False).first()
    return {"when": when(row.started_at), "alarms": row.alarms, "streams": row.streams} if row else None


def alarms_by_kind() -> dict[str, int]:
    """Numbers of open alarms; every kind is there. One query."""
    found = dict(Alarm.objects.order_by().values_list("kind").annotate(Count("pk")))
    return {kind: found.get(kind, 0) for kind in (Alarm.ROWS, Alarm.LOG)}


def parked_by_consumer() -> dict[str, int]:
    """Numbers of parked deliveries, of consumers that have any. One query."""
    rows = Delivery.objects.filter(state=Delivery.PARKED).order_by()
    return dict(rows.values_list("consumer").annotate(Count("pk")))


class AttentionCollector:
    """The same as gauges, read from the database when they are asked for; without one there are none."""

    def collect(self) -> Iterator[Metric]:
        """Prometheus calls this at every scrape."""
        try:
            alarms, parked, checked = alarms_by_kind(), parked_by_consumer(), _checked_at()
            oldest = oldest_transaction()
            ends, strays = partitions.partitions()[-1].ends, partitions.strays()
        except DatabaseError:
            return
        by_kind = GaugeMetricFamily("agentplatform_alarms", "Rows or logs not as recorded.", labels=["kind"])
        for kind, count in alarms.items():
            by_kind.add_metric([kind], count)
        yield by_kind
        by_consumer = GaugeMetricFamily(
            "agentplatform_deliveries_parked", "Deliveries that were given up.", labels=["consumer"]
        )
        for consumer, count in parked.items():
            by_consumer.add_metric([consumer], count)
        yield by_consumer
        name = "agentplatform_oldest_transaction_seconds"
        yield GaugeMetricFamily(name, "How long the oldest transaction is open.", oldest)
        name = "agentplatform_events_without_partition"
        yield GaugeMetricFamily(name, "Events in the default partition, counted up to 10,000.", strays)
        name = "agentplatform_partitions_end_timestamp_seconds"
        yield GaugeMetricFamily(
            name, "From when on runs have no partition for their events.", ends.timestamp()
        )
        if checked:
            name = "agentplatform_log_checked_timestamp_seconds"
            yield GaugeMetricFamily(name, "When the last check of all logs ended.", checked.timestamp())

    def describe(self) -> list[Metric]:
        """Nothing is asked of the database when the process starts."""
        return []


def _checked_at() -> datetime | None:
    newest = LogCheck.objects.filter(finished_at__isnull=False).order_by("-finished_at")
    return newest.values_list("finished_at", flat=True).first()
