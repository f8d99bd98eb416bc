"""Every status, event and role, through the service: exactly the cells of the table are taken."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from agentplatform.ids import new_id
from runs import auth, leases, service
from runs.domain.commands import Command
from runs.domain.errors import (
    ActorNotAllowed,
    IllegalTransition,
    LeaseLost,
    Refusal,
    RunTerminal,
)
from runs.domain.table import CLAIM_EVENTS, PEOPLE_EVENTS, cell, posting_roles
from runs.domain.vocabulary import (
    CLAIMABLE,
    LEASED_STATUSES,
    MACHINE_ROLES,
    TERMINAL,
    CompletionMode,
    Directive,
    Ev,
    Role,
    RunStatus,
)
from runs.models import RunEvent
from runs.service import runs as running
from tests.driver import Driver

pytestmark = pytest.mark.django_db

Wanted = type[Refusal] | None


def wanted_answer(event: Ev, status: RunStatus, role: Role) -> Wanted:
    """The refusal by the contract's order of checks; None where the table has the cell for the role."""
    machine = role in MACHINE_ROLES
    row = cell(event, status)
    allowed = row.roles_in(status) if row else posting_roles(event)
    if role not in allowed or (machine and event in PEOPLE_EVENTS | CLAIM_EVENTS):
        return ActorNotAllowed
    if status in TERMINAL:
        return None if row else RunTerminal
    if machine and status not in LEASED_STATUSES:
        return LeaseLost
    return None if row else IllegalTransition


def _prepare(driver: Driver, event: Ev, role: Role) -> None:
    """What must have happened before a machine may post this event at all."""
    if event is Ev.RUN_CANCELLED and role in MACHINE_ROLES:
        driver.direct(Ev.CANCEL_REQUESTED)
    elif event is Ev.RUN_INTERRUPTED:
        driver.direct(Ev.PAUSE_REQUESTED)
    elif event is Ev.TOOL_COMPLETED:
        driver.post(Ev.TOOL_REQUESTED)
    elif event is Ev.RUN_RESUMED and driver.state.status != RunStatus.PR_CREATED:
        driver.direct(Ev.PAUSE_REQUESTED)


def _trace(run_id: str) -> tuple[object, ...]:
    """The run's row as it lies in the database, and how much is in the logs and the outbox."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r::text, (SELECT count(*) FROM run_events), (SELECT count(*) FROM task_events),"
            " (SELECT count(*) FROM outbox) FROM runs r WHERE id = %s",
            [run_id],
        )
        found: tuple[object, ...] = cursor.fetchone()
    return found


def _driver_for(event: Ev, plain: Driver, analysis: Driver | None) -> Driver:
    return analysis if analysis and event is Ev.REPORT_CREATED else plain


@pytest.mark.parametrize("status", list(RunStatus))
def test_exactly_the_cells_of_the_table_are_taken(status: RunStatus):
    plain = Driver.at(status)
    mode = CompletionMode.ANALYSIS_REPORT_CREATED.value
    analysis = Driver.at(status, completion_mode=mode) if status is RunStatus.EXECUTING else None
    traces = {driver.run_id: _trace(driver.run_id) for driver in (plain, analysis) if driver}
    for event in Ev:
        driver = _driver_for(event, plain, analysis)
        with transaction.atomic():
            payload, facts = driver.payload(event), driver.facts(event)
            # The run is locked and read once for all refusals of an event; the last one goes the whole way.
            hand = running._take(driver.run_id, [])
            for role in Role:
                wanted = wanted_answer(event, status, role)
                if wanted is None:
                    _check_taken(driver, event, role)
                    continue
                command = Command(event, payload, driver.caller(role), "", driver.token, facts=facts)
                with pytest.raises(Refusal) as refused:
                    running._apply(hand, command)
                assert type(refused.value) is wanted, (status, event, role, refused.value)
            with pytest.raises(Refusal):
                service.apply_event(driver.run_id, command)
            assert _trace(driver.run_id) == traces[driver.run_id], (
                f"{event} left something behind in {status}"
            )
            transaction.set_rollback(True)


def _check_taken(driver: Driver, event: Ev, role: Role) -> None:
    """The event is appended as the next, by this role, and leads where the table says; then undone."""
    with transaction.atomic():
        _prepare(driver, event, role)
        before = driver.state
        row = cell(event, before.run_status)
        assert row is not None
        outcome = driver.post(event, role=role)
        stored = RunEvent.objects.get(run_id=driver.run_id, sequence=before.sequence + 1)
        assert (stored.event_type, stored.actor_type) == (event, role)
        assert stored.from_status == before.status
        assert stored.to_status in row.targets_from(before.run_status)
        assert outcome.event is not None
        assert outcome.event.id == stored.pk
        transaction.set_rollback(True)


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_claim_takes_exactly_what_its_role_owns(status: RunStatus):
    driver = Driver.at(status)
    if driver.state.holder and status is not RunStatus.LEASED:
        driver.post(Ev.LEASE_RELEASED)
    for role in MACHINE_ROLES:
        with transaction.atomic():
            claim = leases.lease_claim(principal=auth.of_worker(driver.worker), roles=[role.value])
            if CLAIMABLE.get(status) is role:
                assert claim is not None
                assert claim.run.pk == driver.run_id
                assert driver.types()[-1] == Ev.LEASE_ACQUIRED
                assert driver.state.status == ("LEASED" if status is RunStatus.QUEUED else status)
            else:
                # What was expired may have been tried again, and the backoff may be over by now.
                assert claim is None or claim.run.attempt_no > 1, role
            transaction.set_rollback(True)


def test_a_paused_run_is_not_claimed_before_it_is_resumed():
    driver = Driver.started()
    driver.direct(Ev.PAUSE_REQUESTED)
    principal = auth.of_worker(driver.worker)
    assert leases.lease_claim(principal=principal) is None
    driver.direct(Ev.RUN_RESUMED)
    assert leases.lease_claim(principal=principal) is not None


@pytest.mark.parametrize("status", sorted(LEASED_STATUSES))
def test_a_wrong_token_moves_nothing(status: RunStatus):
    driver = Driver.at(status)
    before = _trace(driver.run_id)
    roles = driver.caller(*MACHINE_ROLES)
    for event in (Ev.TOOL_REQUESTED, Ev.NON_RETRYABLE_FAILURE, Ev.LEASE_RELEASED):
        for token in ("", "lease_x.y", driver.token[:-1]):
            command = Command(event, driver.payload(event), roles, new_id("key"), token)
            with pytest.raises(LeaseLost) as refused:
                service.apply_event(driver.run_id, command)
            assert refused.value.extra["fence"] == driver.state.fence
    assert _trace(driver.run_id) == before


def test_the_same_directive_again_is_no_event():
    driver = Driver.at(RunStatus.EXECUTING)
    driver.direct(Ev.PAUSE_REQUESTED)
    before = driver.types()
    outcome = driver.direct(Ev.PAUSE_REQUESTED)
    assert outcome.event is None
    assert outcome.state.directive == Directive.PAUSE
    assert driver.types() == before
