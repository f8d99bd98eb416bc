"""Every lock of a row. Lock order: repository, run, task, approval.

None is of the key: rows that merely refer to a locked one are inserted meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from django.db import connection

from agentplatform.rows import columns_of, instance
from agentplatform.turns import Turn, take_turn
from runs.domain.errors import NotFound
from runs.models import Repository, Run, Task


def lock_imports() -> None:
    """Wait until no other import is under way; held to the end of the transaction, before every row."""
    take_turn(Turn.IMPORTS)


def lock_repository(repository_id: str) -> Repository:
    """The repository, locked; first in the order."""
    return Repository.objects.select_for_update(no_key=True).get(pk=repository_id)


def lock_repositories(repository_ids: Collection[str]) -> dict[str, Repository]:
    """These repositories by id, locked one after the other in the order of their ids."""
    rows = Repository.objects.select_for_update(no_key=True).filter(pk__in=repository_ids).order_by("pk")
    return {row.pk: row for row in rows}


def lock_run(run_id: str) -> Run:
    """The run, locked; its task comes along unlocked. ``NotFound`` where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(lock_run_text(), [run_id])
        found = cursor.fetchone()
    if found is None:
        raise NotFound
    return locked_run(found)


@lru_cache(maxsize=1)
def lock_run_text() -> str:
    """The statement that locks a run and reads it with its task; its rows are for ``locked_run``."""
    return (
        f"SELECT {columns_of(Run, 'r')}, {columns_of(Task, 't')} FROM runs r"  # noqa: S608  our own names
        " JOIN tasks t ON t.id = r.task_id WHERE r.id = %s FOR NO KEY UPDATE OF r"
    )


def locked_run(values: Sequence[Any]) -> Run:
    """The run, with its task, of a row that ``lock_run_text`` found."""
    width = len(Run._meta.concrete_fields)  # noqa: SLF001
    run = instance(Run, values[:width])
    run.task = instance(Task, values[width:])
    return run


def lock_task(task_id: str) -> Task:
    """The task, locked; after its run."""
    task = Task.objects.select_for_update(of=("self",), no_key=True).filter(pk=task_id).first()
    if task is None:
        raise NotFound
    return task
