"""Decisions, stops, results and clocks at one instant: exactly one wins, and the others are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentplatform.clock import database_now
from approvals.models import ApprovalRequest
from approvals.service import approval_decide
from runs import auth, leases, service, timeouts
from runs.domain.commands import Command
from runs.domain.errors import ApprovalClosed, ApprovalDecided, LeaseLost, NotAllowedNow, Refusal, RunTerminal
from runs.domain.vocabulary import MACHINE_ROLES, Ev, PersonRole, RunStatus
from runs.models import RunEvent
from tests import factories as make
from tests.driver import Driver, failure_of
from tests.race.connections import standing

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
            left = RunEvent.objects.filter(run_id=driver.run_id, from_status=S.WAITING_FOR_APPROVAL)
            (move,) = left.exclude(to_status=S.WAITING_FOR_APPROVAL)
            for answer, event in ((approved, "approved"), (rejected, "rejected")):
                if move.event_type != event:
                    assert isinstance(answer, ApprovalDecided | ApprovalClosed), answer
            assert isinstance(cancelled, service.Outcome | NotAllowedNow), cancelled
            assert [one.error for one in swept if one.error] == []
            assert driver.state.is_terminal or driver.state.status == S.EXECUTING


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
