"""Where two answers to one event differ, and how that is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.domain import guards
from runs.domain.errors import Refusal
from runs.domain.facts import Event, Json
from runs.domain.state import RunState
from runs.domain.versions import upcast
from runs.domain.vocabulary import Ev, FailureCategory, Gate, RunStatus

#: Decided by dice and by what the task's other runs did, not by evidence: the same rule may wait differently.
_LATER: Final = frozenset({Ev.RETRY_SCHEDULED, Ev.RETRY_DECLINED})
#: Facts that name the policy, or a moment that dice chose; guards are compared one by one.
_NO_DECISION: Final = frozenset({"policy_version", "not_before", "guards"})
#: Of a request, what it takes to pass it; its guards and subject repeat the evaluation before it.
_OF_A_REQUEST: Final = ("needed", "due_at", "on_timeout", "effective_risk")
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that would differ: what, as recorded, as it would be."""

    what: str
    recorded: str
    simulated: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One event whose decision would differ. ``leads_elsewhere``: what followed it would not have."""

    sequence: int
    at: str
    event: str
    policy_version: str
    recorded: str
    simulated: str
    changes: tuple[Change, ...] = ()
    leads_elsewhere: bool = False


def led_elsewhere(recorded: Sequence[Event], simulated: Sequence[Event]) -> bool:
    """Whether the two answers move the run differently."""
    return [_move(e) for e in _decided(recorded)] != [_move(e) for e in _decided(simulated)]


def differs(recorded: Sequence[Event], simulated: Sequence[Event], state: RunState) -> Iterator[Difference]:
    """The difference of the two answers to ``recorded[0]``, if there is one. ``state``: the run before it."""
    elsewhere = led_elsewhere(recorded, simulated)
    changes = tuple(_changes(_decided(recorded), _decided(simulated)))
    if elsewhere or changes:
        yield _difference(recorded, state, in_words(simulated), changes, leads_elsewhere=elsewhere)


def refused(recorded: Sequence[Event], refusal: Refusal, state: RunState) -> Difference:
    """The event would not have been taken."""
    return _difference(recorded, state, f"refused: {refusal.in_words}", (), leads_elsewhere=True)


def rejected(created: Event, reasons: Sequence[str]) -> Difference:
    """The task would not have been taken."""
    words = f"the task is rejected: {' '.join(reasons)}"
    return _difference([created], RunState(), words, (), leads_elsewhere=True)


def _difference(
    recorded: Sequence[Event],
    state: RunState,
    simulated: str,
    changes: tuple[Change, ...],
    *,
    leads_elsewhere: bool,
) -> Difference:
    root = recorded[0]
    return Difference(
        sequence=root.sequence,
        at=root.recorded_at,
        event=root.type,
        policy_version=judged_by(recorded, state),
        recorded=in_words(recorded),
        simulated=simulated,
        changes=changes,
        leads_elsewhere=leads_elsewhere,
    )


def judged_by(recorded: Sequence[Event], state: RunState) -> str:
    """The version of the policy that judged the event, or the run before it."""
    named = (str(e.facts["policy_version"]) for e in recorded if e.facts.get("policy_version"))
    return next(named, state.policy_version)


# --- what is compared --------------------------------------------------------------------------------


def _decided(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.type not in _LATER]


def _move(event: Event) -> tuple[str, ...]:
    """Where an event leads and what for: two answers with the same moves lead the same way."""
    payload = event.payload
    failure = event.facts.get("failure") or payload.get("failure") or {}
    why = (failure.get("category", ""), failure.get("reason", ""))
    return (event.type, event.to_status, str(payload.get("gate", "")), *map(str, why))


def _changes(recorded: Sequence[Event], simulated: Sequence[Event]) -> Iterator[Change]:
    """What differs in those events that both answers have in the same place."""
    for before, after in zip(recorded, simulated, strict=False):
        if (before.type, before.to_status) != (after.type, after.to_status):
            return
        if before.type == Ev.HUMAN_APPROVAL_REQUIRED:
            yield from _facts_changed(before, after, _OF_A_REQUEST)
            continue
        if before.type == Ev.RUN_CREATED:
            yield from _budget_changed(before.payload["budget"], after.payload["budget"])
            continue
        if before.type == Ev.POLICY_EVALUATED and before.parent:  # else it repeats what was evaluated before
            yield from _guards_changed(before.facts["guards"], after.facts["guards"])
        yield from _facts_changed(before, after, None)


def _facts_changed(before: Event, after: Event, names: Sequence[str] | None) -> Iterator[Change]:
    _, old = upcast(before.type, before.schema_version, before.payload, before.facts)
    new = after.facts
    for name in names or sorted({*old, *new} - _NO_DECISION):
        if old.get(name) != new.get(name):
            yield Change(name.replace("_", " "), _said(old.get(name)), _said(new.get(name)))


def _guards_changed(before: list[Json], after: list[Json]) -> Iterator[Change]:
    """Guards whose answer would differ; that another threshold stands in its words is no difference."""
    known = {guard["name"]: guard for guard in before}
    for guard in after:
        old = known.get(guard["name"])
        if old is None or old["passed"] != guard["passed"]:
            name = str(guard["name"])
            yield Change(guards.LABELS.get(name, name), _guard(old), _guard(guard))


def _guard(guard: Json | None) -> str:
    if guard is None:
        return "not looked at"
    word = {True: "passed", False: "failed", None: "unknown"}[guard["passed"]]
    return f"{word} ({guard['value']})"


def _budget_changed(before: Json, after: Json) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        if str(before.get(name)) != str(after.get(name)):
            yield Change(name.replace("_", " "), _said(before.get(name)), _said(after.get(name)))


def _said(value: Any) -> str:
    if value in (None, "", [], {}):
        return "none"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# --- in words ----------------------------------------------------------------------------------------


def in_words(events: Sequence[Event]) -> str:
    """What was decided, by the last of these events that decides something."""
    for event in reversed(_decided(events)):
        if words := _words(event):
            return words
    root = events[0]
    if root.from_status == root.to_status:
        return "taken"
    return f"goes on to {RunStatus(root.to_status).label.lower()}"


def _words(event: Event) -> str:
    match event.type:
        case Ev.AUTO_PR_ALLOWED:
            return "the pull request goes out by itself"
        case Ev.HUMAN_APPROVAL_REQUIRED:
            needed = event.facts.get("needed", 1)
            who = "a person decides" if needed == 1 else f"{needed} people decide"
            return f"{who} ({Gate(event.payload['gate']).label.lower()})"
        case Ev.NON_RETRYABLE_FAILURE:
            failure = event.facts.get("failure") or event.payload["failure"]
            return f"fails: {FailureCategory(failure['category']).label.lower()}, {failure['reason']}"
        case Ev.COMPLETION_CONDITION_MET:
            return "completed"
        case Ev.RUN_CANCELLED:
            return "cancelled"
    return ""
