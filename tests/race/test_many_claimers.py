"""Many claimers, many runs: none is given twice, and none is left."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from itertools import repeat

import psycopg
import pytest
from django.db import DatabaseError, connection
from django.db.models import Model

from runs import leases
from runs.domain.vocabulary import RunStatus
from runs.models import Lease, Run, RunEvent, Task
from tests import factories
from tests.race.connections import at_once
from tests.served import serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """Nothing: the copies' logs are chained as their original's."""


def test_64_claimers_over_http_share_500_runs_and_none_is_given_twice(owner_connection):
    copy_run(factories.queued_run(), owner_connection, times=500 - 1)
    tokens = [factories.worker().token for _ in range(64)]
    together = threading.Barrier(len(tokens))

    def claim_until_nothing_is_left(token: str, port: int) -> list[tuple[str, int]]:
        given: list[tuple[str, int]] = []
        asks = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        together.wait(60)
        while True:
            asks.request("POST", "/api/v1/leases", "{}", headers)
            with asks.getresponse() as answer:
                if answer.status == HTTPStatus.NO_CONTENT:
                    return given
                assert answer.status == HTTPStatus.CREATED, answer.read()
                claim = json.load(answer)
            given.append((claim["run"]["id"], claim["lease"]["fence"]))

    with serving() as port, ThreadPoolExecutor(len(tokens)) as pool:
        everybody = pool.map(claim_until_nothing_is_left, tokens, repeat(port))
        given = [item for items in everybody for item in items]
    check_given(given, runs=500)


@pytest.mark.long
def test_200_claimers_share_10_000_runs_and_none_is_given_twice(owner_connection):
    copy_run(factories.queued_run(), owner_connection, times=10_000 - 1)
    machines = [factories.worker() for _ in range(200)]

    def claim_until_nothing_is_left(machine: factories.Machine) -> list[tuple[str, int]]:
        given: list[tuple[str, int]] = []
        while claim := ask_until_answered(machine):
            given.append((claim.run.pk, claim.lease.fence))
        return given

    given: list[tuple[str, int]] = []
    while Run.objects.filter(status=RunStatus.QUEUED).exists():
        claims = [partial(claim_until_nothing_is_left, machine) for machine in machines]
        for result in at_once(*claims, seconds=3600):
            assert isinstance(result, list), result
            given += result
    check_given(given, runs=10_000)


def ask_until_answered(machine: factories.Machine) -> leases.Claim | None:
    """A claim; asked again, as a worker does, when the database ended a transaction that stood too long: with
    200 threads in one process some wait that long for their turn to run."""
    while True:
        try:
            return leases.lease_claim(principal=machine.principal)
        except DatabaseError:
            connection.close()


def check_given(given: list[tuple[str, int]], *, runs: int) -> None:
    """Each run once, under its first fence, and none is left."""
    assert Counter(run_id for run_id, _ in given).most_common(1)[0][1] == 1
    assert len(given) == runs
    assert {fence for _, fence in given} == {1}
    assert Lease.objects.filter(ended_at__isnull=True).count() == runs
    assert RunEvent.objects.filter(event_type="lease_acquired").count() == runs


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
