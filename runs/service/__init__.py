"""One road for every change: API, pages, admin, Celery and commands all come through here."""

from runs.service.people import run_direct, run_note
from runs.service.runs import Outcome, apply_batch, apply_event
from runs.service.tasks import (
    access_renewed,
    instruction_add,
    run_again,
    task_archive,
    task_cancel,
    task_create,
    task_delete,
    task_edit,
    task_retry,
    task_submit,
)

__all__ = [
    "Outcome",
    "access_renewed",
    "apply_batch",
    "apply_event",
    "instruction_add",
    "run_again",
    "run_direct",
    "run_note",
    "task_archive",
    "task_cancel",
    "task_create",
    "task_delete",
    "task_edit",
    "task_retry",
    "task_submit",
]
