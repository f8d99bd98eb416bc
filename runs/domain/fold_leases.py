"""What leases change in a run: who holds it, time under a lease, work that died with a sandbox
(lifecycle contract, sections 8, 11 and 12)."""

from __future__ import annotations

from typing import Final

from runs.domain import fold_work as work
from runs.domain.facts import Event, Json, moment
from runs.domain.state import Changes, RunState
from runs.domain.vocabulary import OWNER, Ev, RunStatus

#: Events that end a lease whatever the status.
ENDING: Final = frozenset({Ev.LEASE_LOST, Ev.LEASE_RELEASED, Ev.RUN_INTERRUPTED, Ev.PR_CREATION_FAILED})


def end_if_due(state: RunState, event: Event) -> None:
    """A status that the holder's roles do not own ends its lease (lifecycle contract, section 11)."""
    if state.holder is None:
        return
    owned = OWNER[RunStatus(state.status)] in state.holder["roles"]
    if owned and event.type not in ENDING:
        # Whoever judged and keeps its lease may talk to the provider from here on (section 9).
        state.pr_begun = state.pr_begun or state.status == RunStatus.PR_CREATING
        return
    state.holder = None
    state.idle_since = event.recorded_at
    _lose_unsaved(state)
    _count_active_time(state, event)


def _lose_unsaved(state: RunState) -> None:
    """Workspace work since the last checkpoint died with its sandbox (section 12)."""
    state.lost = [*state.lost, *(op for op in state.unsaved if op not in state.lost)]
    state.unsaved = []


def _count_active_time(state: RunState, event: Event) -> None:
    """Time under a lease, of run and attempt; what is spent waiting or paused counts for neither."""
    if not state.active_since:
        return
    now = moment(event.recorded_at)
    for clock, since in ((state.used, state.active_since), (state.attempt, _attempt_since(state))):
        if clock is not None:
            spent = max((now - moment(since)).total_seconds(), 0.0)
            clock["active_seconds"] = round(clock["active_seconds"] + spent, 3)
    state.active_since = ""


def _attempt_since(state: RunState) -> str:
    begun: str = (state.attempt or {}).get("started_at", "")
    return max(state.active_since, begun)


def acquired(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.fence = event.fence
    state.holder = {
        "lease_id": facts["lease_id"],
        "worker_id": event.actor.id,
        "worker_name": event.actor.name,
        "roles": list(facts["roles"]),
        "since": event.recorded_at,
        "progressed": False,
    }
    state.worker_id, state.worker_name = event.actor.id, event.actor.name
    state.active_since = event.recorded_at
    state.started_at = state.started_at or event.recorded_at
    state.not_before = ""
    state.pr_begun = state.pr_begun or event.to_status == RunStatus.PR_CREATING
    if state.directive_info:
        state.directive_info["seen_at"] = ""


def ended(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    """Another worker must begin: what counts against ``max_takeovers`` (section 8)."""
    state.not_before = facts.get("not_before") or state.not_before
    idle_release = event.type == Ev.LEASE_RELEASED and not (state.holder or {}).get("progressed", True)
    if event.type == Ev.LEASE_LOST or idle_release or facts.get("withdrawn"):
        state.used["takeovers"] += 1


def interrupted(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    if checkpoint := facts.get("checkpoint"):
        work.save_checkpoint(state, {**checkpoint, "base_commit": state.base_commit})
    ended(state, event, payload, facts, changes)
