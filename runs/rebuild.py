"""Rows against their log: fold again, compare, rewrite (lifecycle contract, 4.3 rule 5).

Leases are no projection, nor is the moment at which the sweep looks next: both follow the clock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.db.models import Manager, Model, QuerySet

from runs import store
from runs.domain.errors import NotFound
from runs.domain.facts import Event, Json
from runs.domain.fold import fold
from runs.domain.state import Changes, RunState
from runs.domain.tasks import TaskState, fold_task
from runs.models import Attempt, Instruction, PullRequest, Run, RunEvent, RunOutcome, Step, Task, TaskEvent

#: Columns that move with policy and clock; only whether there is such a moment is compared.
_CLOCKED: Final = frozenset({"expires_at"})
_MISSING: Final = "(missing)"
SHOWN: Final = 200  #: characters of a value in a sentence


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that its log does not account for: what is stored, and what the log says."""

    stream: str
    where: str
    field: str
    stored: Any
    folded: Any

    def __str__(self) -> str:
        place = f"{self.stream} {self.where}.{self.field}"
        return f"{place}: stored {_short(self.stored)}, by its log {_short(self.folded)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def assert_folds(stream_id: str) -> None:
    """Raise ``AssertionError`` with every difference of one run or task."""
    found = differences(stream_id)
    assert not found, "\n".join(map(str, found))  # noqa: S101  that is what it is for


@transaction.atomic
def differences(stream_id: str) -> list[Difference]:
    """Where the rows of one run or task differ from its log; under its lock, so that nobody writes meanwhile.

    Raises ``NotFound`` for an unknown id.
    """
    if Run.objects.filter(pk=stream_id).exists():
        return list(_run_differences(store.lock_run(stream_id)))
    return list(_task_differences(store.lock_task(stream_id)))


def all_differences() -> Iterator[Difference]:
    """Every difference of every run and task, one at a time."""
    for stream_id in all_streams():
        with contextlib.suppress(NotFound):  # a draft that was deleted meanwhile
            yield from differences(stream_id)


def all_streams() -> Iterator[str]:
    """Ids of all tasks, then of all runs."""
    yield from Task.objects.order_by("pk").values_list("pk", flat=True).iterator(chunk_size=1_000)
    yield from Run.objects.order_by("pk").values_list("pk", flat=True).iterator(chunk_size=1_000)


@transaction.atomic
def rebuild(stream_id: str) -> list[Difference]:
    """Rewrite the rows of one run or task from its log; returns what differed.

    The database refuses a status that the table does not allow from the stored one: such a row was changed
    past every guard, and its repair is a decision, not a command.
    """
    found = differences(stream_id)
    if found and Run.objects.filter(pk=stream_id).exists():
        _rewrite_run(store.lock_run(stream_id))
    elif found:
        _rewrite_task(store.lock_task(stream_id))
    return found


# --- runs -----------------------------------------------------------------------------------------


def _folded(run: Run) -> tuple[RunState, Changes, Json]:
    """State, attempts and steps, and the row's columns, as the log says."""
    state, changes = fold(store.events_of(run.pk))
    columns = {**store.row_columns(state, store.surroundings(run)), "status": state.status}
    return state, changes, columns


def _run_differences(run: Run) -> Iterator[Difference]:
    state, changes, columns = _folded(run)
    yield from _compare(run.pk, "run", run, columns)
    attempts = {str(number): store.attempt_columns(values) for number, values in changes.attempts.items()}
    rows = {str(row.number): row for row in Attempt.objects.filter(run=run)}
    yield from _compare_rows(run.pk, "attempt", rows, attempts)
    steps = {name: store.step_columns(values) for name, values in changes.steps.items() if "kind" in values}
    yield from _compare_rows(run.pk, "step", {r.operation_id: r for r in Step.objects.filter(run=run)}, steps)
    recorded = PullRequest.objects.filter(run=run).exists()
    if recorded != bool(state.pull_request):
        yield Difference(run.pk, "pull_request", "exists", recorded, bool(state.pull_request))
    ended = {row.status: row for row in RunOutcome.objects.filter(run=run)}
    yield from _compare_rows(run.pk, "outcome", ended, _outcomes(run, state))


def _outcomes(run: Run, state: RunState) -> dict[str, Json]:
    """The one row of a run that ended, by its status; else none."""
    return {state.status: store.outcome_of(run, state, run.task.contract)} if state.is_terminal else {}


def _compare(stream: str, where: str, row: Model, columns: Json) -> Iterator[Difference]:
    for name, folded in columns.items():
        stored = getattr(row, name)
        if isinstance(folded, dict) and name == "state":
            yield from _compare_state(stream, where, stored, folded)
        elif (bool(stored) != bool(folded)) if name in _CLOCKED else stored != folded:
            yield Difference(stream, where, name, stored, folded)


def _compare_state(stream: str, where: str, stored: Json, folded: Json) -> Iterator[Difference]:
    for name in sorted({*stored, *folded}):
        before, after = stored.get(name, _MISSING), folded.get(name, _MISSING)
        if before != after:
            yield Difference(stream, f"{where}.state", name, before, after)


def _compare_rows(
    stream: str, kind: str, rows: dict[str, Any], folded: dict[str, Json]
) -> Iterator[Difference]:
    for key in sorted({*rows, *folded}):
        where = f"{kind} {key}"
        if key not in rows or key not in folded:
            yield Difference(stream, where, "exists", key in rows, key in folded)
        else:
            yield from _compare(stream, where, rows[key], folded[key])


def _rewrite_run(run: Run) -> None:
    state, changes, columns = _folded(run)
    Run.objects.filter(pk=run.pk).update(**columns)
    for values in _outcomes(run, state).values():
        RunOutcome.objects.update_or_create(run=run, defaults={**values, "cost_usd": columns["cost_usd"]})
    Attempt.objects.filter(run=run).exclude(number__in=changes.attempts).delete()
    for number, values in changes.attempts.items():
        Attempt.objects.update_or_create(run=run, number=number, defaults=store.attempt_columns(values))
    whole = {name: values for name, values in changes.steps.items() if "kind" in values}
    Step.objects.filter(run=run).exclude(operation_id__in=whole).delete()
    for name, values in whole.items():
        Step.objects.update_or_create(run=run, operation_id=name, defaults=store.step_columns(values))


# --- tasks ----------------------------------------------------------------------------------------


def _folded_task(task: Task) -> tuple[TaskState, Json]:
    state = fold_task(_task_events(task.pk))
    return state, {**store.task_columns(state), "status": state.status}


def _task_differences(task: Task) -> Iterator[Difference]:
    state, columns = _folded_task(task)
    yield from _compare(task.pk, "task", task, columns)
    stored = _texts(Instruction.objects.filter(task=task).values("number", "text"))
    folded = _texts(state.instructions)
    if stored != folded:
        yield Difference(task.pk, "instructions", "texts", stored, folded)


def _texts(entries: Iterable[Any]) -> dict[int, str]:
    return {entry["number"]: entry["text"] for entry in entries}


def _rewrite_task(task: Task) -> None:
    state, columns = _folded_task(task)
    Task.objects.filter(pk=task.pk).update(**columns)
    Instruction.objects.filter(task=task).exclude(number__in=_texts(state.instructions)).delete()
    for entry in state.instructions:
        Instruction.objects.filter(task=task, number=entry["number"]).update(text=entry["text"])


# --- the chain ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Break:
    """Where a log was changed past the product: its first event that does not hold, and why."""

    stream: str
    sequence: int
    why: str

    def __str__(self) -> str:
        return f"{self.stream} breaks at event {self.sequence}: {self.why}"


def breaks(stream_id: str = "") -> Iterator[Break]:
    """The first break of each log, or of one run's or task's alone; drafts that were deleted included.

    Raises ``NotFound`` for an id without a log.
    """
    if stream_id and not _is_logged(stream_id):
        raise NotFound
    run_ids = _logged(RunEvent.objects.filter(run_id=stream_id) if stream_id else RunEvent.objects, "run_id")
    for run_id in run_ids:
        yield from _break(run_id, store.events_of(run_id), Run.objects.filter(pk=run_id).first())
    rows = TaskEvent.objects.filter(task_id=stream_id) if stream_id else TaskEvent.objects
    for task_id in _logged(rows, "task_id"):
        yield from _break(task_id, _task_events(task_id), Task.objects.filter(pk=task_id).first())


def _is_logged(stream_id: str) -> bool:
    return (
        RunEvent.objects.filter(run_id=stream_id).exists()
        or TaskEvent.objects.filter(task_id=stream_id).exists()
    )


def _logged(rows: QuerySet | Manager, name: str) -> Iterator[str]:
    yield from rows.order_by(name).values_list(name, flat=True).distinct().iterator(chunk_size=1_000)


def _task_events(task_id: str) -> Iterable[Event]:
    rows = TaskEvent.objects.filter(task_id=task_id).order_by("sequence")
    return (store.task_event_of(row) for row in rows.iterator(chunk_size=1_000))


def _break(stream: str, events: Iterable[Event], row: Run | Task | None) -> Iterator[Break]:
    """At most one: all that follows the first hangs in the air."""
    sequence, link = 0, ""
    for event in events:
        sequence += 1
        if why := _wrong_link(event, sequence, link):
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


def _wrong_link(event: Event, sequence: int, link: str) -> str:
    if event.sequence != sequence:
        return f"the next event there is number {event.sequence}"
    if event.previous_hash != link:
        return "it does not continue the event before it"
    return "" if store.hash_of(event) == event.hash else "its content is not what was recorded"
