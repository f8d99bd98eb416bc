"""The story of a run: events → sentences → phases (lifecycle contract, section 15).

Work (model decisions, tool calls, checkpoints) is folded into stretches, repeats into one sentence,
idle time into a named gap, and a failed check with what mended it into one sentence. One pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from runs.domain.display import Display
from runs.domain.facts import Event, Json, moment
from runs.domain.payloads import cost_of
from runs.domain.said import KEY, NORMAL, Said, plural, short
from runs.domain.sentences import tell
from runs.domain.times import spell
from runs.domain.vocabulary import Ev, Gate, RunStatus

S, D = RunStatus, Display
#: Shorter pauses are part of the work.
GAP_SECONDS: Final = 60
SILENCE_SECONDS: Final = 300

_WORK: Final = frozenset({Ev.MODEL_DECISION, Ev.TOOL_REQUESTED, Ev.TOOL_COMPLETED, Ev.CHECKPOINT_SAVED})
WORK, GAP = "work", "gap"
_HAND_OVER: Final = frozenset(
    {GAP, Ev.LEASE_ACQUIRED, Ev.LEASE_RELEASED, Ev.SANDBOX_READY, Ev.POLICY_EVALUATED}
)
_FAILED_CHECK: Final = frozenset({Ev.VERIFICATION_FAILED_RETRYABLE, Ev.JUDGE_REQUIRES_FIX})
_RESULT: Final = frozenset({Ev.PATCH_CREATED, Ev.REPORT_CREATED})

_PHASES: Final = {
    S.CREATED: D.QUEUED,
    S.QUEUED: D.QUEUED,
    S.LEASED: D.STARTING,
    S.PREPARING: D.STARTING,
    S.CONTEXT_BUILDING: D.STARTING,
    S.PLANNING: D.THINKING,
    S.SUCCEEDED: D.COMPLETED,
    S.FAILED: D.FAILED,
    S.EXPIRED: D.FAILED,
    S.CANCELLED: D.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Item:
    """One sentence over events ``seq_from`` to ``seq_to``. A gap has no events and no icon."""

    seq_from: int
    seq_to: int
    at: str
    said: Said
    phase: Display
    kind: str  #: the event's type, ``WORK`` or ``GAP``
    times: int = 1

    @property
    def gap(self) -> bool:
        """Whether it is idle time, not something that happened."""
        return self.kind == GAP

    @property
    def sentence(self) -> str:
        """The sentence, with how often it came."""
        return self.said.sentence + (f", {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True)
class Phase:
    """Sentences under one word of the display vocabulary."""

    title: str
    items: tuple[Item, ...]


def timeline(events: Iterable[Event], *, importance: int = 1) -> list[Phase]:
    """The story of these events (in sequence), from ``importance`` up; failures are never left out."""
    items = [
        item
        for item in _folded(_mended(list(_items(events))))
        if item.gap or item.said.importance >= importance
    ]
    phases: list[Phase] = []
    for item in items:
        if phases and phases[-1].items[-1].phase is item.phase:
            phases[-1] = Phase(phases[-1].title, (*phases[-1].items, item))
        else:
            phases.append(Phase(item.phase.label, (item,)))
    return phases


# --- folding -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stretch:
    """Work between two other sentences."""

    events: list[Event] = field(default_factory=list)

    def item(self, phase: Display, *, is_newest: bool = False) -> Item:
        """The stretch as one sentence: what was done, how much, what it cost, what runs now."""
        first, last = self.events[0], self.events[-1]
        if is_newest and (running := self._running()):
            said = Said(f"{running}, running now", "busy", "dot", KEY, self._so_far())
            return Item(first.sequence, last.sequence, first.recorded_at, said, phase, WORK)
        labels, failures = self._labels()
        cost = sum((cost_of(e.payload.get("cost_usd")) or Decimal(0) for e in self.events), Decimal(0))
        calls = sum(e.type == Ev.TOOL_REQUESTED for e in self.events)
        steps = calls or sum(e.type == Ev.MODEL_DECISION for e in self.events)
        details = [f"in {plural(steps, 'step')}"] if steps > 1 else []
        details += [f"${cost:.2f}"] if cost else []
        details += [f"{failures} of them failed"] if failures and steps > 1 else []
        lone = failures == 1 and calls == 1
        said = Said(
            self._sentence(labels) + (" failed" if lone else ""),
            "bad" if lone else "quiet",
            "cross" if lone else "dot",
            NORMAL,
            ", ".join(details) or self._summary(failed=lone),
            self._output(),
        )
        return Item(first.sequence, last.sequence, first.recorded_at, said, phase, WORK)

    def _running(self) -> str:
        """The label of the call that has no result yet."""
        done = {e.payload["operation_id"] for e in self.events if e.type == Ev.TOOL_COMPLETED}
        calls = [e for e in self.events if e.type == Ev.TOOL_REQUESTED]
        open_calls = [e for e in calls if e.payload["operation_id"] not in done]
        return short(open_calls[-1].payload["label"], 100) if open_calls else ""

    def _so_far(self) -> str:
        done = sum(e.type == Ev.TOOL_COMPLETED for e in self.events)
        return f"after {plural(done, 'step')}" if done else ""

    def _labels(self) -> tuple[list[str], int]:
        labels = [short(e.payload["label"], 100) for e in self.events if e.type == Ev.TOOL_REQUESTED]
        bad = ("failed", "timed_out")
        failures = sum(e.type == Ev.TOOL_COMPLETED and e.payload["outcome"] in bad for e in self.events)
        return list(dict.fromkeys(label for label in labels if label)), failures

    def _sentence(self, labels: list[str]) -> str:
        if not labels:
            said = [short(e.payload.get("summary") or "") for e in self.events if e.type == Ev.MODEL_DECISION]
            return next((words for words in reversed(said) if words), "The agent thought about it")
        if len(labels) <= 2:  # noqa: PLR2004
            return "; ".join(labels)
        return f"{labels[0]}; {labels[-1]}; and {len(labels) - 2} more"

    def _summary(self, *, failed: bool) -> str:
        done = [e for e in self.events if e.type == Ev.TOOL_COMPLETED]
        return short(done[-1].payload.get("summary") or "") if failed and done else ""

    def _output(self) -> str:
        done = [e.payload.get("output_artifact_id") for e in self.events if e.type == Ev.TOOL_COMPLETED]
        return next((found for found in reversed(done) if found), "") or ""


def _items(events: Iterable[Event]) -> Iterator[Item]:
    """Sentences in order, work folded and gaps named."""
    stretch, phase = _Stretch(), D.QUEUED
    previous: Event | None = None
    for event in events:
        gap = _gap(previous, event, phase) if previous else None
        previous = event
        if stretch.events and (gap or event.type not in _WORK):
            yield stretch.item(phase)
            stretch = _Stretch()
        if gap:
            yield gap
        phase = _phase(event, phase)
        if event.type in _WORK:
            stretch.events.append(event)
        elif said := tell(event):
            yield Item(event.sequence, event.sequence, event.recorded_at, said, phase, event.type)
    if stretch.events:
        yield stretch.item(phase, is_newest=True)


def _mended(items: list[Item]) -> Iterator[Item]:
    """A failed check, work, and a new result tell one thing: it failed, the agent repaired it."""
    skip: set[int] = set()
    for index, item in enumerate(items):
        if index in skip:
            continue
        work = _repair(items, index + 1) if item.kind in _FAILED_CHECK else None
        if work is None:
            yield item
            continue
        skip.add(work)
        yield _told_with_repair(item, items[work])


def _repair(items: list[Item], start: int) -> int | None:
    """Where the work stands that led from a failed check to the next result; hand-overs may lie between."""
    kinds = [(at, items[at].kind) for at in range(start, min(start + 8, len(items)))]
    kinds = [(at, kind) for at, kind in kinds if kind not in _HAND_OVER]
    if len(kinds) >= 2 and kinds[0][1] == WORK and kinds[1][1] in _RESULT:  # noqa: PLR2004
        return kinds[0][0]
    return None


def _told_with_repair(failed: Item, work: Item) -> Item:
    what = work.said.sentence[:1].lower() + work.said.sentence[1:]
    sentence = f"{failed.said.sentence}; the agent repaired it: {what}"
    said = replace(failed.said, sentence=sentence, tone="warn", icon="wrench", detail=work.said.detail)
    return replace(failed, said=said, seq_to=work.seq_to)


def _folded(items: Iterable[Item]) -> Iterator[Item]:
    """The same sentence again and again is said once, with how often."""
    held: Item | None = None
    for item in items:
        if held and not item.gap and held.phase is item.phase and held.said.sentence == item.said.sentence:
            held = replace(held, seq_to=item.seq_to, times=held.times + 1)
            continue
        if held:
            yield held
        held = item
    if held:
        yield held


def _phase(event: Event, current: Display) -> Display:
    """A gate and what was decided at it belong to the phase that it interrupted."""
    status = S(event.to_status if _arrives(event) else event.from_status or S.CREATED)
    if status is S.WAITING_FOR_APPROVAL:
        return current
    return _PHASES.get(status, D.RUNNING)


def _arrives(event: Event) -> bool:
    begins = event.from_status in (S.CREATED, S.QUEUED) and event.type != Ev.RUN_ENQUEUED
    return S(event.to_status).is_terminal or begins


# --- gaps ----------------------------------------------------------------------------------------


def _gap(before: Event, after: Event, phase: Display) -> Item | None:
    """Idle time between two events, named; None where it was short."""
    idle = moment(after.recorded_at) - moment(before.recorded_at)
    words = _idle_words(before, after, int(idle.total_seconds()))
    if not words:
        return None
    said = Said(f"{spell(idle)} {words}", importance=KEY)
    return Item(before.sequence, before.sequence, before.recorded_at, said, phase, GAP)


_GATE_WORDS: Final = {
    Gate.PLAN: "to approve the plan",
    Gate.PATCH: "to review the patch",
    Gate.TOOL_CALL: "to allow the call",
    Gate.BUDGET: "to decide on the budget",
    Gate.QUESTION: "to answer",
}


def _idle_words(before: Event, after: Event, seconds: int) -> str:
    if seconds < GAP_SECONDS:
        return ""
    if before.to_status == S.WAITING_FOR_APPROVAL:
        who = after.actor.name if after.actor.type == "human" else "somebody"
        gate: Json = before.payload if before.type == Ev.HUMAN_APPROVAL_REQUIRED else {}
        return f"waiting for {who} {_GATE_WORDS[Gate(gate['gate'])]}" if gate else f"waiting for {who}"
    if before.type in (Ev.RUN_INTERRUPTED, Ev.PAUSE_REQUESTED):
        return "paused"
    if after.type == Ev.LEASE_ACQUIRED:
        return f"waiting for a worker with role {after.actor.type}"
    if S(before.to_status).is_terminal:
        return ""
    return "without news" if seconds >= SILENCE_SECONDS else ""
