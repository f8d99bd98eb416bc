"""Every change of a run goes through ``apply_event`` (lifecycle contract, 4.3 rule 1)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property

from django.db import transaction

from agentplatform.ids import new_id
from runs import projections, store
from runs.domain.commands import Command, Context, Decision, NextRun
from runs.domain.contract import effective_budget
from runs.domain.decide import admit, decide, first_events, request_fingerprint
from runs.domain.errors import IdempotencyKeyReused, Invalid, Refusal
from runs.domain.facts import CONTROL_PLANE as CONTROL_PLANE_ACTOR
from runs.domain.facts import Event, Json, stamp
from runs.domain.payloads import check_payload
from runs.domain.state import RunState
from runs.domain.tasks import TaskState, moves_of_run
from runs.domain.vocabulary import TaskEv
from runs.models import Lease, Run, Task


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


@dataclass
class _Hand:
    """A locked run while commands are applied to it."""

    run: Run
    state: RunState
    lease: Lease | None
    now: datetime
    seen: dict[str, Event] = field(default_factory=dict)

    @cached_property
    def around(self) -> store.Surroundings:
        """Contract and policy; read when the first command is admitted, the same for all of a batch."""
        return store.surroundings(self.run)


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
    outcomes: list[Outcome] = []
    with transaction.atomic():
        hand = _take(run_id, commands)
        ended = False
        for index, command in enumerate(commands):
            with _at(index, commands):
                if ended and command.key not in hand.seen:
                    raise Invalid({"events": ["nothing may follow an item that ends the lease"]})
                outcomes.append(_apply(hand, command))
                ended = command.caller.is_machine and hand.state.holder is None
        return [_present(outcome, hand) for outcome in outcomes]


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
    run = store.lock_run(run_id)
    # Read the clock, keys and lease after the run's lock: a takeover may have happened while we waited.
    keys = [command.key for command in commands if command.key]
    lease, now = store.lease_and_clock(run.pk)
    return _Hand(
        run=run,
        state=RunState.from_json(run.state),
        lease=lease,
        now=now,
        seen=store.find_keys(run.pk, keys) if keys else {},
    )


def _apply(hand: _Hand, command: Command) -> Outcome:
    if stored := hand.seen.get(command.key):
        return _replay(hand, command, stored)
    admit(hand.state, command, lease_is_alive=_is_alive(hand, command))
    decision = decide(hand.state, command, _context(hand, command))
    return _write(hand, command, decision)


def _replay(hand: _Hand, command: Command, stored: Event) -> Outcome:
    """The first answer again, to the first caller only; the run and lease beside it are the present ones."""
    if stored.fingerprint != request_fingerprint(command):
        raise IdempotencyKeyReused
    follow_ups = tuple(store.following(hand.run.pk, stored.sequence))
    return Outcome(hand.run, hand.state, stored, follow_ups, hand.lease, replayed=True)


def _context(hand: _Hand, command: Command) -> Context:
    run, state = hand.run, hand.state
    contract, policy = hand.around.contract, hand.around.policy
    operation_id = command.payload.get("operation_id")
    return Context(
        now=hand.now,
        policy=policy.values,
        policy_version=policy.version,
        contract=contract,
        artifacts=store.artifacts_of(run.pk, _cited(command, state)),
        step=store.step_of(run.pk, operation_id) if isinstance(operation_id, str) else None,
        lease_is_alive=_is_alive(hand, command),
        history=lambda ended: store.history_of(run, ended, contract),
        new_id=new_id,
        dice=random.random(),  # noqa: S311  jitter, not a secret
    )


def _cited(command: Command, state: RunState) -> Iterable[str]:
    """Ids of artifacts that the decision may look at: those the payload names, and the current patch."""
    for name, value in command.payload.items():
        if name.endswith(("_artifact_id", "_report_id")) and isinstance(value, str):
            yield value
    yield (state.patch or {}).get("id", "")


def _is_alive(hand: _Hand, command: Command) -> bool:
    lease = hand.lease
    return lease is not None and store.holds(lease, command.caller.account, command.lease_token, hand.now)


def _write(hand: _Hand, command: Command, decision: Decision) -> Outcome:
    before = hand.state.status
    events = store.write(hand.run, decision.events, decision.state, decision.changes, hand.around)
    hand.state = decision.state
    next_run = _follow_task(hand, before, events, decision)
    projections.tell(projections.Told(hand.run, tuple(events), decision.state))
    if command.key:
        hand.seen[command.key] = events[0]
    if hand.state.holder is None:
        hand.lease = None
    elif hand.lease is None:
        hand.lease = store.active_lease(hand.run.pk)
    return Outcome(hand.run, hand.state, events[0], tuple(events[1:]), hand.lease, next_run_id=next_run)


def _present(outcome: Outcome, hand: _Hand) -> Outcome:
    """Run and lease as they stand after the whole batch."""
    return Outcome(
        hand.run,
        hand.state,
        outcome.event,
        outcome.follow_ups,
        hand.lease,
        outcome.replayed,
        outcome.next_run_id,
    )


# --- the task follows its run ---------------------------------------------------------------------


def _follow_task(hand: _Hand, before: str, events: Sequence[Event], decision: Decision) -> str:
    moves = list(
        moves_of_run(before, hand.state, has_next_run=decision.next_run is not None, events=list(events))
    )
    if not moves and decision.next_run is None:
        return ""
    task = store.lock_task(hand.run.task_id)
    for event, facts in moves:
        store.append_task(task, event, actor=CONTROL_PLANE_ACTOR, now=hand.now, facts=facts)
    if decision.next_run is None:
        return ""
    return start_run(task, around=hand.around, now=hand.now, follows=decision.next_run).pk


def start_run(
    task: Task, *, around: store.Surroundings, now: datetime, follows: NextRun | None = None
) -> Run:
    """The next run of a locked task: created, queued and recorded in the task's log."""
    task_state = TaskState.from_json(task.state)
    number = task_state.runs_made + 1
    run = store.insert_run(run_id=new_id("run"), task=task, attempt_no=number, now=now)
    payload: Json = {
        "task_id": task.pk,
        "repository_id": task.repository_id,
        "attempt_no": number,
        "completion_mode": task.completion_mode,
        "risk_level": task.risk_level,
        "priority": task_state.priority,
        "instruction_no": len(task_state.instructions),
        "budget": budget_left(task, around),
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


def budget_left(task: Task, around: store.Surroundings) -> Json:
    """Limits of the next run; of the task's money it gets what earlier runs left."""
    limits = effective_budget(around.contract, around.policy.values)
    spent = sum((run.cost_usd for run in task.runs.only("cost_usd")), Decimal(0))
    left = max(Decimal(str(limits["max_cost_usd"])) - spent, Decimal(0))
    limits["max_cost_usd"] = f"{left.normalize():f}"
    return limits
