"""Every answer of the API is JSON, says what to do, and needs a caller who is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from psycopg.errors import DiskFull

from agentplatform.problem import STATUS, refusal_of
from runs.domain.errors import all_refusals
from runs.domain.vocabulary import PersonRole
from runs.models import ApiToken
from tests import factories
from tests.api.calls import Caller, problem

pytestmark = pytest.mark.django_db


def test_every_refusal_has_its_status():
    assert {refusal.code for refusal in all_refusals()} <= STATUS.keys()


def test_without_a_caller_there_is_no_answer():
    refused = Caller().get("runs")
    problem(refused, 401, "not_authenticated")
    assert refused["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer", "Bearer x", "Basic eDp5", "Token x", "Bearer \xff\xfe"])
def test_odd_credentials_are_refused(header):
    response = Client().get("/api/v1/runs", headers={"authorization": header})
    problem(response, 401, "not_authenticated")


@pytest.mark.parametrize("change", ["revoked_at", "expires_at", "disabled"])
def test_a_token_out_of_force_is_refused(change):
    machine = factories.worker()
    assert Caller(machine.token).get("runs").status_code == 200
    past = datetime.now(UTC) - timedelta(seconds=1)
    if change == "disabled":
        machine.account.disabled_at = past
        machine.account.save()
    else:
        ApiToken.objects.update(**{change: past})
    problem(Caller(machine.token).get("runs"), 401, "not_authenticated")


def test_the_last_use_of_a_token_is_noted_once_a_minute():
    machine = factories.worker()
    Caller(machine.token).get("runs")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    Caller(machine.token).get("runs")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    Caller(machine.token).get("runs")
    assert (ApiToken.objects.get().last_used_at or first) > first - timedelta(minutes=1)


def test_a_session_reads_freely_and_writes_with_its_csrf_token():
    somebody = factories.person(PersonRole.OPERATOR)
    run = factories.queued_run()
    client = Client(enforce_csrf_checks=True)
    client.force_login(somebody)
    caller = Caller(client=client)
    assert caller.get("runs").status_code == 200
    problem(caller.post(f"runs/{run.pk}/note", {"text": "hi"}), 403, "permission_denied")
    client.cookies["csrftoken"] = "a" * 32
    assert caller.post(f"runs/{run.pk}/note", {"text": "hi"}, x_csrftoken="a" * 32).status_code == 200


def test_a_token_of_a_person_has_no_more_than_they_have():
    viewer = Caller(factories.person_token(factories.person(PersonRole.VIEWER)))
    run = factories.queued_run()
    problem(viewer.post(f"runs/{run.pk}/pause"), 403, "permission_denied")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "runs"),
        ("OPTIONS", "runs"),
        ("GET", "leases"),
        ("PUT", "tasks"),
        *product(("PATCH", "PUT", "DELETE"), (f"runs/run_{'0' * 26}", f"approvals/apr_{'0' * 26}")),
    ],
)
def test_a_method_that_is_not_there_is_said(method, path):
    response = Caller(factories.worker().token).send(method, path)
    problem(response, 405, "method_not_allowed")
    assert response["Allow"]


@pytest.mark.parametrize("path", ["/api/", "/api/v2/runs", "/api/v1/", "/api/v1/runs/", "/api/v1/admin"])
def test_an_address_that_nobody_has_is_answered_as_a_problem(path):
    problem(Client().get(path), 404, "not_found")


def test_a_database_that_is_away_is_said_and_nothing_is_half_written(monkeypatch):
    machine = factories.worker()

    def away(*_: object, **__: object) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr("runs.leases.lease_claim", away)
    response = Caller(machine.token).post("leases", {})
    problem(response, 503, "unavailable")
    assert response["Retry-After"] == "2"


def test_a_full_disk_is_passing_too():
    error = OperationalError()
    error.__cause__ = DiskFull()
    refusal = refusal_of(error)
    assert refusal is not None
    assert refusal.code == "unavailable"


def test_a_read_only_database_is_unavailable():
    run = factories.queued_run()
    person = Caller(factories.person_token(factories.person(PersonRole.OPERATOR)))
    person.get("runs")  # its use is noted before the database turns read-only
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        problem(person.post(f"runs/{run.pk}/note", {"text": "hi"}), 503, "unavailable")
        transaction.set_rollback(True)


def test_what_nobody_foresaw_is_a_problem_document(monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("runs.leases.lease_claim", broken)
    caller = Caller(factories.worker().token, client=Client(raise_request_exception=False))
    assert "ZeroDivision" not in str(problem(caller.post("leases", {}), 500, "internal"))


def test_people_are_throttled_and_machines_are_not(settings, monkeypatch):
    monkeypatch.setattr("runs.api.base.PeopleThrottle.rate", "2/min")
    person = Caller(factories.person_token(factories.person(PersonRole.VIEWER)))
    assert [person.get("runs").status_code for _ in range(2)] == [200, 200]
    response = person.get("runs")
    problem(response, 429, "throttled")
    assert int(response["Retry-After"]) > 0
    machine = Caller(factories.worker().token)
    assert [machine.get("runs").status_code for _ in range(4)] == [200] * 4
