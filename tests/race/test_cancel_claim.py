"""Cancel and claim at one instant: one of two histories, never a third."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import transaction

from runs import auth, leases, service, store
from runs.domain.vocabulary import Directive, Ev, RunStatus
from runs.models import Run, Task
from tests import factories as make
from tests.driver import Driver
from tests.race.connections import at_once, behind

pytestmark = pytest.mark.django_db(transaction=True)


def _race(driver: Driver) -> tuple[Any, Any]:
    principal = auth.of_worker(driver.worker)
    cancelled, claimed = at_once(
        lambda: driver.direct(Ev.CANCEL_REQUESTED),
        lambda: leases.lease_claim(principal=principal),
    )
    return cancelled, claimed


def _check_round(driver: Driver) -> str:
    cancelled, claimed = _race(driver)
    assert isinstance(cancelled, service.Outcome), cancelled
    types = driver.types()[2:]
    if claimed is None:
        assert types == [Ev.CANCEL_REQUESTED, Ev.RUN_CANCELLED]
        assert driver.state.status == RunStatus.CANCELLED
        return "cancel first"
    assert isinstance(claimed, leases.Claim), claimed
    assert types == [Ev.LEASE_ACQUIRED, Ev.CANCEL_REQUESTED]
    beat = leases.lease_heartbeat(
        principal=auth.of_worker(driver.worker), run_id=driver.run_id, token=claimed.token
    )
    assert beat.directive == Directive.CANCEL
    driver.token = claimed.token
    driver.post(Ev.RUN_CANCELLED)
    assert driver.state.status == RunStatus.CANCELLED
    return "claim first"


@pytest.mark.parametrize("rounds", [25, pytest.param(500, marks=pytest.mark.long)])
def test_cancel_and_claim_never_both_win(rounds):
    driver = Driver.prepared()
    seen = set()
    for _ in range(rounds):
        driver.submit()
        seen.add(_check_round(driver))
    assert seen <= {"cancel first", "claim first"}


def test_a_cancel_waits_for_the_claim_in_hand(owner_connection: psycopg.Connection):
    driver = Driver.started()
    claim, cancelled = behind(
        owner_connection,
        lambda: leases.lease_claim(principal=auth.of_worker(driver.worker)),
        lambda: driver.direct(Ev.CANCEL_REQUESTED),
    )
    assert claim is not None
    assert cancelled.state.status == RunStatus.LEASED
    assert cancelled.state.directive == Directive.CANCEL


def test_a_claim_passes_over_a_run_that_is_in_hand():
    driver = Driver.started()
    with transaction.atomic():
        store.lock_run(driver.run_id)
        principal = auth.of_worker(driver.worker)
        (claimed,) = at_once(lambda: leases.lease_claim(principal=principal))
        assert claimed is None


def test_a_cancel_never_takes_the_lock_of_a_new_run_after_its_tasks(monkeypatch: pytest.MonkeyPatch):
    """Between the look at the latest run and its lock, somebody retries: then that run's lock comes first."""
    holder = make.run_in(RunStatus.PREPARING)
    failure = {"category": "UNKNOWN", "reason": "clone_failed", "summary": "It did not work."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    task_id, by = holder.run.task_id, auth.of_person(holder.run.task.created_by).caller
    locked: list[str] = []
    lock_run, lock_task = store.lock_run, store.lock_task

    def lock_later(run_id: str) -> Run:
        if not locked:
            locked.append(run_id)
            at_once(lambda: service.task_retry(task_id=task_id, by=by))
        locked.append(run_id)
        return lock_run(run_id)

    def note_task(task_id: str) -> Task:
        locked.append(task_id)
        return lock_task(task_id)

    monkeypatch.setattr(store, "lock_run", lock_later)
    monkeypatch.setattr(store, "lock_task", note_task)
    service.task_cancel(task_id=task_id, reason="x", by=by)
    task = Task.objects.get(pk=task_id)
    assert task.latest_run_id != holder.run_id
    after = locked[locked.index(task.latest_run_id) :]
    assert after.index(task.latest_run_id) < after.index(task.pk)
    assert Run.objects.get(pk=task.latest_run_id).status == RunStatus.CANCELLED
