"""Every clock of the contract, turned by hand: a second early nothing moves, in time one thing does.

Meanwhile the holder sends its heartbeats as it should: none of them moves another clock, and the sweep leaves
what lives alone (lifecycle contract, section 10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from agentplatform.clock import clock_turned_to, database_now
from runs import auth, leases, service, timeouts
from runs.domain.facts import Json
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from tests import factories

pytestmark = pytest.mark.django_db

S = RunStatus
BEAT = timedelta(seconds=55)


def call(holder: factories.Holder) -> None:
    holder.post(Ev.TOOL_REQUESTED, operation_id="a", tool="shell", arguments={}, label="build")


def asked(event: Ev) -> Callable[[factories.Holder], None]:
    def ask(holder: factories.Holder) -> None:
        by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
        service.run_direct(run_id=holder.run_id, event=event, reason="because", by=by)

    return ask


def given_back(holder: factories.Holder) -> None:
    holder.post(Ev.LEASE_RELEASED)


def nothing(holder: factories.Holder) -> None:
    """As it stands."""


@dataclass(frozen=True)
class Clock:
    """A row of the contract: over what, how long by default, and what follows."""

    name: str
    status: RunStatus
    seconds: int
    scope: str
    events: tuple[Ev, ...]
    then: RunStatus
    begin: Callable[[factories.Holder], None] = nothing
    beats: bool = True
    policy: Json = field(default_factory=dict)
    contract: Json = field(default_factory=dict)


DAY, HOUR = 86_400, 3_600
CLOCKS = [
    Clock(
        "queue of a begun run", S.VERIFYING, DAY, "queue", (Ev.TIMEOUT, Ev.RETRY_DECLINED), S.EXPIRED,
        given_back, beats=False,
    ),
    Clock(
        "lease", S.LEASED, 60, "lease", (Ev.LEASE_LOST, Ev.TIMEOUT, Ev.RETRY_SCHEDULED), S.EXPIRED,
        beats=False,
    ),
    Clock("heartbeat", S.PLANNING, 60, "heartbeat", (Ev.LEASE_LOST,), S.PLANNING, beats=False),
    Clock(
        "heartbeat beyond max_takeovers", S.PLANNING, 60, "heartbeat",
        (Ev.LEASE_LOST, Ev.TIMEOUT, Ev.RETRY_SCHEDULED), S.EXPIRED, beats=False,
        contract={"budget": {"max_takeovers": 0}},
    ),
    Clock("step", S.EXECUTING, 900, "step", (Ev.TOOL_COMPLETED,), S.EXECUTING, call),
    Clock(
        "attempt", S.EXECUTING, HOUR, "attempt",
        (Ev.ATTEMPT_FINISHED, Ev.ATTEMPT_STARTED, Ev.LEASE_RELEASED), S.EXECUTING,
    ),
    Clock(
        "attempt, the last one", S.EXECUTING, HOUR, "attempt",
        (Ev.ATTEMPT_FINISHED, Ev.NON_RETRYABLE_FAILURE, Ev.RETRY_SCHEDULED), S.FAILED,
        contract={"budget": {"max_attempts": 1}},
    ),
    Clock("attempt of a silent holder", S.PREPARING, HOUR, "attempt", (Ev.LEASE_RELEASED,), S.PREPARING),
    Clock(
        "run", S.EXECUTING, 1_800, "run", (Ev.TIMEOUT, Ev.RETRY_DECLINED), S.FAILED,
        contract={"budget": {"max_duration_seconds": 1_800}},
    ),
    Clock(
        "approval that cancels", S.WAITING_FOR_APPROVAL, 3 * DAY, "approval",
        (Ev.CANCEL_REQUESTED, Ev.RUN_CANCELLED), S.CANCELLED, beats=False,
    ),
    Clock(
        "approval that fails", S.WAITING_FOR_APPROVAL, 3 * DAY, "approval",
        (Ev.NON_RETRYABLE_FAILURE, Ev.RETRY_DECLINED), S.FAILED, beats=False,
        policy={"on_approval_timeout": "fail"},
    ),
    Clock(
        "approval that escalates", S.WAITING_FOR_APPROVAL, 3 * DAY, "approval",
        (Ev.POLICY_EVALUATED,), S.WAITING_FOR_APPROVAL, beats=False,
        policy={"on_approval_timeout": "escalate"},
    ),
    Clock(
        "cancel", S.EXECUTING, 60, "cancel", (Ev.RUN_CANCELLED,), S.CANCELLED, asked(Ev.CANCEL_REQUESTED)
    ),
    Clock("pause", S.EXECUTING, 600, "pause", (Ev.LEASE_RELEASED,), S.EXECUTING, asked(Ev.PAUSE_REQUESTED)),
]  # fmt: skip


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: clock.name)
def test_a_clock_moves_nothing_early_and_one_thing_in_time(clock: Clock):
    start = database_now() - timedelta(days=30)
    with clock_turned_to(start):
        where = factories.repository(policy=clock.policy)
        holder = factories.run_in(clock.status, where=where, **clock.contract)
        clock.begin(holder)
    due = start + timedelta(seconds=clock.seconds)
    if clock.beats:
        beat_until(holder, start, due)
    before = types_of(holder)
    with clock_turned_to(due - timedelta(seconds=1)):
        assert swept() == []
    with clock_turned_to(due):
        assert swept() == [(holder.run_id, clock.scope, clock.events[0])]
        assert types_of(holder)[len(before) :] == list(clock.events)
        assert swept() == [], "once"
    assert holder.run.status == clock.then


def test_a_run_that_nobody_claims_waits_from_the_end_of_its_backoff():
    start = database_now() - timedelta(days=30)
    with clock_turned_to(start):
        run = factories.queued_run()
    with clock_turned_to(start + timedelta(seconds=DAY - 1)):
        assert swept() == []
    with clock_turned_to(start + timedelta(seconds=DAY)):
        assert swept() == [(run.pk, "queue", Ev.TIMEOUT)]


def beat_until(holder: factories.Holder, start: datetime, due: datetime) -> None:
    """Every heartbeat is answered and makes the lease live longer; the sweep finds nothing to do."""
    now, expires_at = start, start
    while (now := min(now + BEAT, due - timedelta(seconds=1))) < due - timedelta(seconds=1):
        expires_at = beat(holder, now, expires_at)
    beat(holder, now, expires_at)


def beat(holder: factories.Holder, now: datetime, before: datetime) -> datetime:
    with clock_turned_to(now):
        principal = holder.machine.principal
        found = leases.lease_heartbeat(principal=principal, run_id=holder.run_id, token=holder.token)
    assert found.expires_at > before
    return found.expires_at


def swept() -> list[tuple[str, str, str]]:
    """What the sweep did to runs; reminders of open requests are another clock's."""
    done = timeouts.sweep()
    assert [one.error for one in done if one.error] == []
    return [(one.run_id, one.scope, one.event) for one in done if one.scope in SCOPES]


SCOPES: Any = {clock.scope for clock in CLOCKS}


def types_of(holder: factories.Holder) -> list[str]:
    return list(holder.run.events.order_by("sequence").values_list("event_type", flat=True))
