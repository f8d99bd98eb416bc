"""A task's rows against its own log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from runs import store
from runs.domain.facts import Json
from runs.domain.tasks import TaskState, fold_task
from runs.models import Instruction, Task
from runs.rebuild.comparing import Difference, compare


def _folded_task(task: Task) -> tuple[TaskState, Json]:
    state = fold_task(store.task_events_of(task.pk))
    return state, {**store.task_columns(state), "status": state.status}


def task_differences(task: Task) -> Iterator[Difference]:
    """Where a locked task's rows differ from its log."""
    state, columns = _folded_task(task)
    yield from compare(task.pk, "task", task, columns)
    stored = _texts(Instruction.objects.filter(task=task).values("number", "text"))
    folded = _texts(state.instructions)
    if stored != folded:
        yield Difference(task.pk, "instructions", "texts", stored, folded)


def _texts(entries: Iterable[Any]) -> dict[int, str]:
    return {entry["number"]: entry["text"] for entry in entries}


def rewrite_task(task: Task) -> None:
    """Write a locked task's rows as its log says."""
    state, columns = _folded_task(task)
    Task.objects.filter(pk=task.pk).update(**columns)
    Instruction.objects.filter(task=task).exclude(number__in=_texts(state.instructions)).delete()
    for entry in state.instructions:
        Instruction.objects.filter(task=task, number=entry["number"]).update(text=entry["text"])
