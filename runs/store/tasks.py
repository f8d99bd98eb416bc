"""Task rows and their log, by the same rules as a run's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from psycopg import Cursor

from agentplatform import rows
from agentplatform.ids import new_id
from agentplatform.rows import together
from runs.domain.errors import NotAllowedNow
from runs.domain.facts import Actor, Event, Json, moment, stamp
from runs.domain.tasks import TASK_DOMAIN_EVENTS, TaskState, evolve_task, task_target
from runs.domain.vocabulary import TaskEv, TaskStatus
from runs.models import Instruction, Task, TaskEvent
from runs.store import chain
from runs.store.moves import move_columns, move_of
from runs.store.outbox import publish


def append_task(
    task: Task,
    event: TaskEv,
    *,
    actor: Actor,
    now: datetime,
    payload: Json | None = None,
    facts: Json | None = None,
) -> Event:
    """One move of a locked (or new) task. Raises ``NotAllowedNow`` where the table has no such cell."""
    state = TaskState.from_json(task.state)
    target = task_target(event, state.status or TaskStatus.DRAFT)
    if target is None:
        raise NotAllowedNow(f"A task that is {task.status} does not take {event}.", status=task.status)
    fact = Event(
        run_id=task.pk,
        sequence=state.sequence + 1,
        type=event.value,
        from_status=state.status,
        to_status=target.value,
        attempt=0,
        actor=Actor(str(actor.type), actor.id, actor.name),
        fence=0,
        payload=payload or {},
        facts=facts or {},
        recorded_at=stamp(now),
        occurred_at=stamp(now),
        id=new_id("evt"),
        previous_hash=task.chain_hash,
    )
    fact = replace(fact, hash=chain.hash_of(fact))
    given = state.instructions[-1:]
    evolve_task(state, fact)
    with together() as cursor:
        _project(cursor, task, state, fact)
        if state.instructions[-1:] != given:
            _write_instruction(cursor, task, state.instructions[-1])
        rows.insert(cursor, TaskEvent, [move_columns(fact, owner="task_id")])
        if name := TASK_DOMAIN_EVENTS.get(event):
            publish(cursor, [(fact, name, {"task_id": task.pk})])
    return fact


def task_event_of(row: TaskEvent) -> Event:
    """A stored move as the domain sees it."""
    return move_of(row, owner=row.task_id)


def task_columns(state: TaskState) -> Json:
    """The row's columns as the task's state says."""
    contract = state.contract
    return {
        "title": contract["title"],
        "completion_mode": contract["completion_mode"],
        "risk_level": contract["risk_level"],
        "needs": contract["needs"],
        "contract": contract,
        "state": state.to_json(),
        "priority": state.priority,
        "labels": state.labels,
        "rejection_reasons": state.rejection_reasons,
        "runs_made": state.runs_made,
        "latest_run_id": state.latest_run_id,
        "version": state.sequence,
        "created_at": moment(state.created_at),
        "updated_at": moment(state.updated_at),
        "finished_at": moment(state.finished_at) if state.finished_at else None,
        "archived_at": moment(state.archived_at) if state.archived_at else None,
    }


def _project(cursor: Cursor[Any], task: Task, state: TaskState, event: Event) -> None:
    for name, value in task_columns(state).items():
        setattr(task, name, value)
    if event.from_status:
        getattr(task, event.type)(to=event.to_status)
    task.chain_hash = event.hash
    task.chain_mac = chain.mac(task.pk, event.sequence, event.hash)
    row = {field.attname: getattr(task, field.attname) for field in Task._meta.concrete_fields}  # noqa: SLF001
    if event.sequence == 1:
        rows.insert(cursor, Task, [row])
    else:
        rows.update(cursor, Task, [row])


def _write_instruction(cursor: Cursor[Any], task: Task, entry: Json) -> None:
    """In the table of instructions, for queries; the edited draft's first one is replaced."""
    author = entry["by"] if entry["by"].startswith("per_") else None
    row = {"task_id": task.pk, "number": entry["number"], "text": entry["text"], "author_id": author}
    rows.insert(
        cursor, Instruction, [{**row, "created_at": moment(entry["at"])}], replacing=("task_id", "number")
    )


def task_events_of(task_id: str) -> Iterable[Event]:
    """The log of a task, in sequence."""
    rows = TaskEvent.objects.filter(task_id=task_id).order_by("sequence")
    return (task_event_of(row) for row in rows.iterator(chunk_size=1_000))
