"""Snapshot + command + context → events or a refusal. Pure: no clock, no dice, no database.

The order of checks is the contract (lifecycle contract, 4.3 rule 1): actor, terminal, lease and
fence, expected sequence, directive, transition, cited artifacts and guards. A replay was answered
before this is called.
"""

from __future__ import annotations

from typing import Final

from runs.domain.commands import CONTROL_PLANE, Caller, Command, Context, Decision, Draft, NextRun
from runs.domain.errors import (
    ActorNotAllowed,
    DirectivePending,
    IllegalTransition,
    LeaseLost,
    RunTerminal,
    SequenceConflict,
)
from runs.domain.facts import OWN_ACTORS, Actor, Event, Json, fingerprint, stamp
from runs.domain.fold import evolve
from runs.domain.follow_ups import follow_ups
from runs.domain.log_limits import check_room
from runs.domain.meanings import meaning
from runs.domain.outcome import outcome
from runs.domain.state import Changes, RunState, copied
from runs.domain.table import CLAIM_EVENTS, PEOPLE_EVENTS, allowed_events, cell, posting_roles
from runs.domain.versions import version_of
from runs.domain.vocabulary import OWNER, Directive, Ev, Role, RunStatus

#: What a worker may still post after it was asked to stop (section 9).
_CANCEL_TAKES: Final = frozenset({Ev.TOOL_COMPLETED, Ev.CHECKPOINT_SAVED, Ev.RUN_CANCELLED})
#: New intents, which a pause or a wind-down refuses.
_PAUSE_REFUSES: Final = frozenset({Ev.TOOL_REQUESTED, Ev.VERIFICATION_STARTED, Ev.QUESTION_ASKED})
_WIND_DOWN_REFUSES: Final = frozenset({Ev.TOOL_REQUESTED, Ev.QUESTION_ASKED})


def decide(state: RunState, command: Command, context: Context) -> Decision:
    """The events that ``command`` leads to, follow-ups included; ``state`` is not changed.

    Raises a ``Refusal``.
    """
    actor = admit(state, command, lease_is_alive=context.lease_is_alive)
    check_room(state, command.event, context.log_limits)
    to, facts = meaning(state, command, context)
    draft = Draft(command.event, to, command.payload, Role(actor.type), facts)
    return _Writer(state, command, context).write(draft, actor)


def admit(state: RunState, command: Command, *, lease_is_alive: bool) -> Actor:
    """Who acts, if run and lease alone allow it: all that can be refused before any evidence is read.

    Raises a ``Refusal``.
    """
    actor = check_actor(state, command)
    check_terminal(state, command)
    check_lease(state, command, lease_is_alive=lease_is_alive)
    check_sequence(state, command)
    check_directive(state, command)
    check_transition(state, command)
    return actor


# --- checks, in the order of the contract --------------------------------------------------------


def check_actor(state: RunState, command: Command) -> Actor:
    """Who acts: the caller in the role that this event wants here. People's events come by their own way."""
    caller, event = command.caller, command.event
    wanted = posting_roles(event)
    row = cell(event, state.run_status)
    allowed = row.roles_in(state.run_status) if row else wanted
    usable = caller.roles & allowed
    posted = not command.facts  # facts come from a claim of ours, never from a caller
    if caller.is_machine and (event in PEOPLE_EVENTS or (event in CLAIM_EVENTS and posted)):
        usable = frozenset()
    if not usable:
        raise ActorNotAllowed(required_roles=sorted(allowed or wanted), event=event)
    return _actor(caller, usable, state.run_status)


def _actor(caller: Caller, usable: frozenset[Role], status: RunStatus) -> Actor:
    owner = OWNER[status]
    role = owner if owner in usable else next(role for role in Role if role in usable)
    return OWN_ACTORS.get(role) or Actor(role, caller.account, caller.name)


def check_terminal(state: RunState, command: Command) -> None:
    """Nothing leaves a final status; only remarks about it are taken."""
    if state.is_terminal and cell(command.event, state.run_status) is None:
        raise RunTerminal(status=state.status, outcome=outcome(state))


def check_lease(state: RunState, command: Command, *, lease_is_alive: bool) -> None:
    """A machine posts under the active lease; after the end, only the account of the last one may."""
    if not command.caller.is_machine or command.event is Ev.LEASE_ACQUIRED:
        return
    if state.is_terminal:
        if command.caller.account != state.worker_id:
            raise LeaseLost(
                "Only the worker of the last lease may report on an ended run.", fence=state.fence
            )
    elif not lease_is_alive:
        raise LeaseLost(fence=state.fence)


def check_sequence(state: RunState, command: Command) -> None:
    """Optimistic concurrency, for callers that ask for it."""
    if command.expected_sequence is not None and command.expected_sequence != state.sequence:
        raise SequenceConflict(sequence=state.sequence)


def check_directive(state: RunState, command: Command) -> None:
    """A run that was asked to stop takes reports of what is finished, no new intents."""
    if not command.caller.is_machine or state.is_terminal or command.event is Ev.LEASE_ACQUIRED:
        return
    event = command.event
    if state.directive == Directive.CANCEL:
        takes = _CANCEL_TAKES | ({Ev.PR_CREATED} if state.status == RunStatus.PR_CREATING else set())
        refused = event not in takes
    elif state.directive == Directive.PAUSE:
        refused = event in _PAUSE_REFUSES
    else:
        refused = state.directive == Directive.WIND_DOWN and event in _WIND_DOWN_REFUSES
    if refused:
        raise DirectivePending(directive=state.directive, allowed_events=events_now(state))


def check_transition(state: RunState, command: Command) -> None:
    """The table's word."""
    if cell(command.event, state.run_status) is None:
        raise IllegalTransition(
            f"A run in {state.status} does not take {command.event}.",
            status=state.status,
            event=command.event,
            allowed_events=events_now(state),
        )


def events_now(state: RunState) -> list[str]:
    """What machines may post now: the table, narrowed by the directive."""
    events = allowed_events(state.run_status)
    if state.directive == Directive.CANCEL and not state.is_terminal:
        takes = _CANCEL_TAKES | ({Ev.PR_CREATED} if state.status == RunStatus.PR_CREATING else set())
        events = [event for event in events if event in takes]
    elif state.directive == Directive.PAUSE:
        events = [event for event in events if event not in _PAUSE_REFUSES]
    elif state.directive == Directive.WIND_DOWN:
        events = [event for event in events if event not in _WIND_DOWN_REFUSES]
    return [event.value for event in events]


# --- writing --------------------------------------------------------------------------------------


class _Writer:
    """Turns drafts into events, each applied to the state before the next is thought of."""

    def __init__(self, state: RunState, command: Command, context: Context) -> None:
        self.command, self.context = command, context
        self.decision = Decision([], state.copy(), Changes())
        self.lease_fence = state.fence

    def write(self, draft: Draft, actor: Actor) -> Decision:
        """Append the caller's event, then all that follows from it."""
        event = self.append(draft, actor, parent=0)
        self._follow(event, root=event.sequence)
        if self._heard_directive(actor):
            seen = Draft(Ev.DIRECTIVE_SEEN, self.decision.state.status, {}, Role.CONTROL_PLANE)
            self.append(seen, OWN_ACTORS[Role.CONTROL_PLANE], parent=event.sequence)
        return self.decision

    def _follow(self, event: Event, *, root: int) -> None:
        for item in follow_ups(self.decision.state, event, self.context):
            if isinstance(item, NextRun):
                self.decision.next_run = item
                continue
            follower = self.append(item, OWN_ACTORS[item.role], parent=root)
            self._follow(follower, root=root)

    def _heard_directive(self, actor: Actor) -> bool:
        state = self.decision.state
        waiting = state.directive_info is not None and not state.directive_info["seen_at"]
        return self.command.caller.is_machine and waiting and state.holder is not None

    def append(self, draft: Draft, actor: Actor, *, parent: int) -> Event:
        """One more event, applied to the state."""
        state = self.decision.state
        command = self.command
        now = stamp(self.context.now)
        if draft.event is Ev.LEASE_ACQUIRED:
            self.lease_fence = draft.facts["fence"]
        event = Event(
            run_id=state.id or draft.payload.get("run_id", ""),
            sequence=state.sequence + 1,
            type=draft.event.value,
            from_status=state.status,
            to_status=str(draft.to),
            attempt=(state.attempt or {}).get("number", state.attempts_started),
            actor=Actor(str(actor.type), actor.id, actor.name),
            fence=self.lease_fence,
            payload=draft.payload,
            facts=copied(draft.facts),  # what it was decided on must not move with the state
            recorded_at=now,
            occurred_at=command.occurred_at or now if parent == 0 else now,
            schema_version=version_of(draft.event),
            id=self.context.new_id("evt"),
            key=command.key if parent == 0 else "",
            fingerprint=request_fingerprint(command) if parent == 0 else "",
            parent=parent,
        )
        self.decision.changes.update(evolve(state, event))
        self.decision.events.append(event)
        return event


def request_fingerprint(command: Command) -> str:
    """What makes two requests the same: the account, the type, and the payload as parsed JSON."""
    return fingerprint([command.caller.account, command.event.value, command.payload])


def first_events(run_id: str, payload: Json, *, not_before: str, facts: Json, context: Context) -> Decision:
    """``run_created`` and ``run_enqueued`` of a new run."""
    state = RunState(id=run_id)
    writer = _Writer(state, Command(Ev.RUN_CREATED, payload, CONTROL_PLANE, ""), context)
    created = Draft(Ev.RUN_CREATED, RunStatus.CREATED, payload, Role.CONTROL_PLANE, facts)
    writer.append(created, OWN_ACTORS[Role.CONTROL_PLANE], parent=0)
    queued = Draft(Ev.RUN_ENQUEUED, RunStatus.QUEUED, {"not_before": not_before}, Role.SCHEDULER)
    writer.append(queued, OWN_ACTORS[Role.SCHEDULER], parent=1)
    return writer.decision
