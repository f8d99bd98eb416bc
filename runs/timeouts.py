"""The sweep: what is overdue becomes events, by the database's clock (lifecycle contract, section 10).

Each run in a transaction of its own, looked at again under its lock: a heartbeat, a decision or an event
that came first wins, and nothing is written. A run that cannot be swept is reported and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import QuerySet

from agentplatform.clock import database_now
from agentplatform.stopping import until_asked
from runs import service, store
from runs.domain import clocks
from runs.domain.clocks import Deadline
from runs.domain.commands import CONTROL_PLANE, Caller, Command
from runs.domain.facts import POLICY, Json, stamp
from runs.domain.state import RunState
from runs.domain.vocabulary import TERMINAL, Ev, FailureCategory, Role, RunStatus
from runs.models import Lease, Run

log = structlog.get_logger(__name__)

#: Rows read at a time; every overdue one is visited, so that no number of broken runs starves the rest.
PAGE: Final = 200
#: Clocks of one run that one sweep acts on; more wait for the next.
MOST_PER_RUN: Final = 20

_POLICY: Final = Caller(POLICY.id, POLICY.name, frozenset({Role.POLICY}))


@dataclass(frozen=True, slots=True)
class Swept:
    """One clock that ran out: of which run, its scope, and the event that followed, or what went wrong."""

    run_id: str
    scope: str
    event: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Overdue:
    """A locked run with a clock that has run out."""

    run: Run
    state: RunState
    around: store.Surroundings
    now: datetime
    clock: Deadline


_others: list[Callable[[], list[Swept]]] = []


def also(act: Callable[[], list[Swept]]) -> None:
    """Let the sweep call this, too: a clock that other apps keep."""
    if act not in _others:
        _others.append(act)


def sweep(limit: int | None = None) -> list[Swept]:
    """Act on every overdue lease and run, or on the first ``limit`` of each, and on the clocks of others;
    move campaigns on. Says what was done.

    Calling it twice, or in two processes at once, does nothing twice.
    """
    now = database_now()
    done = list(_safely("", "hold", _cancel_held))
    done += _safely("", "breaker", _trip_breakers)
    leases = Lease.objects.filter(ended_at__isnull=True, expires_at__lte=now).order_by("expires_at", "pk")
    for run_id in until_asked(_ids(leases, "run_id", limit)):
        done += _safely(run_id, "lease", lambda run_id: [_lose_lease(run_id)])
    runs = Run.objects.filter(expires_at__lte=now).exclude(status__in=[s.value for s in TERMINAL])
    for run_id in until_asked(_ids(runs.order_by("expires_at", "pk"), "pk", limit)):
        done += _safely(run_id, "run", _act_on_clocks)
    for act in until_asked(_others):
        done += act()
    for campaign_id in service.unfinished_campaigns():
        done += _safely(campaign_id, "campaign", _advance)
    return done


def _ids(rows: QuerySet, name: str, limit: int | None) -> list[str]:
    """Read before the first is acted on: acting changes what the query would find."""
    return list(rows.values_list(name, flat=True)[:limit].iterator(chunk_size=PAGE))


def _safely(run_id: str, scope: str, act: Callable[[str], list[Swept | None]]) -> Iterator[Swept]:
    try:
        yield from filter(None, act(run_id))
    except Exception as error:
        log.exception("sweep_failed", run_id=run_id, scope=scope)
        yield Swept(run_id, scope, error=f"{type(error).__name__}: {error}"[:500])


def _cancel_held(_: str) -> list[Swept | None]:
    return [Swept(run_id, "hold", Ev.CANCEL_REQUESTED.value) for run_id in service.cancel_held_runs()]


def _trip_breakers(_: str) -> list[Swept | None]:
    return [Swept(hold.target, "breaker", "hold_set") for hold in service.trip_breakers()]


def _advance(campaign_id: str) -> list[Swept | None]:
    events = service.campaign_advance(campaign_id=campaign_id)
    return [Swept(campaign_id, "campaign", event.type) for event in events]


# --- leases ---------------------------------------------------------------------------------------


@transaction.atomic
def _lose_lease(run_id: str) -> Swept | None:
    """``lease_lost``; its follow-ups make the run claimable again, cancel or expire it."""
    run = store.lock_run(run_id)
    # After the run's lock: a heartbeat or a takeover may have happened while we waited.
    lease = store.active_lease(run_id)
    if lease is None or lease.expires_at > database_now():
        return None
    scope = "lease" if run.status == RunStatus.LEASED else "heartbeat"
    payload = {
        "scope": scope,
        "limit_seconds": int((lease.expires_at - lease.heartbeat_at).total_seconds()),
        "since": stamp(lease.heartbeat_at),
    }
    service.apply_event(run_id, Command(Ev.LEASE_LOST, payload, CONTROL_PLANE, key=""))
    return Swept(run_id, scope, Ev.LEASE_LOST.value)


# --- every other clock ----------------------------------------------------------------------------


def _act_on_clocks(run_id: str) -> list[Swept | None]:
    done: list[Swept | None] = []
    while len(done) < MOST_PER_RUN and (swept := _act_on_first_clock(run_id)):
        done.append(swept)
    return done


@transaction.atomic
def _act_on_first_clock(run_id: str) -> Swept | None:
    run = store.lock_run(run_id)
    now = database_now()
    state, around = RunState.from_json(run.state), store.surroundings(run)
    found = clocks.deadlines(state, around.contract, around.policy.values)
    if found and found[0].scope == "queue" and found[0].at <= now:
        found = _less_held_time(run, state, around, found[0], now)
    due = [clock for clock in found if clock.at <= now]
    if not due:
        _set_clock(run, found)
        return None
    command = _ACTIONS[due[0].scope](_Overdue(run, state, around, now, due[0]))
    service.apply_event(run_id, command)
    return Swept(run_id, due[0].scope, command.event.value)


def _less_held_time(
    run: Run, state: RunState, around: store.Surroundings, clock: Deadline, now: datetime
) -> list[Deadline]:
    """While a hold or a spend cap stands, the clock of the queue stands, too."""
    within = timedelta(seconds=clock.limit_seconds)
    policy = around.policy.values
    held_until = service.held_back_until(run, policy, now=now, within=within)
    return clocks.deadlines(state, around.contract, policy, held_until=held_until)


def _set_clock(run: Run, found: list[Deadline]) -> None:
    """A policy or a hold that came since the last event moves the clock: look again when it runs out now."""
    expires_at = found[0].at if found else None
    if run.expires_at != expires_at:
        Run.objects.filter(pk=run.pk).update(expires_at=expires_at)


def _said(clock: Deadline) -> Json:
    return {"scope": clock.scope, "limit_seconds": clock.limit_seconds, "since": stamp(clock.since)}


def _failure(category: FailureCategory, reason: str, summary: str) -> Json:
    return {"category": category.value, "reason": reason, "summary": summary, "retryable": None}


def _time_out(overdue: _Overdue) -> Command:
    return Command(Ev.TIMEOUT, _said(overdue.clock), CONTROL_PLANE, key="")


def _end_step(overdue: _Overdue) -> Command:
    payload = {
        "operation_id": overdue.clock.operation_id,
        "outcome": "timed_out",
        "summary": f"No result within {overdue.clock.limit_seconds} s.",
        **_said(overdue.clock),
    }
    return Command(Ev.TOOL_COMPLETED, payload, CONTROL_PLANE, key="")


def _end_attempt(overdue: _Overdue) -> Command:
    """With the lease: whoever holds it did not end in time, and would go on in the old workspace."""
    if overdue.state.attempt is None:
        reason = f"Nothing was reported for {overdue.clock.limit_seconds} s."
        payload = {"reason": reason, **_said(overdue.clock)}
        return Command(Ev.LEASE_RELEASED, payload, CONTROL_PLANE, key="", facts={"withdrawn": True})
    summary = f"The attempt took longer than {overdue.clock.limit_seconds} s."
    failure = _failure(FailureCategory.TOOL_FAILED, "attempt_timeout", summary)
    payload = {"outcome": "failed", "failure": failure, **_said(overdue.clock)}
    return Command(Ev.ATTEMPT_FINISHED, payload, CONTROL_PLANE, key="", facts={"withdraw": True})


def _force_cancel(overdue: _Overdue) -> Command:
    note = f"The worker did not answer within {overdue.clock.limit_seconds} s."
    payload = {"cleanup": "unknown", "note": note, **_said(overdue.clock)}
    return Command(Ev.RUN_CANCELLED, payload, CONTROL_PLANE, key="")


def _force_pause(overdue: _Overdue) -> Command:
    reason = f"It did not pause within {overdue.clock.limit_seconds} s."
    payload = {"reason": reason, **_said(overdue.clock)}
    return Command(Ev.LEASE_RELEASED, payload, CONTROL_PLANE, key="")


def _end_approval(overdue: _Overdue) -> Command:
    """What the policy said when the request was opened; nothing approves by itself."""
    gate = overdue.state.gate or {}
    wanted = gate.get("on_timeout") or overdue.around.policy.values["on_approval_timeout"]
    if wanted == "escalate":
        return _escalate(overdue)
    why = f"Nobody decided at the {gate.get('gate')} gate by {overdue.clock.at:%Y-%m-%d %H:%M} UTC."
    if wanted == "cancel":
        return Command(Ev.CANCEL_REQUESTED, {"reason": why, **_said(overdue.clock)}, _POLICY, key="")
    failure = {**_failure(FailureCategory.POLICY_DENIED, "approval_timeout", why), "retryable": False}
    return Command(Ev.NON_RETRYABLE_FAILURE, {"failure": failure}, _POLICY, key="")


def _escalate(overdue: _Overdue) -> Command:
    state = overdue.state
    facts = {
        "guards": state.guards,
        "effective_risk": state.effective_risk,
        "policy_version": overdue.around.policy.version,
        "escalated": True,
    }
    return Command(Ev.POLICY_EVALUATED, _said(overdue.clock), _POLICY, key="", facts=facts)


_ACTIONS: Final[dict[str, Callable[[_Overdue], Command]]] = {
    "queue": _time_out,
    "run": _time_out,
    "step": _end_step,
    "attempt": _end_attempt,
    "cancel": _force_cancel,
    "pause": _force_pause,
    "approval": _end_approval,
}
