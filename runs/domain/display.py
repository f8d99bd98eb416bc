"""What people see of a task or a run: one state of fourteen, and its step (lifecycle contract, section 15).

An ordered table of data. A row's conditions name columns of ``Standing`` and the values that match,
so that the same table reads as Python here and as SQL in a selector. Pages and answers invent no word
beside these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runs.domain.facts import Json
from runs.domain.outgoing import Full, is_kept_in
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import (
    ACTIVE,
    CLAIMABLE,
    TASK_FINAL,
    CompletionMode,
    Directive,
    Gate,
    Role,
    RunStatus,
    TaskStatus,
    Word,
)

S, T = RunStatus, TaskStatus


class Display(Word):
    """The fourteen states, in the contract's order; the label is the title."""

    icon: str
    tone: str

    DRAFT = "draft", "Draft"
    QUEUED = "queued", "Queued"
    STARTING = "starting", "Starting"
    THINKING = "thinking", "Thinking"
    RUNNING = "running", "Running"
    WAITING = "waiting", "Waiting"
    NEEDS_REVIEW = "needs_review", "Needs review"
    BLOCKED = "blocked", "Blocked"
    PAUSED = "paused", "Paused"
    CANCELLING = "cancelling", "Cancelling"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"
    COMPLETED = "completed", "Completed"
    ARCHIVED = "archived", "Archived"

    @property
    def is_over(self) -> bool:
        """Whether nothing happens any more by itself."""
        return self in _OVER


D = Display
_OVER: Final = frozenset({D.CANCELLED, D.FAILED, D.COMPLETED, D.ARCHIVED})
_DRAWN: Final = {
    D.DRAFT: ("pencil", "quiet"),
    D.QUEUED: ("queue", "quiet"),
    D.STARTING: ("play", "busy"),
    D.THINKING: ("thought", "busy"),
    D.RUNNING: ("bolt", "busy"),
    D.WAITING: ("clock", "quiet"),
    D.NEEDS_REVIEW: ("eye", "warn"),
    D.BLOCKED: ("blocked", "warn"),
    D.PAUSED: ("pause", "quiet"),
    D.CANCELLING: ("stop", "busy"),
    D.CANCELLED: ("slash", "quiet"),
    D.FAILED: ("fail", "bad"),
    D.COMPLETED: ("seal", "ok"),
    D.ARCHIVED: ("box", "quiet"),
}
for _state, (_icon, _tone) in _DRAWN.items():
    _state.icon, _state.tone = _icon, _tone

# --- what the table looks at ---------------------------------------------------------------------

BACKOFF, HOLD, SPEND, CAP, NO_WORKER = "backoff", "hold", "spend_cap", "cap", "no_worker"
PULL_REQUESTS = "pull_requests"
WAITS: Final = (BACKOFF, HOLD, SPEND, CAP, PULL_REQUESTS, NO_WORKER)


@dataclass(frozen=True, slots=True)
class Standing:
    """The columns that the table looks at, of a task with its latest run or of one run in its task."""

    task_status: str
    archived: bool = False
    run_status: str = ""  #: of a task: "" unless its latest run is active
    directive: str = Directive.CONTINUE.value
    leased: bool = False
    gate: str = ""
    blocked: str = ""  #: the retry rule that left it to a person
    undecidable: bool = False  #: nobody is left who may decide the open request
    waiting: str = ""  #: one of ``WAITS``, or ""
    archive_after: bool = False  #: somebody wants the task archived as soon as it ends


@dataclass(frozen=True, slots=True)
class Stop:
    """Something that keeps runs from being claimed, in a sentence. Stamps; ``until`` "": nobody knows."""

    sentence: str
    since: str
    until: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """What a run's wait depends on beside itself.

    ``now`` and all times are stamps. ``asked``: role → when a worker of that role last asked, that could
    take this run. ``lacks``: role → what no worker of that role offers and the run needs, in a sentence.
    ``hold``: a hold in force. ``spend``: a spend cap that is reached. ``cap``: the limit of runs at once that
    is reached.
    """

    now: str
    asked: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    fresh_after: str = ""  #: who asked since then is there
    hold: Stop | None = None
    spend: Stop | None = None
    cap: int | None = None
    undecidable: bool = False
    full: Full | None = None  #: why no further pull request may be begun


def standing_of_run(state: RunState, task: TaskState, around: Around) -> Standing:
    """A run as the table sees it."""
    is_latest = task.latest_run_id in ("", state.id)
    return Standing(
        task_status=task.status,
        archived=bool(task.archived_at),
        archive_after=task.archive_after,
        run_status=state.status,
        directive=state.directive,
        leased=state.holder is not None,
        gate=(state.gate or {}).get("gate", ""),
        blocked=(task.blocked or {}).get("rule", "") if is_latest else "",
        undecidable=around.undecidable,
        waiting=waits_for(state, around),
    )


def standing_of_task(task: TaskState, state: RunState | None, around: Around) -> Standing:
    """A task as the table sees it: its latest run speaks for it while that is active, else its own status."""
    if state is not None and not state.is_terminal and task.status not in TASK_FINAL:
        return standing_of_run(state, task, around)
    return Standing(task.status, bool(task.archived_at), blocked=(task.blocked or {}).get("rule", ""))


def waits_for(state: RunState, around: Around) -> str:
    """Why nobody works on a claimable run: one of ``WAITS``, or "" where it is simply next."""
    if state.holder is not None or state.status not in CLAIMABLE:
        return ""
    role = CLAIMABLE[state.run_status]
    unseen = around.asked.get(role, "") < around.fresh_after
    holds_back = {
        BACKOFF: state.not_before > around.now,
        HOLD: around.hold is not None,
        SPEND: around.spend is not None and role is not Role.GIT_INTEGRATION,  # a pull request costs nothing
        CAP: around.cap is not None,
        PULL_REQUESTS: around.full is not None and is_kept_in(state),
        NO_WORKER: unseen and free_since(state) < around.fresh_after,
    }
    return next((reason for reason in WAITS if holds_back[reason]), "")


def free_since(state: RunState) -> str:
    """Since when nobody holds an unleased run; the stamp from which its queue clock runs, too."""
    return max(state.idle_since, state.not_before)


# --- the table of states -------------------------------------------------------------------------

Values = frozenset[str] | frozenset[bool]
Where = Mapping[str, Values]


def one_of(*values: str) -> frozenset[str]:
    """The values of a condition."""
    return frozenset(str(value) for value in values)


_YES: Final = frozenset({True})
_NO: Final = frozenset({False})
_NO_RUN: Final = one_of("")


@dataclass(frozen=True, slots=True)
class Row:
    """It is ``state`` where one of ``where`` matches: each of its columns has one of the values."""

    state: Display
    where: tuple[Where, ...]


def _task(*statuses: TaskStatus) -> Where:
    return {"run_status": _NO_RUN, "task_status": one_of(*statuses)}


#: The first match wins.
TABLE: Final[tuple[Row, ...]] = (
    Row(D.ARCHIVED, ({"archived": _YES},)),
    Row(D.COMPLETED, ({"run_status": one_of(S.SUCCEEDED)}, _task(T.COMPLETED))),
    Row(D.FAILED, ({"run_status": one_of(S.FAILED, S.EXPIRED)}, _task(T.FAILED, T.REJECTED))),
    Row(D.CANCELLED, ({"run_status": one_of(S.CANCELLED)}, _task(T.CANCELLED))),
    Row(
        D.CANCELLING,
        ({"run_status": one_of(*ACTIVE), "directive": one_of(Directive.CANCEL, Directive.WIND_DOWN)},),
    ),
    Row(D.PAUSED, ({"run_status": one_of(*ACTIVE), "directive": one_of(Directive.PAUSE), "leased": _NO},)),
    Row(
        D.BLOCKED,
        (
            {"run_status": one_of(S.WAITING_FOR_APPROVAL), "gate": one_of(Gate.BUDGET, Gate.QUESTION)},
            {**_task(T.WAITING_FOR_APPROVAL)},
            {"run_status": one_of(S.WAITING_FOR_APPROVAL), "undecidable": _YES},
        ),
    ),
    Row(D.NEEDS_REVIEW, ({"run_status": one_of(S.WAITING_FOR_APPROVAL)},)),
    Row(D.WAITING, ({"waiting": one_of(*WAITS)},)),
    Row(
        D.RUNNING,
        (
            {
                "run_status": one_of(
                    S.EXECUTING, S.PATCH_READY, S.VERIFYING, S.JUDGING, S.PR_CREATING, S.PR_CREATED
                )
            },
        ),
    ),
    Row(D.THINKING, ({"run_status": one_of(S.PLANNING)},)),
    Row(D.STARTING, ({"run_status": one_of(S.LEASED, S.PREPARING, S.CONTEXT_BUILDING)},)),
    Row(
        D.QUEUED,
        (
            {"run_status": one_of(S.CREATED, S.QUEUED)},
            _task(T.SUBMITTED, T.VALIDATING, T.READY, T.RUNNING),
        ),
    ),
    Row(D.DRAFT, (_task(T.DRAFT),)),
)


def matches(standing: Standing, where: Where) -> bool:
    """Whether every column named has one of its values."""
    return all(getattr(standing, column) in values for column, values in where.items())


def display_state(standing: Standing) -> Display:
    """The one state of the fourteen."""
    for row in TABLE:
        if any(matches(standing, where) for where in row.where):
            return row.state
    raise LookupError(f"no display state for {standing}")


# --- the step ------------------------------------------------------------------------------------

_STEPS: Final = {
    S.PLANNING: "Planning",
    S.EXECUTING: "Editing files",
    S.PATCH_READY: "Summarizing changes",
    S.VERIFYING: "Running checks",
    S.JUDGING: "Judging the patch",
    S.WAITING_FOR_APPROVAL: "Waiting for review",
    S.PR_CREATING: "Opening the pull request",
    S.PR_CREATED: "Opening the pull request",
}


def step_label(status: str, completion_mode: str = "") -> str | None:
    """Progress in words, never a percentage; None where the state says it all."""
    analysis = completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED
    if analysis and status in (S.EXECUTING, S.JUDGING):
        return "Reading the code" if status == S.EXECUTING else "Judging the report"
    return _STEPS.get(RunStatus(status)) if status else None


# --- what is missing -----------------------------------------------------------------------------


def missing(state: Display, standing: Standing, run: RunState | None, task: TaskState) -> str | None:
    """What must come for it to go on, as a noun phrase; None where nothing is missing."""
    if state is D.NEEDS_REVIEW and run is not None and run.gate:
        return _missing_review(run.gate)
    if state is D.BLOCKED:
        if standing.undecidable:
            return "A person who may decide: everybody with the role has worked on this"
        by_gate = {Gate.BUDGET.value: "A higher budget, or the end", Gate.QUESTION.value: "An answer"}
        return by_gate.get(standing.gate) or (task.blocked or {}).get("reason")
    if state is D.WAITING and standing.waiting == NO_WORKER and run is not None:
        return f"A worker with role {CLAIMABLE[run.run_status]}"
    return None


def _missing_review(gate: Json) -> str:
    thing = Gate(gate["gate"]).label.lower()
    needed = int(gate.get("needed", 1))
    return f"A decision on the {thing}" if needed == 1 else f"{needed} approvals of the {thing}"
