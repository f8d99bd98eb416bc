"""Live logs: what a step says while it runs, without an event (REST contract, "Endpoints").

Bytes are numbered from 0. A repeated post adds nothing; a gap or other bytes are refused with the right
offset. A worker masks the values that it knows; what looks like a secret all the same is masked here when it
arrives, byte for byte. When the step has ended, its log is sealed into an artifact. It reads the same before
and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from runs import store
from runs.artifacts import artifact_read, artifact_seal
from runs.domain.errors import Invalid, LeaseLost, NotAllowedNow, NotFound, OffsetConflict, TooLarge
from runs.domain.log_masking import LOOK_BACK, is_same, mask_bytes, unfinished_word
from runs.domain.vocabulary import TERMINAL, ArtifactKind, StepState
from runs.domain.whole_text import begun_character, rest_of_character
from runs.models import LiveLog, LogChunk, Run, Step

CHUNK_MAX_BYTES: Final = 1 << 20
READ_MAX_BYTES: Final = 1 << 20
#: What one reading looks back, to begin with a whole character.
_LOOK_BACK: Final = 3
_UNFINISHED: Final = (StepState.PENDING.value, StepState.RUNNING.value)


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes from ``start``; ``next_offset`` is where to go on, ``complete`` that nothing will follow."""

    data: bytes
    start: int
    next_offset: int
    complete: bool


# --- writing --------------------------------------------------------------------------------------


@transaction.atomic
def livelog_append(
    *, run_id: str, operation_id: str, offset: int, data: bytes, account: str, lease_token: str
) -> int:
    """Add ``data`` to the log of a pending operation, under the active lease; where the next bytes go.

    Raises ``LeaseLost``, ``OffsetConflict``, ``TooLarge``; ``NotAllowedNow`` after the operation's end and
    ``Invalid`` for one that was never requested.
    """
    run = store.lock_run(run_id)
    lease, now = store.lease_and_clock(run.pk)
    if lease is None or not store.holds(lease, account, lease_token, now):
        raise LeaseLost(fence=run.fence)
    _check_open(run, operation_id)
    live, _ = LiveLog.objects.get_or_create(
        run=run,
        operation_id=operation_id,
        fence=lease.fence,
        defaults={"worker_id": account, "created_at": now},
    )
    fresh = _fresh(live, offset, data)
    if live.size + len(fresh) > settings.LIVE_LOG_MAX_BYTES:
        raise TooLarge("The log is full.", limit_bytes=settings.LIVE_LOG_MAX_BYTES, offset=live.size)
    if fresh:
        _add(live, fresh)
    return live.size


def _add(live: LiveLog, fresh: bytes) -> None:
    """Append, masked together with what is there: a secret may have begun in an earlier piece."""
    start = max(live.size - LOOK_BACK, 0)
    before = livelog_bytes(live, start, live.size)
    masked = mask_bytes(before + fresh)
    if not masked.startswith(before):
        _replace(live, start, masked[: len(before)])
    LogChunk.objects.create(log=live, start=live.size, data=masked[len(before) :])
    live.size += len(fresh)
    live.masked |= masked != before + fresh
    live.save(update_fields=["size", "masked"])


def _replace(live: LiveLog, start: int, data: bytes) -> None:
    """Put these bytes where others of the same number stand, from ``start`` to the log's end."""
    for chunk in live.chunks.filter(start__gt=start - CHUNK_MAX_BYTES):
        first = max(start - chunk.start, 0)
        part = data[max(chunk.start - start, 0) :][: len(chunk.data) - first]
        kept = bytes(chunk.data)
        if kept[first:] != part:
            chunk.data = kept[:first] + part
            chunk.save(update_fields=["data"])


def _check_open(run: Run, operation_id: str) -> None:
    if operation_id in run.state["pending"]:
        return
    if Step.objects.filter(run=run, operation_id=operation_id).exists():
        raise NotAllowedNow(f"Operation {operation_id} has its result already; its log is closed.")
    raise Invalid({"operation_id": ["was never requested"]})


def _fresh(live: LiveLog, offset: int, data: bytes) -> bytes:
    """What of ``data`` is not stored yet; the rest must be the same as what is."""
    if offset > live.size:
        raise OffsetConflict(offset=live.size)
    known = live.size - offset
    start = max(offset - LOOK_BACK, 0)
    stored = livelog_bytes(live, start, min(live.size, offset + len(data) + LOOK_BACK)) if known else b""
    end = offset + min(known, len(data))
    if known and not is_same(stored, data[:known], offset - start, end - start):
        raise OffsetConflict("Other bytes are stored there; what is stored stays.", offset=live.size)
    return data[known:]


def livelog_bytes(live: LiveLog, start: int, end: int) -> bytes:
    """The bytes from ``start`` to ``end``, where the log has them."""
    if live.artifact is not None:
        return artifact_read(live.artifact, start, max(end, start))
    rows = live.chunks.filter(start__gt=start - CHUNK_MAX_BYTES, start__lt=end).order_by("start")
    found = list(rows.values_list("start", "data"))
    if not found:
        return b""
    first = found[0][0]
    return b"".join(bytes(data) for _, data in found)[start - first : end - first]


def livelog_readable(live: LiveLog) -> int:
    """Where what may be shown of a growing log ends: a word that goes on may be half a secret."""
    return live.size - unfinished_word(livelog_bytes(live, max(live.size - LOOK_BACK, 0), live.size))


# --- reading --------------------------------------------------------------------------------------


def livelog_read(run: Run, operation_id: str, *, offset: int) -> Reading:
    """At most 1 MiB of an operation's newest log, from ``offset`` on; while it grows, to the end of a word.

    Raises ``NotFound`` where nothing was ever logged.
    """
    rows = LiveLog.objects.select_related("artifact").filter(run=run, operation_id=operation_id)
    live = rows.order_by("-fence").first()
    if live is None:
        raise NotFound("Nothing was logged under this operation.")
    ended = live.artifact is not None or live.fence < run.fence or operation_id not in run.state["pending"]
    readable = live.size if ended else livelog_readable(live)
    offset = min(offset, live.size)
    look_back = min(_LOOK_BACK, offset)
    window = livelog_bytes(live, offset - look_back, max(min(offset + READ_MAX_BYTES, readable), offset))
    before, data = window[:look_back], window[look_back:]
    skipped = rest_of_character(before, data)
    at_end = offset + len(data) == live.size
    held = 0 if ended and at_end else begun_character(data)
    data = data[skipped : len(data) - held]
    start = offset + skipped
    return Reading(data, start, start + len(data), complete=ended and at_end)


# --- sealing --------------------------------------------------------------------------------------


def livelogs_seal() -> int:
    """Seal the logs of all ended operations; how many. Beat calls it after each sweep.

    Apart from the event that ends the step: a full disk must undo no result.
    """
    return sum(_seal(pk) for pk in _ended().values_list("pk", flat=True))


def _ended() -> QuerySet[LiveLog]:
    steps = Step.objects.filter(run=OuterRef("run"), operation_id=OuterRef("operation_id"))
    over = (
        Q(run__status__in=[status.value for status in TERMINAL])
        | Q(fence__lt=F("run__fence"))
        | ~Exists(steps.filter(state__in=_UNFINISHED))
    )
    return LiveLog.objects.filter(over, artifact__isnull=True).order_by("pk")


def _seal(pk: int) -> int:
    """First the artifact; then row and the chunks' end in one transaction. 0 where another was first."""
    live = LiveLog.objects.select_related("run").get(pk=pk)
    data = livelog_bytes(live, 0, live.size)
    if len(data) < live.size:  # sealed, and its chunks gone, since it was read
        return 0
    artifact = artifact_seal(
        run=live.run,
        kind=ArtifactKind.LOG,
        data=data,
        content_type="text/plain; charset=utf-8",
        account=live.worker_id,
        fence=live.fence,
    )
    with transaction.atomic():
        sealed = LiveLog.objects.filter(pk=pk, artifact__isnull=True).update(artifact=artifact)
        live.chunks.all().delete()
    return sealed
