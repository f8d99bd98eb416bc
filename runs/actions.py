"""What the buttons of a task and a run do, on pages and in admin: authorise, call the service, say what
happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import QueryDict
from django.urls import reverse

from runs import service
from runs.auth import Action, Principal, require
from runs.domain.errors import Invalid, NotFound
from runs.domain.vocabulary import Ev, TaskStatus
from runs.models import Run, Task

#: What to say, and where to go ("" stays).
Done = tuple[str, str]
TOP_PRIORITY: Final = 9


def act_on_task(*, task: Task, name: str, principal: Principal, data: QueryDict) -> Done:
    """Do one of the task's actions. Raises a ``Refusal``; ``NotFound`` for a name that is none."""
    found = _TASK_ACTIONS.get(name)
    if found is None:
        raise NotFound
    permission, act = found
    require(principal, permission, task.repository_id, own=task.created_by_id == principal.id)
    return act(task, principal, data)


def act_on_run(*, run: Run, name: str, principal: Principal, data: QueryDict) -> Done:
    """Do one of the run's actions. Raises a ``Refusal``; ``NotFound`` for a name that is none."""
    own = run.task.created_by_id == principal.id
    if name == "note":
        require(principal, Action.NOTE, run.repository_id, own=own)
        key = data.get("idempotency_key", "")[:255]
        service.run_note(run_id=run.pk, text=_text(data, "text"), by=principal.caller, key=key)
        return "Noted.", ""
    if name not in _DIRECTIVES:
        raise NotFound
    event, permission, said = _DIRECTIVES[name]
    require(principal, permission, run.repository_id, own=own)
    reason = _text(data, "reason") if event is Ev.CANCEL_REQUESTED else data.get("reason", "").strip()
    service.run_direct(run_id=run.pk, event=event, reason=reason, by=principal.caller)
    return said, ""


_DIRECTIVES: Final = {
    "cancel": (Ev.CANCEL_REQUESTED, Action.RUN_CANCEL, "Asked to stop."),
    "wind_down": (Ev.WIND_DOWN_REQUESTED, Action.RUN_OPERATE, "Asked to finish up."),
    "pause": (Ev.PAUSE_REQUESTED, Action.RUN_OPERATE, "Asked to pause."),
    "resume": (Ev.RUN_RESUMED, Action.RUN_OPERATE, "Resumed."),
}


def _text(data: QueryDict, field: str) -> str:
    text = data.get(field, "").strip()
    if not text:
        raise Invalid({field: ["is required"]})
    return text


# --- the task's actions --------------------------------------------------------------------------


def _submit(task: Task, principal: Principal, data: QueryDict) -> Done:
    submitted = service.task_submit(task_id=task.pk, by=principal.caller)
    rejected = submitted.status == TaskStatus.REJECTED
    return ("Rejected; the reasons stand below." if rejected else "Queued."), ""


def _cancel(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_cancel(task_id=task.pk, reason=_text(data, "reason"), by=principal.caller)
    return "Asked to stop.", ""


def _delete(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_delete(task_id=task.pk)
    return "Draft deleted.", reverse("tasks")


def _retry(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_retry(task_id=task.pk, by=principal.caller)
    return "The next run starts now.", ""


def _run_now(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_edit(task_id=task.pk, data={"priority": TOP_PRIORITY}, by=principal.caller)
    return "It goes first now.", ""


def _access_renewed(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.access_renewed(task_id=task.pk, by=principal.caller)
    return "A new run was made.", ""


def _run_again(task: Task, principal: Principal, data: QueryDict) -> Done:
    key = data.get("idempotency_key", "")[:255]
    again, _ = service.run_again(task_id=task.pk, by=principal.caller, key=key)
    return "A new task was made from the same contract.", reverse("task", args=[again.pk])


def _archive(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_archive(task_id=task.pk, by=principal.caller)
    return "Archived.", ""


def _archive_after(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_archive_after(task_id=task.pk, by=principal.caller)
    return "It is archived as soon as it ends.", ""


def _restore(task: Task, principal: Principal, data: QueryDict) -> Done:
    service.task_archive(task_id=task.pk, by=principal.caller, restore=True)
    return "Restored.", ""


def _instructions(task: Task, principal: Principal, data: QueryDict) -> Done:
    number = service.instruction_add(task_id=task.pk, text=_text(data, "text"), by=principal.caller)
    return f"Instruction {number} added; the run knows it.", ""


def _priority(task: Task, principal: Principal, data: QueryDict) -> Done:
    text = _text(data, "priority")
    if not (text.isascii() and text.isdigit() and int(text) <= TOP_PRIORITY):
        raise Invalid({"priority": [f"must be a whole number from 0 to {TOP_PRIORITY}"]})
    service.task_edit(task_id=task.pk, data={"priority": int(text)}, by=principal.caller)
    return "The priority is changed.", ""


def _label(task: Task, principal: Principal, data: QueryDict) -> Done:
    labels = list(dict.fromkeys([*task.labels, _text(data, "label")]))
    service.task_edit(task_id=task.pk, data={"labels": labels}, by=principal.caller)
    return "The label is added.", ""


_OPERATE = Action.TASK_OPERATE
_TASK_ACTIONS: Final[dict[str, tuple[Action, Callable[[Task, Principal, QueryDict], Done]]]] = {
    "submit": (_OPERATE, _submit),
    "cancel": (_OPERATE, _cancel),
    "delete": (_OPERATE, _delete),
    "retry": (_OPERATE, _retry),
    "run_now": (Action.RUN_OPERATE, _run_now),
    "access_renewed": (_OPERATE, _access_renewed),
    "run_again": (Action.TASK_CREATE, _run_again),
    "archive": (_OPERATE, _archive),
    "archive_after": (_OPERATE, _archive_after),
    "restore": (_OPERATE, _restore),
    "instructions": (_OPERATE, _instructions),
    "priority": (Action.RUN_OPERATE, _priority),
    "label": (_OPERATE, _label),
}
#: What may be done to many at once, and how the list offers it.
BULK: Final = {
    "archive": "Archive",
    "restore": "Restore",
    "retry": "Retry",
    "submit": "Queue",
    "cancel": "Cancel, for a reason",
    "priority": "Set the priority",
    "label": "Add a label",
}
