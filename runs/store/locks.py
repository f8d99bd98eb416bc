"""Every ``select_for_update``. Lock order: repository, run, task, approval."""

from __future__ import annotations

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
