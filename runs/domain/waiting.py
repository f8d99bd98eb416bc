"""Why a run stands, until when, and whose move it is, in one sentence (lifecycle contract, section 15).

Times inside a sentence are the clock in UTC; pages show the exact ones beside it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from runs.domain.display import BACKOFF, CAP, HOLD, NO_WORKER, PULL_REQUESTS, Around, free_since, waits_for
from runs.domain.facts import Json, moment
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.times import clock, spell
from runs.domain.vocabulary import CLAIMABLE, OWNER, Directive, Gate, RunStatus

REASONS: Final = {
    BACKOFF: "Backoff",
    HOLD: "A hold",
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
        return _blocked(task)
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
    return Wait("access" if renew else "person", task.updated_at, "", "operator", sentence)


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


def _gate(gate: Json, around: Around) -> Wait:
    since, until, now = gate["opened_at"], gate.get("due_at") or "", moment(around.now)
    age = spell(now - moment(since))
    until_words = f", due at {clock(until, now=around.now)}" if until else ""
    kind = Gate(gate["gate"])
    if around.undecidable:
        sentence = "Nobody is left who may decide: everybody with the role has worked on this."
        return Wait("review", since, until, "admin", sentence)
    if kind is Gate.BUDGET:
        return Wait("budget", since, until, "operator", f"The budget is spent, asked {age} ago{until_words}.")
    if kind is Gate.QUESTION:
        return Wait("question", since, until, "submitter", f"A question, asked {age} ago{until_words}.")
    things = {Gate.PLAN: "the plan", Gate.PATCH: "the patch", Gate.TOOL_CALL: "a tool call"}
    sentence = f"Review of {things[kind]}, requested {age} ago{until_words}."
    return Wait("review", since, until, "reviewer", sentence)


def _working(state: RunState, holder: Json, around: Around, due: str) -> Wait:
    role = OWNER[state.run_status]
    since = spell(moment(around.now) - moment(holder["since"]))
    sentence = f"{role.label} {holder['worker_name']} has worked on it for {since}."
    if due:
        sentence += f" The next clock runs out at {clock(due, now=around.now)}."
    return Wait("working", holder["since"], due, role.value, sentence)


def _unleased(state: RunState, around: Around, due: str) -> Wait | None:
    reason, since = waits_for(state, around), free_since(state)
    if state.run_status not in CLAIMABLE:
        return None
    role = CLAIMABLE[state.run_status]
    if reason == BACKOFF:
        left = spell(moment(state.not_before) - moment(around.now))
        sentence = f"Tries again in {left}, after a pause."
        return Wait(BACKOFF, state.updated_at, state.not_before, "control_plane", sentence)
    if reason == HOLD:
        return Wait(HOLD, since, due, "operator", around.hold)
    if reason in (CAP, PULL_REQUESTS):
        return _limited(reason, around, since, due)
    age = spell(moment(around.now) - moment(since))
    if reason == NO_WORKER:
        asked = around.asked.get(role, "")
        seen = f"none has asked since {clock(asked, now=around.now)}" if asked else "none has ever asked"
        return Wait(
            NO_WORKER, since, due, role.value, f"Waiting {age} for a worker with role {role}: {seen}."
        )
    return Wait(
        "queue",
        since,
        due,
        role.value,
        f"In the queue for {age}; the next free {role.label.lower()} takes it.",
    )


def _limited(reason: str, around: Around, since: str, due: str) -> Wait:
    if reason == PULL_REQUESTS and around.full is not None:
        return Wait(reason, since, around.full.until, "operator", around.full.sentence)
    sentence = f"The repository's limit of {around.cap} runs at once is reached; the next free place is its."
    return Wait(reason, since, due, "control_plane", sentence)
