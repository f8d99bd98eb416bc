"""Decisions, stops, results and clocks at one instant: exactly one wins, and the others are told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from agentplatform.clock import clock_turned_to, database_now
from approvals.models import ApprovalRequest
from approvals.service import approval_decide
from runs import auth, leases, service, timeouts
from runs.domain.commands import Command
from runs.domain.errors import (
    ApprovalClosed,
    ApprovalDecided,
    DirectivePending,
    LeaseLost,
    NotAllowedNow,
    Refusal,
    RunTerminal,
)
from runs.domain.vocabulary import MACHINE_ROLES, Ev, PersonRole, RunStatus
from runs.models import RunEvent
from tests import factories as make
from tests.driver import Driver, failure_of
from tests.race.connections import behind, standing

pytestmark = pytest.mark.django_db(transaction=True)

S = RunStatus
#: Of each of the two kinds of instants.
ROUNDS = [50, pytest.param(500, marks=pytest.mark.long)]


@pytest.fixture
def late_sweep(monkeypatch):
    """The sweep, at a time when every clock has run out; everybody else goes by the present."""
    later = database_now() + timedelta(days=30)
    monkeypatch.setattr(timeouts, "database_now", lambda: later)
    return timeouts.sweep


def planning(driver: Driver) -> None:
    """A new run, held in PLANNING."""
    driver.submit(plan_approval="required")
    driver.claim()
    steps = (Ev.WORKER_STARTED, Ev.SANDBOX_READY, Ev.CONTEXT_READY)
    caller = driver.caller(*MACHINE_ROLES)
    service.apply_batch(
        driver.run_id, [Command(ev, driver.payload(ev), caller, ev, driver.token) for ev in steps]
    )


def posting(driver: Driver, event: Ev, **payload: Any) -> Command:
    """What the worker posts under the token that it has now."""
    return Command(event, payload, driver.caller(*MACHINE_ROLES), "result", driver.token)


def says(request: ApprovalRequest, by: auth.Principal, word: str) -> Any:
    return approval_decide(
        approval_id=request.pk, decision=word, by=by, comment="because",
        version=request.version, subject_sha256=request.subject_sha256,
    )  # fmt: skip


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_all_that_would_leave_a_gate_one_does(rounds, late_sweep):
    driver = Driver.prepared()
    bob, carol = (auth.of_person(make.person(PersonRole.REVIEWER)) for _ in range(2))
    with standing(5) as at_once:
        for _ in range(rounds):
            planning(driver)
            driver.post(Ev.PLAN_CREATED)
            request = ApprovalRequest.objects.get(run_id=driver.run_id)
            command = posting(driver, Ev.MODEL_DECISION, decision="final")
            approved, rejected, cancelled, swept, late = at_once(
                lambda: says(request, bob, "approve"),  # noqa: B023  called before the next round
                lambda: says(request, carol, "reject"),  # noqa: B023
                lambda: driver.direct(Ev.CANCEL_REQUESTED),
                late_sweep,
                lambda: service.apply_event(driver.run_id, command),  # noqa: B023
            )
            assert isinstance(late, LeaseLost | RunTerminal), late
            (move,) = moves(driver)
            for answer, event in ((approved, "approved"), (rejected, "rejected")):
                if move != event:
                    assert isinstance(answer, ApprovalDecided | ApprovalClosed), answer
            assert isinstance(cancelled, service.Outcome | NotAllowedNow), cancelled
            assert [one.error for one in swept if one.error] == []
            assert driver.state.is_terminal or driver.state.status == S.EXECUTING


@pytest.mark.parametrize("first", ["approve", "reject", "cancel", "expiry"])
def test_whoever_comes_second_at_a_gate_waits_and_then_learns(first, late_sweep, owner_connection):
    driver = Driver.prepared()
    planning(driver)
    driver.post(Ev.PLAN_CREATED)
    request = ApprovalRequest.objects.get(run_id=driver.run_id)
    bob, carol = (auth.of_person(make.person(PersonRole.REVIEWER)) for _ in range(2))
    result = posting(driver, Ev.MODEL_DECISION, decision="final")
    acts: dict[str, Callable[[], Any]] = {
        "approve": lambda: says(request, bob, "approve"),
        "reject": lambda: says(request, carol, "reject"),
        "cancel": lambda: driver.direct(Ev.CANCEL_REQUESTED),
        "expiry": late_sweep,
        "result": lambda: service.apply_event(driver.run_id, result),
    }
    others = [name for name in acts if name != first]
    won, *answers = behind(owner_connection, acts[first], *[acts[name] for name in others])
    assert not isinstance(won, Exception)
    told = dict(zip(others, answers, strict=True))
    for name in {"approve", "reject"} - {first}:
        assert isinstance(told[name], ApprovalDecided | ApprovalClosed), told
    assert isinstance(told["result"], LeaseLost | RunTerminal), told
    assert "approval" not in {one.scope for one in told.get("expiry", [])}, told
    events = {
        "approve": "approved",
        "reject": "rejected",
        "cancel": "run_cancelled",
        "expiry": "run_cancelled",
    }
    assert moves(driver) == [events[first]]


def moves(driver: Driver) -> list[str]:
    """The events that led out of a gate; it is left once."""
    left = RunEvent.objects.filter(run_id=driver.run_id, from_status=S.WAITING_FOR_APPROVAL)
    return list(left.exclude(to_status=S.WAITING_FOR_APPROVAL).values_list("event_type", flat=True))


@pytest.mark.parametrize("first", ["result", "cancel", "lease's end"])
def test_whoever_comes_second_at_a_lease_waits_and_then_learns(first, late_sweep, owner_connection):
    driver = Driver.started()
    driver.claim()
    principal = auth.of_worker(driver.worker)
    failed = posting(driver, Ev.NON_RETRYABLE_FAILURE, failure=failure_of("POLICY_DENIED", "denied"))
    acts: dict[str, Callable[[], Any]] = {
        "result": lambda: service.apply_event(driver.run_id, failed),
        "cancel": lambda: driver.direct(Ev.CANCEL_REQUESTED),
        "lease's end": late_sweep,
        "heartbeat": lambda: leases.lease_heartbeat(
            principal=principal, run_id=driver.run_id, token=driver.token
        ),
    }
    ends = {"result": "FAILED", "cancel": "CANCELLED", "lease's end": "EXPIRED"}
    others = [name for name in acts if name != first]
    _, *answers = behind(owner_connection, acts[first], *[acts[name] for name in others])
    told = dict(zip(others, answers, strict=True))
    if first == "cancel":  # it stops the worker: the lease's end then ends the run as it was asked to
        assert isinstance(told["result"], DirectivePending | LeaseLost | RunTerminal), told
        late_sweep()
    else:
        assert isinstance(told["heartbeat"], LeaseLost), told
        assert isinstance(told.get("result", RunTerminal()), LeaseLost | RunTerminal), told
        assert isinstance(told["cancel"], NotAllowedNow), told
    assert driver.state.status == ends[first]


def test_a_heartbeat_in_hand_keeps_the_lease_from_its_end(monkeypatch, owner_connection):
    driver = Driver.started()
    driver.claim()
    now, principal = database_now(), auth.of_worker(driver.worker)
    monkeypatch.setattr(timeouts, "database_now", lambda: now + timedelta(seconds=100))

    def beat() -> leases.Beat:
        with clock_turned_to(now + timedelta(seconds=50)):
            return leases.lease_heartbeat(principal=principal, run_id=driver.run_id, token=driver.token)

    heard, swept = behind(owner_connection, beat, timeouts.sweep)
    assert heard.expires_at > now + timedelta(seconds=100)
    assert swept == []


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_result_a_heartbeat_a_cancel_and_the_leases_end_meet(rounds, late_sweep):
    driver = Driver.prepared()
    principal = auth.of_worker(driver.worker)
    with standing(4) as at_once:
        for _ in range(rounds):
            driver.submit()
            driver.claim()
            failure = failure_of("POLICY_DENIED", "denied")
            command = posting(driver, Ev.NON_RETRYABLE_FAILURE, failure=failure)
            told, beat, cancelled, swept = at_once(
                lambda: service.apply_event(driver.run_id, command),  # noqa: B023
                lambda: leases.lease_heartbeat(principal=principal, run_id=driver.run_id, token=driver.token),
                lambda: driver.direct(Ev.CANCEL_REQUESTED),
                late_sweep,
            )
            types = driver.types()
            recorded = Ev.NON_RETRYABLE_FAILURE in types
            assert isinstance(told, service.Outcome) is recorded, told
            assert isinstance(told, service.Outcome | Refusal), told
            assert isinstance(beat, leases.Beat | LeaseLost), beat
            assert isinstance(cancelled, service.Outcome | NotAllowedNow), cancelled
            assert [one.error for one in swept if one.error] == []
            assert types.count(Ev.LEASE_LOST) <= (0 if recorded else 1)
            late_sweep()
            assert driver.state.is_terminal
