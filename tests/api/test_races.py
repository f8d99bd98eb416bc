"""Over HTTP, with real connections: many at once, and each thing happens once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from django.db import connection
from django.db.models import Model

from runs.domain.vocabulary import RunStatus
from runs.models import Lease, Run, RunEvent, Task
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

CLAIMERS = 64
RUNS = 500
#: At a time: the suite's server takes 300 connections, and every request opens its own.
THREADS = 16


@pytest.fixture
def http(live_server) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=THREADS, max_keepalive_connections=THREADS)
    url = f"{live_server.url}/api/v1/"
    with httpx.Client(base_url=url, timeout=60, trust_env=False, limits=limits) as client:
        yield client


def all_at_once(calls: list[Callable[[], None]]) -> None:
    """Each call in a thread of its own, all let go at the same moment."""
    gate, errors = threading.Barrier(len(calls)), []

    def run(call: Callable[[], None]) -> None:
        gate.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001  shown by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def copy_run(run: Run, owner: psycopg.Connection, *, times: int) -> None:
    """Copies of a queued run and its task, made by the tables' owner past all triggers: submitting as many
    would take longer than the race. They differ in nothing but their ids."""
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        for model, row_id in ((Task, run.task_id), (Run, run.pk), (RunEvent, run.pk)):
            owner.execute(_copying(model), {"task": run.task_id, "run": run.pk, "id": row_id, "times": times})


def _copying(model: type[Model]) -> str:
    """Every column as it is, with the ids inside it (in JSON, too) replaced by those of the copy."""
    table, names = model._meta.db_table, [str(field.column) for field in model._meta.concrete_fields]
    column = "run_id" if model is RunEvent else "id"

    def copied(name: str) -> str:
        inner = f"replace(replace(t.{name}::text, %(task)s, task), %(run)s, run)"
        inner = (
            f"overlay({inner} placing lpad(n::text, 6, '0') from 5)"
            if (model, name) == (RunEvent, "id")
            else inner
        )
        return f"({inner})::{{{name}}}"

    kinds = {str(field.column): field.db_type(connection) for field in model._meta.concrete_fields}
    values = ", ".join(copied(name).format(**kinds) for name in names)
    return f"""
        INSERT INTO {table} ({", ".join(names)}) SELECT {values}
        FROM {table} t, generate_series(1, %(times)s) n,
            LATERAL (SELECT overlay(%(task)s placing lpad(n::text, 6, '0') from 6) AS task,
                            overlay(%(run)s placing lpad(n::text, 6, '0') from 5) AS run) ids
        WHERE t.{column} = %(id)s
    """


def test_64_claimers_share_500_runs_and_none_is_given_twice(http, owner_connection):
    copy_run(factories.queued_run(), owner_connection, times=RUNS - 1)
    tokens = [factories.worker().token for _ in range(CLAIMERS)]
    given: list[tuple[str, int]] = []

    def claim_until_nothing_is_left(token: str) -> None:
        while (answer := post(http, token, "leases", {})).status_code == 201:
            lease = answer.json()["lease"]
            given.append((lease["run_id"], lease["fence"]))
        assert answer.status_code == 204, answer.text

    while Run.objects.filter(status=RunStatus.QUEUED).exists():
        all_at_once([partial(claim_until_nothing_is_left, token) for token in tokens])
    assert Counter(run_id for run_id, _ in given).most_common(1)[0][1] == 1
    assert len(given) == RUNS
    assert {fence for _, fence in given} == {1}
    assert Lease.objects.filter(ended_at__isnull=True).count() == RUNS
    assert RunEvent.objects.filter(event_type="lease_acquired").count() == RUNS


def test_50_posts_with_one_key_are_one_event(http):
    holder = factories.run_in(RunStatus.EXECUTING)
    before = holder.run.version
    body = {"type": "model_decision", "payload": {"decision": "tool", "summary": "look around"}}
    answers: list[httpx.Response] = []

    def say_it() -> None:
        headers = {"Idempotency-Key": "decision-1", "Lease-Token": holder.token}
        answers.append(post(http, holder.machine.token, f"runs/{holder.run_id}/events", body, headers))

    all_at_once([say_it] * 50)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 49}
    assert len({answer.json()["event"]["id"] for answer in answers}) == 1
    assert holder.run.version == before + 1


def post(
    http: httpx.Client, token: str, path: str, body: Any, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Repeated with the same key while the answer is 503, as clients do: a busy machine has short locks."""
    sent = {"Authorization": f"Bearer {token}", **(headers or {})}
    while (answer := http.post(path, json=body, headers=sent)).status_code == 503:
        assert answer.headers["Retry-After"]
    return answer
