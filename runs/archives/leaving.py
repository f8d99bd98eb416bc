"""A partition's way out of the database: nothing moves in it, the disk has it, verified; then it goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from psycopg import sql

from agentplatform.clock import database_now
from agentplatform.ids import first_id
from runs.archives.files import digest_of, settle, write_archive
from runs.archives.proof import verify_archive
from runs.domain.vocabulary import TASK_FINAL, TERMINAL
from runs.models import Delivery, EventArchive, PullRequest, Run
from runs.partitions import Partition, partitions
from runs.rebuild.chain import Break

log = structlog.get_logger(__name__)

_LOCK_TIMEOUT: Final = "2s"


class NotComplete(Exception):  # noqa: N818  an answer, not a fault
    """The file does not hold what the database does; nothing was removed."""

    def __init__(self, breaks: list[Break]) -> None:
        self.breaks = breaks
        super().__init__("; ".join(map(str, breaks[:5])))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a partition stays: how many of what, and one of them."""

    count: int
    what: str
    example: str

    def __str__(self) -> str:
        return f"{self.count} {self.what}, for example {self.example}"


def due(*, days: int) -> list[Partition]:
    """Partitions all of whose runs were made more than ``days`` ago, oldest first."""
    limit = first_id("run", database_now() - timedelta(days=days))
    return [one for one in partitions() if one.beyond <= limit]


def waiting_for(partition: Partition, *, days: int) -> list[Reason]:
    """What still moves or may be asked for; empty when the partition may go. Four queries."""
    since = database_now() - timedelta(days=days)
    runs = _runs_of(partition)
    within = Q(stream__startswith="run_", stream__gte=partition.first, stream__lt=partition.beyond)
    looked_at = PullRequest.objects.filter(run__in=runs, next_look_at__isnull=False)
    found = [
        _waiting(runs.exclude(_ended(since)), "runs have not ended so long ago"),
        _waiting(runs.exclude(task__status__in=TASK_FINAL), "runs belong to an unfinished task"),
        _waiting(looked_at, "pull requests are still open"),
        _waiting(Delivery.objects.filter(within).exclude(state=Delivery.DELIVERED), "deliveries are pending"),
    ]
    return [one for one in found if one is not None]


def _ended(since: datetime) -> Q:
    return Q(status__in=TERMINAL, completed_at__lt=since)


def _waiting(rows: QuerySet, what: str) -> Reason | None:
    count = rows.count()
    return Reason(count, what, str(rows.order_by("pk")[0].pk)) if count else None


def _runs_of(partition: Partition) -> QuerySet[Run]:
    return Run.objects.filter(pk__gte=partition.first, pk__lt=partition.beyond, version__gt=0)


def archive_partition(partition: Partition, *, folder: Path | None = None) -> EventArchive:
    """Write, verify from the disk, remove. As the owner of the tables, and for one that waits for nothing.

    Raises ``NotComplete``, and ``OperationalError`` where a lock is not had in two seconds. Whatever stops it
    half-way, the next call goes on; until the last step the events are in the database.
    """
    folder = folder or settings.ARCHIVE_DIR
    folder.mkdir(parents=True, exist_ok=True)
    row = EventArchive.objects.filter(pk=partition.name, removed_at__isnull=True).first()
    if row is None or not _is_there(folder / row.file, row.sha256):
        row = _written(partition, folder)
    try:
        _remove(partition, row)
    except NotComplete:
        row.delete()  # the next call writes another
        (folder / row.file).unlink(missing_ok=True)
        raise
    log.info("partition_archived", partition=partition.name, runs=row.runs, events=row.events)
    return row


def _is_there(path: Path, sha256: str) -> bool:
    return path.is_file() and digest_of(path) == sha256


def _written(partition: Partition, folder: Path) -> EventArchive:
    """The file's name has its digest: one of a name never changes, so that a backup may keep what it has."""
    draft = folder / f".{partition.name}.draft"
    runs = _runs_of(partition).order_by("pk").iterator(chunk_size=500)
    whole = write_archive(draft, partition.name, runs)
    if breaks := list(verify_archive(draft)):
        raise NotComplete(breaks)
    sha256 = digest_of(draft)
    path = folder / f"{partition.name}.{sha256[:12]}.jsonl.gz"
    draft.replace(path)
    settle(folder)  # its name, too, outlives a loss of power, before the events go
    row = EventArchive(
        name=partition.name,
        first=partition.first,
        beyond=partition.beyond,
        file=path.name,
        sha256=sha256,
        runs=whole.runs,
        events=whole.events,
        written_at=database_now(),
    )
    row.save()
    return row


@transaction.atomic
def _remove(partition: Partition, row: EventArchive) -> None:
    """Drop the partition if it still holds what was written, in one transaction with the word of it."""
    table = sql.Identifier("partitions", partition.name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        # Nobody adds to it from here on, and what was added since it was written is counted.
        cursor.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(table))
        cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(table))
        (count,) = cursor.fetchone()
        if count != row.events:
            why = f"{row.events} events were written, {count} are there; write it again"
            raise NotComplete([Break(partition.name, row.events, why)])
        row.removed_at = database_now()
        row.save(update_fields=["removed_at"])
        # Writers lock their run before they write an event: whoever asks in the same order meets none.
        cursor.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        cursor.execute(sql.SQL("DROP TABLE {}").format(table))
