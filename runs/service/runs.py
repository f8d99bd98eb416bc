"""Every change of a run goes through ``apply_event`` (lifecycle contract, 4.3 rule 1)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from structlog.contextvars import bind_contextvars

from agentplatform.ids import new_id
from runs import projections, store
from runs.domain.budgets import next_budget
from runs.domain.commands import Command, Context, Decision, NextRun
from runs.domain.decide import admit, decide, first_events, request_fingerprint
from runs.domain.errors import IdempotencyKeyReused, Invalid, LogArchived, Refusal
from runs.domain.facts import CONTROL_PLANE as CONTROL_PLANE_ACTOR
from runs.domain.facts import Event, Json, stamp
from runs.domain.holds import longest
from runs.domain.log_limits import LogLimits
from runs.domain.payloads import check_payload
from runs.domain.secrets import without_secrets
from runs.domain.state import Changes, RunState
from runs.domain.tasks import TaskState, moves_of_run
from runs.domain.vocabulary import TASK_FINAL, TERMINAL, TaskEv
from runs.models import EventArchive, Lease, Run, Task
from runs.models.holds import covered_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an accepted event did. ``event`` and ``follow_ups`` are as recorded, the rest is the present.

    ``event`` is None where a directive was in force already and nothing had to be written.
    """

    run: Run
    state: RunState
    event: Event | None
    follow_ups: tuple[Event, ...] = ()
    lease: Lease | None = None
    replayed: bool = False
    next_run_id: str = ""


@dataclass(slots=True)
class _Done:
    """One command of a batch: its event and what followed, and whether all that was there before."""

    events: tuple[Event, ...]
    replayed: bool = False


@dataclass
class _Hand:
    """A locked run while commands are decided on it; written once, when all of them are."""

    taken: store.Taken
    state: RunState
    decisions: list[tuple[str, Decision]] = field(default_factory=list)  #: each with the status before it
    done: list[_Done] = field(default_factory=list)
    by_key: dict[str, _Done] = field(default_factory=dict)
    next_run_id: str = ""

    @property
    def is_over(self) -> bool:
        """Whether an item of a machine ended its lease: nothing may follow it."""
        return bool(self.decisions) and self.state.holder is None


def apply_event(run_id: str, command: Command) -> Outcome:
    """Apply one event: lock, replay, fence, decide, write, project, outbox; all or nothing.

    Raises a ``Refusal``; a refused call leaves nothing behind, and its key is free.
    """
    return apply_batch(run_id, [command])[0]


def apply_batch(run_id: str, commands: Sequence[Command]) -> list[Outcome]:
    """Apply events in order in one transaction: all or none. Of several, a refusal names the ``index``."""
    for index, command in enumerate(commands):
        with _at(index, commands):
            check_payload(command.event, command.payload)
    # Here, before anything is stored, hashed or told: what is a fact cannot be taken back.
    commands = [replace(command, payload=without_secrets(command.payload)) for command in commands]
    with transaction.atomic():
        hand = _take(run_id, commands)
        for index, command in enumerate(commands):
            with _at(index, commands):
                hand.done.append(_apply(hand, command))
        outcomes = _write(hand)
    if event := outcomes[-1].event:
        bind_contextvars(run_id=run_id, event_id=event.id)  # lines of this request or task say which it was
    return outcomes


class _at:  # noqa: N801  reads as the preposition that it is
    """Adds the item's index to a refusal."""

    def __init__(self, index: int, commands: Sequence[Command]) -> None:
        self.index = index if len(commands) > 1 else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Refusal) and self.index is not None:
            error.extra["index"] = self.index


def _take(run_id: str, commands: Sequence[Command]) -> _Hand:
    taken = store.take_run(
        run_id,
        keys=[command.key for command in commands if command.key],
        artifacts=[cited for command in commands for cited in _cited(command)],
        operations=[command.payload["operation_id"] for command in commands if _operation(command)],
    )
    if taken.run.status in TERMINAL and (archive := EventArchive.of(run_id)):
        raise LogArchived(archive.sentence, archive=archive.file)
    return _Hand(taken, RunState.from_json(taken.run.state))


def _cited(command: Command) -> Iterable[str]:
    """Ids of artifacts that the payload names."""
    for name, value in command.payload.items():
        if name.endswith(("_artifact_id", "_report_id")) and isinstance(value, str):
            yield value


def _operation(command: Command) -> str:
    operation_id = command.payload.get("operation_id")
    return operation_id if isinstance(operation_id, str) else ""


def _apply(hand: _Hand, command: Command) -> _Done:
    if done := _earlier(hand, command):
        return done
    if hand.is_over and command.caller.is_machine:
        raise Invalid({"events": ["nothing may follow an item that ends the lease"]})
    is_alive = _is_alive(hand, command)
    admit(hand.state, command, lease_is_alive=is_alive)
    decision = decide(hand.state, command, _context(hand, command, lease_is_alive=is_alive))
    hand.decisions.append((hand.state.status, decision))
    hand.state = decision.state
    hand.taken.follow(decision.changes)
    done = _Done(tuple(decision.events))
    if command.key:
        hand.by_key[command.key] = done
    return done


def _earlier(hand: _Hand, command: Command) -> _Done | None:
    """The first answer again, to the first caller only."""
    stored, done = hand.taken.seen.get(command.key), hand.by_key.get(command.key)
    if stored is None and done is None:
        return None
    first = stored or (done.events[0] if done else None)
    if first is None or first.fingerprint != request_fingerprint(command):
        raise IdempotencyKeyReused
    if stored:
        return _Done((stored, *store.following(stored.run_id, stored.sequence)), replayed=True)
    return _Done(done.events, replayed=True) if done else None


def _context(hand: _Hand, command: Command, *, lease_is_alive: bool) -> Context:
    taken = hand.taken
    around = taken.around
    return Context(
        now=taken.now,
        policy=around.policy.values,
        policy_version=around.policy.version,
        contract=around.contract,
        artifacts=taken.artifacts,
        step=taken.steps.get(_operation(command)),
        log_limits=LogLimits(settings.RUN_MAX_EVENTS, settings.RUN_MAX_LOG_BYTES),
        lease_is_alive=lease_is_alive,
        history=lambda ended: store.history_of(taken.run, ended, around.contract),
        held=lambda: _held(taken.run, taken.now),
        new_id=new_id,
        dice=random.random(),  # noqa: S311  jitter, not a secret
    )


def _held(run: Run, now: datetime) -> str:
    hold = longest(store.holds_in_force(), covered_of(run.task))
    return hold.sentence(now=stamp(now)) if hold else ""


def _is_alive(hand: _Hand, command: Command) -> bool:
    lease, now = hand.taken.lease, hand.taken.now
    return lease is not None and store.holds(lease, command.caller.account, command.lease_token, now)


def _write(hand: _Hand) -> list[Outcome]:
    """Write what was decided, in one go; run and lease of every outcome are as they stand after it."""
    taken, run = hand.taken, hand.taken.run
    sealed: dict[int, Event] = {}
    if hand.decisions:
        events = [event for _, decision in hand.decisions for event in decision.events]
        changes = Changes()
        for _, decision in hand.decisions:
            changes.update(decision.changes)
        written = store.write(run, events, hand.state, changes, taken.around)
        sealed = {event.sequence: event for event in written}
        for before, decision in hand.decisions:
            _follow_task(hand, before, decision)
        projections.tell(projections.Told(run, tuple(written), hand.state))
        if taken.is_watched:
            store.ring(run.pk)
    if hand.state.holder is None:
        taken.lease = None
    elif taken.lease is None:
        taken.lease = store.active_lease(run.pk)
    return [_outcome(hand, done, sealed) for done in hand.done]


def _outcome(hand: _Hand, done: _Done, sealed: Mapping[int, Event]) -> Outcome:
    first, *follow_ups = (sealed.get(event.sequence, event) for event in done.events)
    run, lease = hand.taken.run, hand.taken.lease
    return Outcome(run, hand.state, first, tuple(follow_ups), lease, done.replayed, hand.next_run_id)


# --- the task follows its run ---------------------------------------------------------------------


def _follow_task(hand: _Hand, before: str, decision: Decision) -> None:
    follows = decision.next_run
    moves = list(
        moves_of_run(before, decision.state, has_next_run=follows is not None, events=decision.events)
    )
    if not moves and follows is None:
        return
    now = hand.taken.now
    task = store.lock_task(hand.taken.run.task_id)
    for event, facts in moves:
        store.append_task(task, event, actor=CONTROL_PLANE_ACTOR, now=now, facts=facts)
    archive_if_asked(task, now=now)
    if follows is not None:
        hand.next_run_id = start_run(task, around=hand.taken.around, now=now, follows=follows).pk


def archive_if_asked(task: Task, *, now: datetime) -> None:
    """Archive a locked task that ended, where somebody wanted it so."""
    if task.status in TASK_FINAL and TaskState.from_json(task.state).archive_after:
        store.append_task(task, TaskEv.TASK_ARCHIVED, actor=CONTROL_PLANE_ACTOR, now=now)


def start_run(
    task: Task, *, around: store.Surroundings, now: datetime, follows: NextRun | None = None
) -> Run:
    """The next run of a locked task: created, queued and recorded in the task's log."""
    task_state = TaskState.from_json(task.state)
    number = task_state.runs_made + 1
    run = store.insert_run(run_id=new_id("run"), task=task, attempt_no=number, now=now)
    limits, raised = budget_left(task, around)
    payload: Json = {
        "task_id": task.pk,
        "repository_id": task.repository_id,
        "attempt_no": number,
        "completion_mode": task.completion_mode,
        "risk_level": task.risk_level,
        "priority": task_state.priority,
        "instruction_no": len(task_state.instructions),
        "budget": limits,
        "raised": raised,
        "hints": list(follows.hints) if follows else [],
        "feedback": follows.feedback if follows else None,
    }
    facts = {"policy_version": around.policy.version, "rule": follows.rule if follows else ""}
    context = Context(
        now=now,
        policy=around.policy.values,
        policy_version=around.policy.version,
        contract=around.contract,
        new_id=new_id,
    )
    not_before = follows.not_before if follows else stamp(now)
    decision = first_events(run.pk, payload, not_before=not_before, facts=facts, context=context)
    events = store.write(run, decision.events, decision.state, decision.changes, around)
    move = {"run_id": run.pk, "attempt_no": number}
    store.append_task(task, TaskEv.RUN_SCHEDULED, actor=CONTROL_PLANE_ACTOR, now=now, facts=move)
    projections.tell(projections.Told(run, tuple(events), decision.state))
    return run


def budget_left(task: Task, around: store.Surroundings) -> tuple[Json, Json]:
    """Limits of a task's next run, and those of them that a person raised."""
    last: RunState | None = None
    spent = Decimal(0)
    begun = task.runs.filter(version__gt=0)  # not the new one, which has no event yet
    for run in begun.order_by("attempt_no").only("cost_usd", "state"):
        last, spent = RunState.from_json(run.state), spent + run.cost_usd
    policy = around.policy.values
    limits = next_budget(around.contract, policy, last=last, spent=spent)
    return limits, (last.raised if last else {})
