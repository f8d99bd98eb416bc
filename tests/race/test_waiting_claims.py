"""Who waits for a run, or for the next event, is woken by it and holds no connection meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import psycopg
import pytest
from django.db import connection

from agentplatform import stopping
from agentplatform.clock import database_now
from runs import bell as bells
from runs import leases, store
from runs.api import waiting
from runs.domain.vocabulary import Ev, Role, RunStatus
from runs.models import RunEvent, RunWatch
from runs.store import BELL
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

T = TypeVar("T")
AN_HOUR = 3_600.0


@pytest.fixture
def asked_by_bell_alone(monkeypatch):
    monkeypatch.setattr(leases, "ASK_AGAIN_SECONDS", AN_HOUR)
    monkeypatch.setattr(bells, "ASK_AGAIN_SECONDS", AN_HOUR)


def waiting_claim(machine: factories.Machine) -> Callable[[], leases.Claim | None]:
    """Begins to wait in a thread; the answer is there when the returned function is called."""
    principal = machine.principal
    return in_a_thread(
        lambda: waiting.wait_for(
            lambda: leases.lease_claim(principal=principal),
            seconds=30,
            begin=lambda: leases.begin_waiting(principal=principal),
        )
    )


def in_a_thread(wait: Callable[[], waiting.Found[T]]) -> Callable[[], T]:
    answers: list[T] = []

    def work() -> None:
        try:
            answers.append(wait().answer)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()

    def answer() -> T:
        thread.join(25)
        assert answers, "nobody woke it"
        return answers[0]

    return answer


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(2_000):
        if holds():
            return
        pause.wait(0.005)
    raise AssertionError("it should have happened by now")


def is_waiting() -> bool:
    return bells.bell._waiting > 0


@pytest.mark.usefixtures("asked_by_bell_alone")
def test_a_new_run_wakes_who_waits_for_it():
    machine, where = factories.worker(), factories.repository()
    answer = waiting_claim(machine)
    until(is_waiting)
    run = factories.queued_run(where)
    claim = answer()
    assert claim is not None
    assert claim.run.pk == run.pk


@pytest.mark.usefixtures("asked_by_bell_alone")
def test_a_hand_over_wakes_the_next_role():
    holder = factories.run_in(RunStatus.EXECUTING, machine=factories.worker(Role.WORKER, Role.AGENT_RUNTIME))
    answer = waiting_claim(factories.worker(Role.VERIFIER))
    until(is_waiting)
    holder.hand_in()
    claim = answer()
    assert claim is not None
    assert claim.run.pk == holder.run_id


@pytest.mark.usefixtures("asked_by_bell_alone")
def test_a_place_that_becomes_free_wakes_the_next_run():
    where = factories.repository(policy={"max_concurrent_runs": 1})
    holder = factories.run_in(RunStatus.EXECUTING, where=where, completion_mode="patch_ready_for_review")
    following = factories.queued_run(where)
    answer = waiting_claim(factories.worker())
    until(is_waiting)
    failure = {"category": "POLICY_DENIED", "reason": "denied", "summary": "no"}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    claim = answer()
    assert claim is not None
    assert claim.run.pk == following.pk


@pytest.mark.usefixtures("asked_by_bell_alone")
def test_who_waits_holds_no_connection_but_the_bells_one(owner_connection: psycopg.Connection):
    machine, where = factories.worker(), factories.repository()
    connection.close()
    clients = (
        "SELECT pid, query FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    before = {pid for pid, _ in owner_connection.execute(clients)}  # what other tests left open is not meant
    answer = waiting_claim(machine)
    before.add(connection.connection.info.backend_pid)

    def only_the_bell() -> bool:
        found = {query for pid, query in owner_connection.execute(clients) if pid not in before}
        return is_waiting() and found <= {f"LISTEN {BELL}"}

    until(only_the_bell)
    factories.queued_run(where)
    assert answer() is not None


@pytest.mark.usefixtures("asked_by_bell_alone")
def test_the_next_event_wakes_who_reads_the_log_and_one_of_another_run_does_not():
    holder, other = (factories.run_in(RunStatus.EXECUTING) for _ in range(2))
    looks: list[int] = []

    def look() -> list[str]:
        looks.append(1)
        new = RunEvent.objects.filter(run_id=holder.run_id, sequence__gt=before)
        return list(new.values_list("event_type", flat=True))

    before = holder.run.version
    read = in_a_thread(lambda: waiting.wait_for(look, seconds=30, begin=bells.begin_reading(holder.run_id)))
    until(lambda: len(looks) >= 2 and is_waiting())
    settled = len(looks)
    RunWatch.objects.create(run_id=other.run_id, until=database_now() + timedelta(minutes=1))
    other.post(Ev.MODEL_DECISION, decision="tool")
    holder.post(Ev.MODEL_DECISION, decision="tool")
    assert read() == ["model_decision"]
    assert len(looks) <= settled + 2, "the listener's first ring, and the event's"


def test_nobody_rings_about_a_log_that_nobody_reads(monkeypatch):
    rings: list[str] = []
    monkeypatch.setattr(store, "ring", rings.append)
    holder = factories.run_in(RunStatus.EXECUTING)
    holder.post(Ev.MODEL_DECISION, decision="tool")
    RunWatch.objects.create(run_id=holder.run_id, until=database_now() - timedelta(seconds=1))
    holder.post(Ev.MODEL_DECISION, decision="tool")
    assert rings == []
    store.watch_run(holder.run_id, seconds=30)
    holder.post(Ev.MODEL_DECISION, decision="tool")
    assert rings == [holder.run_id]


def test_a_bell_that_nobody_hears_costs_seconds_and_no_run(monkeypatch):
    def away(*, name: str) -> psycopg.Connection:
        raise psycopg.OperationalError(f"no session for the {name}")

    monkeypatch.setattr(bells, "session", away)
    monkeypatch.setattr(bells, "RECONNECT_SECONDS", 0.01)
    monkeypatch.setattr(leases, "bell", bells.Bell())
    monkeypatch.setattr(leases, "ASK_AGAIN_SECONDS", 0.02)
    machine, where = factories.worker(), factories.repository()
    answer = waiting_claim(machine)
    run = factories.queued_run(where)
    claim = answer()
    assert claim is not None
    assert claim.run.pk == run.pk


def test_a_backoff_that_ends_is_not_slept_through(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(bells.bell, "wait", lambda heard, seconds: waits.append(seconds))
    monkeypatch.setattr(leases, "ASK_AGAIN_SECONDS", AN_HOUR)
    holder = factories.run_in(RunStatus.PREPARING)
    failure = {"category": "INFRASTRUCTURE", "reason": "node_gone", "summary": "gone"}
    monkeypatch.setattr("random.random", lambda: 1.0)
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    leases.begin_waiting(principal=holder.machine.principal)(AN_HOUR)
    leases.begin_waiting(principal=factories.worker(Role.JUDGE).principal)(AN_HOUR)
    assert 0 < waits[0] <= 5
    assert waits[1] == AN_HOUR


def test_where_all_places_are_taken_the_answer_comes_at_once(monkeypatch):
    monkeypatch.setattr(waiting, "_places", threading.BoundedSemaphore(1))
    asked: list[int] = []
    with waiting._place() as got_one:
        assert got_one
        found = waiting.wait_for(lambda: asked.append(1), seconds=30, begin=bells.begin_reading("run_x"))
    assert (found.answer, found.crowded, len(asked)) == (None, True, 1)


@pytest.mark.usefixtures("asked_by_bell_alone")
def test_who_waits_is_answered_at_once_where_the_process_is_to_end(monkeypatch):
    monkeypatch.setattr(stopping, "_asked", threading.Event())
    answer = waiting_claim(factories.worker())
    until(is_waiting)
    stopping.ask()
    assert answer() is None
