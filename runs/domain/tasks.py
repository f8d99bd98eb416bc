"""A task's table, its fold, and what a run's moves do to it (lifecycle contract, section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Final

from runs.domain.facts import Event, Json
from runs.domain.state import RunState
from runs.domain.table import domain_event, edges
from runs.domain.vocabulary import TASK_FINAL, Ev, RunStatus, TaskEv, TaskStatus

T = TaskStatus
_ACTIVE = tuple(t for t in TaskStatus if t not in TASK_FINAL)
_BEFORE_RUNS = (T.DRAFT, T.SUBMITTED, T.VALIDATING, T.READY)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """In any of ``sources``, ``event`` leads to ``target``; None stays."""

    event: TaskEv
    sources: tuple[TaskStatus, ...]
    target: TaskStatus | None


TASK_ROWS: Final = (
    TaskRow(TaskEv.TASK_EDITED, (T.DRAFT,), None),
    TaskRow(TaskEv.TASK_SUBMITTED, (T.DRAFT,), T.SUBMITTED),
    TaskRow(TaskEv.VALIDATION_STARTED, (T.SUBMITTED,), T.VALIDATING),
    TaskRow(TaskEv.TASK_REJECTED, (T.VALIDATING,), T.REJECTED),
    TaskRow(TaskEv.TASK_ACCEPTED, (T.VALIDATING,), T.READY),
    TaskRow(TaskEv.RUN_SCHEDULED, (T.READY, T.RUNNING, T.WAITING_FOR_APPROVAL), T.RUNNING),
    TaskRow(TaskEv.PERSON_NEEDED, (T.RUNNING, T.WAITING_FOR_APPROVAL), T.WAITING_FOR_APPROVAL),
    TaskRow(TaskEv.WORK_RESUMED, (T.RUNNING, T.WAITING_FOR_APPROVAL), T.RUNNING),
    TaskRow(TaskEv.TASK_COMPLETED, (T.RUNNING,), T.COMPLETED),
    TaskRow(TaskEv.TASK_FAILED, (T.RUNNING, T.WAITING_FOR_APPROVAL), T.FAILED),
    TaskRow(TaskEv.TASK_CANCELLED, _ACTIVE, T.CANCELLED),
    TaskRow(TaskEv.INSTRUCTION_ADDED, (T.RUNNING, T.WAITING_FOR_APPROVAL), None),
    TaskRow(TaskEv.PRIORITY_CHANGED, _ACTIVE, None),
    TaskRow(TaskEv.TASK_ARCHIVED, tuple(TaskStatus), None),
    TaskRow(TaskEv.TASK_RESTORED, tuple(TaskStatus), None),
)
#: The domain event of each move of a task that is announced.
TASK_DOMAIN_EVENTS: Final = {
    TaskEv.TASK_SUBMITTED: "TaskSubmitted",
    TaskEv.TASK_REJECTED: "TaskRejected",
    TaskEv.RUN_SCHEDULED: "TaskRunning",
    TaskEv.PERSON_NEEDED: "TaskWaiting",
    TaskEv.TASK_COMPLETED: "TaskCompleted",
    TaskEv.TASK_FAILED: "TaskFailed",
    TaskEv.TASK_CANCELLED: "TaskCancelled",
}
#: Every domain event, of tasks and of runs.
DOMAIN_EVENTS: Final = (
    *TASK_DOMAIN_EVENTS.values(),
    *dict.fromkeys(filter(None, (domain_event(*edge) for edge in edges()))),
)
_CELLS: Final = {(row.event, source): row for row in TASK_ROWS for source in row.sources}
TASK_MOVES: Final = tuple(
    sorted({(s, r.target) for r in TASK_ROWS for s in r.sources if r.target and r.target is not s})
)


def task_edges() -> Iterator[tuple[TaskEv, TaskStatus, TaskStatus]]:
    """Each (event, from, to) that the table allows."""
    for row in TASK_ROWS:
        for source in row.sources:
            yield row.event, source, row.target or source


def task_target(event: TaskEv, status: str) -> TaskStatus | None:
    """Where ``event`` leads from ``status``; None where the table has no such cell."""
    if event is TaskEv.TASK_CREATED:
        return T.DRAFT
    row = _CELLS.get((event, TaskStatus(status)))
    return None if row is None else row.target or TaskStatus(status)


@dataclass(slots=True)
class TaskState:
    """One task as its events tell it."""

    id: str = ""
    repository_id: str = ""
    status: str = ""
    sequence: int = 0
    contract: Json = field(default_factory=dict)
    priority: int = 5
    labels: list[str] = field(default_factory=list)
    instructions: list[Json] = field(default_factory=list)
    rejection_reasons: list[str] = field(default_factory=list)
    blocked: Json | None = None  #: {reason, rule, since}: what a person must mend, while no gate is open
    runs_made: int = 0
    latest_run_id: str = ""
    created_at: str = ""
    updated_at: str = ""
    finished_at: str = ""
    archived_at: str = ""
    archive_after: bool = False  #: somebody wants it archived as soon as it ends

    def to_json(self) -> Json:
        """All of it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Json) -> TaskState:
        """The state that ``to_json`` wrote."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


def fold_task(events: Iterable[Event]) -> TaskState:
    """The task that these events add up to."""
    state = TaskState()
    for event in events:
        evolve_task(state, event)
    return state


def evolve_task(state: TaskState, event: Event) -> None:
    """Apply one event of the task's log in place."""
    payload, facts = event.payload, event.facts
    state.sequence, state.updated_at = event.sequence, event.recorded_at
    match event.type:
        case TaskEv.TASK_CREATED | TaskEv.TASK_EDITED:
            _contract(state, event)
        case TaskEv.TASK_REJECTED:
            state.rejection_reasons = facts["reasons"]
        case TaskEv.RUN_SCHEDULED:
            state.runs_made, state.latest_run_id = facts["attempt_no"], facts["run_id"]
            state.blocked = None
        case TaskEv.PERSON_NEEDED | TaskEv.WORK_RESUMED:
            found = facts.get("blocked")
            state.blocked = {**found, "since": event.recorded_at} if found else None
        case TaskEv.INSTRUCTION_ADDED:
            state.instructions.append(_instruction(len(state.instructions) + 1, payload["text"], event))
        case TaskEv.PRIORITY_CHANGED:
            state.priority = payload.get("priority", state.priority)
            state.labels = payload.get("labels", state.labels)
        case TaskEv.TASK_ARCHIVED if payload.get("after"):
            state.archive_after = True
        case TaskEv.TASK_ARCHIVED | TaskEv.TASK_RESTORED:
            state.archived_at = event.recorded_at if event.type == TaskEv.TASK_ARCHIVED else ""
            state.archive_after = False
    state.status = event.to_status
    if state.status in TASK_FINAL and not state.finished_at:
        state.finished_at = event.recorded_at
        state.blocked = None


def _contract(state: TaskState, event: Event) -> None:
    contract = event.payload["contract"]
    state.id = event.run_id
    state.repository_id = event.facts["repository_id"]
    state.contract = contract
    state.priority, state.labels = contract["priority"], contract["labels"]
    state.created_at = state.created_at or event.recorded_at
    if [entry["text"] for entry in state.instructions] != [contract["instruction"]]:
        # Whoever leaves the words as they are did not write them.
        state.instructions = [_instruction(1, contract["instruction"], event)]


def _instruction(number: int, text: str, event: Event) -> Json:
    return {
        "number": number,
        "text": text,
        "by": event.actor.id,
        "by_name": event.actor.name,
        "at": event.recorded_at,
    }


TaskDraft = tuple[TaskEv, Json]


def moves_of_run(
    before: str, state: RunState, *, has_next_run: bool, events: list[Event]
) -> Iterator[TaskDraft]:
    """What a run's transaction does to its task: (event, facts). ``before`` is the run's status before it."""
    waiting = RunStatus.WAITING_FOR_APPROVAL
    passed_gate = any(e.from_status == waiting and e.to_status != waiting for e in events)
    if passed_gate and (not state.is_terminal or state.status == RunStatus.SUCCEEDED):
        yield TaskEv.WORK_RESUMED, {}
    if state.status == waiting and (before != waiting or passed_gate):
        yield TaskEv.PERSON_NEEDED, {"gate": (state.gate or {}).get("gate")}
    if not state.is_terminal or before == state.status:
        return
    if state.status == RunStatus.SUCCEEDED:
        yield TaskEv.TASK_COMPLETED, {"run_id": state.id}
    elif state.status == RunStatus.CANCELLED:
        yield TaskEv.TASK_CANCELLED, {"run_id": state.id, "reason": state.cancel_reason}
    elif not has_next_run:
        yield _given_up(state, events)


def _given_up(state: RunState, events: list[Event]) -> TaskDraft:
    declined = next((e for e in events if e.type == Ev.RETRY_DECLINED), None)
    facts = declined.facts if declined else {}
    if facts.get("needs_person"):
        blocked = {"rule": facts["rule"], "reason": facts["reason"], "failure": state.failure}
        return TaskEv.PERSON_NEEDED, {"run_id": state.id, "blocked": blocked}
    return TaskEv.TASK_FAILED, {"run_id": state.id, "failure": state.failure, "expiration": state.expiration}
