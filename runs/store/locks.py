"""Every ``select_for_update``. Lock order: repository, run, task, approval."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from runs.domain.errors import NotFound
from runs.models import Repository, Run, Task


def lock_repository(repository_id: str) -> Repository:
    """The repository, locked; first in the order."""
    return Repository.objects.select_for_update().get(pk=repository_id)


def lock_run(run_id: str) -> Run:
    """The run, locked; its task comes along unlocked. ``NotFound`` where there is none."""
    run = Run.objects.select_for_update(of=("self",)).select_related("task").filter(pk=run_id).first()
    if run is None:
        raise NotFound
    return run


def lock_task(task_id: str) -> Task:
    """The task, locked; after its run."""
    task = Task.objects.select_for_update(of=("self",)).filter(pk=task_id).first()
    if task is None:
        raise NotFound
    return task


def lock_claim_key(worker_id: str, key: str) -> None:
    """Wait until no other claim of this key is under way; held to the end of the transaction.

    Before everything else in the order: a claim takes no second one.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{worker_id}:{key}"])


def lock_claimable(run_id: str, role_values: Sequence[str]) -> Run | None:
    """The run, locked, if it is still there to be claimed and nobody else has it in hand."""
    return (
        Run.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("task")
        .filter(pk=run_id, claim_role__in=role_values)
        .first()
    )
