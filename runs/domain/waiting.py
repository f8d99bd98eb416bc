"""Why a run stands, until when, and whose move it is, in one sentence (lifecycle contract, section 15).

Times inside a sentence are the clock in UTC; pages show the exact ones beside it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from runs.domain.display import (
    BACKOFF,
    CAP,
    HOLD,
    NO_WORKER,
    PULL_REQUESTS,
    SPEND,
    Around,
    free_since,
    waits_for,
)
from runs.domain.facts import Json, moment
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.times import clock, spell
from runs.domain.vocabulary import CLAIMABLE, OWNER, Directive, Gate, Role, RunStatus

REASONS: Final = {
    BACKOFF: "Backoff",
    HOLD: "A hold",
    SPEND: "A spend cap",
    CAP: "The limit of runs at once",
    PULL_REQUESTS: "The limit on pull requests",
    NO_WORKER: "No worker",
    "queue": "Its turn",
    "review": "A review",
    "budget": "A higher budget",
    "question": "An answer",
    "access": "Access to the repository",
    "person": "A person's decision",
    "paused": "Somebody to resume it",
    "stopping": "The worker to stop",
    "working": "The worker",
}


class Wait(NamedTuple):
    """``since`` and ``until`` are stamps, ``until`` may be ""; ``whose_move`` names who acts next."""

    reason: str
    since: str
    until: str
    whose_move: str
    sentence: str

    def to_json(self) -> Json:
        """The shape of the API."""
        return {**self._asdict(), "until": self.until or None}


def waiting_for(state: RunState | None, task: TaskState, around: Around, due: str = "") -> Wait | None:
    """What an unfinished run or task waits for; None when it is over or was never submitted.

    ``due``: stamp of the next clock that runs out (``clocks.deadlines``), if any.
    """
    if state is None or state.is_terminal:
        return _blocked(task) if state is None or task.latest_run_id in ("", state.id) else None
    if state.directive in (Directive.CANCEL, Directive.WIND_DOWN):
        return _stopping(state, due)
    if state.directive == Directive.PAUSE and state.holder is None:
        return _paused(state)
    if state.status == RunStatus.WAITING_FOR_APPROVAL and state.gate:
        return _gate(state.gate, around)
    if state.holder is not None:
        return _working(state, state.holder, around, due)
    return _unleased(state, around, due)


def _blocked(task: TaskState) -> Wait | None:
    if not task.blocked:
        return None
    renew = task.blocked["rule"] == "access_to_renew"
    advice = "Say when access is renewed." if renew else "Retry it or cancel it."
    sentence = f"{task.blocked['reason']} {advice}"
    since = task.blocked.get("since") or task.updated_at
    return Wait("access" if renew else "person", since, "", "operator", sentence)


def _stopping(state: RunState, due: str) -> Wait:
    info = state.directive_info or {}
    since, by = info.get("at") or state.updated_at, info.get("by") or "somebody"
    worker = state.worker_name or "The git integration"
    if state.directive == Directive.WIND_DOWN:
        sentence = f"{by} asked it to finish up; {worker} hands in what there is."
    elif info.get("seen_at"):
        sentence = f"{by} stopped it; {worker} knows since {clock(info['seen_at'])} and cleans up."
    else:
        sentence = f"{by} stopped it; {worker} has not heard it yet."
    if due and state.directive == Directive.CANCEL:
        sentence += f" Without an answer it is cancelled at {clock(due)}."
    return Wait("stopping", since, due, "worker", sentence)


def _paused(state: RunState) -> Wait:
    info = state.directive_info or {}
    by, since = info.get("by") or "somebody", info.get("at") or state.updated_at
    return Wait("paused", since, "", "operator", f"Paused by {by}; it goes on when somebody resumes it.")


#: Why the run waits at a gate, whose move it is, and the sentence before "…, due at 10:00 UTC".
_GATES: Final = {
    Gate.PLAN: ("review", "reviewer", "Review of the plan, requested {age} ago"),
    Gate.PATCH: ("review", "reviewer", "Review of the patch, requested {age} ago"),
    Gate.TOOL_CALL: ("review", "reviewer", "Review of a tool call, requested {age} ago"),
    Gate.BUDGET: ("budget", "reviewer", "The budget is spent, asked {age} ago"),
    Gate.QUESTION: ("question", "submitter", "A question, asked {age} ago"),
}


def _gate(gate: Json, around: Around) -> Wait:
    since, until = gate["opened_at"], gate.get("due_at") or ""
    reason, whose, text = _GATES[Gate(gate["gate"])]
    if around.undecidable:
        sentence = "Nobody is left who may decide: everybody with the role has worked on this."
        return Wait(reason, since, until, "admin", sentence)
    age = spell(moment(around.now) - moment(since))
    until_words = f", due at {clock(until, now=around.now)}" if until else ""
    return Wait(reason, since, until, whose, f"{text.format(age=age)}{until_words}.")


def _working(state: RunState, holder: Json, around: Around, due: str) -> Wait:
    role = OWNER[state.run_status]
    since = spell(moment(around.now) - moment(holder["since"]))
    sentence = f"{role.label} {holder['worker_name']} has worked on it for {since}."
    if due:
        sentence += f" The next clock runs out at {clock(due, now=around.now)}."
    return Wait("working", holder["since"], due, role.value, sentence)


def _unleased(state: RunState, around: Around, due: str) -> Wait | None:
    if state.run_status not in CLAIMABLE:
        return None
    reason, since = waits_for(state, around), free_since(state)
    if reason == BACKOFF:
        left = spell(moment(state.not_before) - moment(around.now))
        sentence = f"Tries again in {left}, after a pause."
        return Wait(BACKOFF, state.idle_since, state.not_before, "control_plane", sentence)
    stop = {HOLD: around.hold, SPEND: around.spend}.get(reason)
    if stop is not None:
        whose = "operator" if reason == HOLD else "control_plane"
        return Wait(reason, max(since, stop.since), stop.until, whose, stop.sentence)
    if reason in (CAP, PULL_REQUESTS):
        return _limited(reason, around, since, due)
    return _in_line(CLAIMABLE[state.run_status], reason, since, around, due)


def _in_line(role: Role, reason: str, since: str, around: Around, due: str) -> Wait:
    age = spell(moment(around.now) - moment(since))
    if reason == NO_WORKER and (lacks := around.lacks.get(role)):
        return Wait(NO_WORKER, since, due, "operator", f"Waiting {age}. {lacks}")
    if reason == NO_WORKER:
        asked = around.asked.get(role, "")
        seen = f"none has asked since {clock(asked, now=around.now)}" if asked else "none has ever asked"
        sentence = f"Waiting {age} for a worker with role {role}: {seen}."
        return Wait(NO_WORKER, since, due, role.value, sentence)
    sentence = f"In the queue for {age}; the next free {role.label.lower()} takes it."
    return Wait("queue", since, due, role.value, sentence)


def _limited(reason: str, around: Around, since: str, due: str) -> Wait:
    if reason == PULL_REQUESTS and around.full is not None:
        return Wait(reason, since, around.full.until, "operator", around.full.sentence)
    sentence = f"The repository's limit of {around.cap} runs at once is reached; the next free place is its."
    return Wait(reason, since, due, "control_plane", sentence)
