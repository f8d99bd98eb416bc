"""Everybody writes to the same runs, each in an order of their own: nobody waits in a circle."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import OperationalError
from django.db.models import F

from runs import auth, leases, service, timeouts
from runs.domain.errors import NotAllowedNow, Refusal
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Lease, Run
from tests import factories
from tests.race.connections import at_once, behind

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("count", "workers"), [(16, 4), pytest.param(500, 20, marks=pytest.mark.long)])
def test_a_bulk_cancel_workers_and_the_sweep_never_wait_in_a_circle(count, workers, owner_connection):
    where = factories.repository(policy={"max_concurrent_runs": max(count // 2, workers)})
    asker, operator = (factories.person(role) for role in (PersonRole.SUBMITTER, PersonRole.OPERATOR))
    tasks = sorted((factories.task(where, asker).pk for _ in range(count)), reverse=True)
    machines = [factories.worker() for _ in range(workers)]
    over = threading.Event()

    def cancel_all() -> None:
        by = auth.of_person(operator).caller
        try:
            for task_id in tasks:
                with contextlib.suppress(NotAllowedNow):  # it used up its runs meanwhile
                    patiently(partial(service.task_cancel, task_id=task_id, reason="all", by=by))
        finally:
            over.set()

    def sweep() -> None:
        while not over.is_set():
            assert [one.error for one in timeouts.sweep() if one.error] == []

    before = deadlocks(owner_connection)
    answers = at_once(cancel_all, sweep, *[working(machine) for machine in machines])
    assert answers == [None] * len(answers)
    assert deadlocks(owner_connection) == before
    let_all_end()
    assert set(Run.objects.values_list("status", flat=True)) <= {RunStatus.CANCELLED, RunStatus.EXPIRED}


def patiently(action: Callable[[], Any]) -> Any:
    """What a caller does who is told 503 because a lock was not to be had in time: it asks again."""
    while True:
        try:
            return action()
        except OperationalError as error:
            if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise


def working(machine: factories.Machine) -> Callable[[], None]:
    """Claims, lives, works and dies, run after run, until there is nothing to claim."""

    def work() -> None:
        while claim := patiently(lambda: leases.lease_claim(principal=machine.principal)):
            holder = factories.Holder(machine, claim.run.pk, claim.token)
            with contextlib.suppress(Refusal):  # cancelled meanwhile
                patiently(partial(leases.lease_heartbeat, principal=machine.principal, run_id=holder.run_id,
                                  token=holder.token))  # fmt: skip
                patiently(holder.start)
                patiently(holder.prepare)
            lapse(Lease.objects.filter(pk=claim.lease.pk))

    return work


def lapse(held: Any) -> None:
    held.update(expires_at=F("expires_at") - timedelta(hours=1))


def let_all_end() -> None:
    lapse(Lease.objects.filter(ended_at=None))
    timeouts.sweep()


def deadlocks(owner: psycopg.Connection) -> int:
    """How many this database has ever had; the sessions that were in one have ended and told."""
    row = owner.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_retry_pressed_twice_is_one_run(owner_connection: psycopg.Connection):
    holder = factories.run_in(RunStatus.PREPARING)
    failure = {"category": "UNKNOWN", "reason": "odd", "summary": "Nobody knows."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    by = auth.of_person(holder.run.task.created_by).caller

    def retry() -> Any:
        return service.task_retry(task_id=holder.run.task_id, by=by)

    _, second = behind(owner_connection, retry, retry)
    assert isinstance(second, Refusal)
    assert Run.objects.filter(task_id=holder.run.task_id).count() == 2
