"""A database that is away, full, or out of connections: pages and calls say so, and when to come back."""

from __future__ import annotations

import http.client
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from psycopg import sql

from runs.domain.vocabulary import PersonRole
from runs.models import Run, RunEvent, Task
from tests import factories
from tests.api.calls import Caller, problem
from tests.served import serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client() -> Client:
    """Somebody who has signed in."""
    made = Client(raise_request_exception=False)
    made.force_login(factories.person(PersonRole.OPERATOR))
    return made


def test_pages_say_that_they_are_back_soon_while_the_database_is_away(client, monkeypatch):
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(settings.DATABASES["default"], "NAME", "not_there")
        answers = [client.get(path) for path in ("/", "/runs/", "/accounts/login/", "/admin/")]
    connection.close()
    assert [(answer.status_code, answer["Retry-After"]) for answer in answers[:2]] == [(503, "2")] * 2
    assert all(answer.status_code in (200, 302, 503) for answer in answers)
    assert b"does not answer just now" in answers[0].content
    assert client.get("/").status_code == 200, "it heals by itself"


FULL = """
CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER disk_is_full BEFORE INSERT ON {table} EXECUTE FUNCTION disk_is_full();
"""
ROOM = "DROP TRIGGER disk_is_full ON {table}; DROP FUNCTION disk_is_full();"


@pytest.mark.parametrize("table", ["run_events", "outbox", "deliveries", "task_events"])
def test_a_disk_that_fills_up_anywhere_in_a_write_leaves_nothing_half_written(table, owner_connection):
    where = factories.repository()
    caller = Caller(factories.person_token(factories.person(PersonRole.SUBMITTER)))
    body = {**factories.contract(), "repository": where.name, "submit": True}
    owner_connection.execute(sql.SQL(FULL).format(table=sql.Identifier(table)))
    try:
        answer = caller.post("tasks", body, idempotency_key="one")
        problem(answer, 503, "unavailable")
        assert answer["Retry-After"] == "2"
        assert not Task.objects.exists()
        assert not Run.objects.exists()
        assert not RunEvent.objects.exists()
    finally:
        owner_connection.execute(sql.SQL(ROOM).format(table=sql.Identifier(table)))
    assert caller.post("tasks", body, idempotency_key="one").status_code == 201, "its key was free"


def test_a_pool_that_is_empty_answers_503_in_time_and_serves_again(monkeypatch, owner_connection):
    """Its only connection waits for a lock, for two seconds each time; a place in the queue lasts five."""
    token = factories.person_token(factories.person(PersonRole.OPERATOR))
    path = f"/api/v1/runs/{factories.queued_run().pk}/events"
    monkeypatch.setenv("DATABASE_POOL_SIZE", "1")
    with serving() as port, ThreadPoolExecutor(6) as lanes:
        ask = _Asker(port, token)
        assert ask(path)[0] == 200
        with owner_connection.transaction():
            owner_connection.execute("LOCK TABLE run_events IN ACCESS EXCLUSIVE MODE")
            answers = list(lanes.map(ask, [path] * 6))
        assert set(answers) == {(503, "2")}
        assert ask(path)[0] == 200


class _Asker:
    def __init__(self, port: int, token: str) -> None:
        self.port, self.headers = port, {"Authorization": f"Bearer {token}", "Host": "127.0.0.1"}

    def __call__(self, path: str) -> tuple[int, str]:
        """The status, and when to come back."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        line.request("GET", path, headers=self.headers)
        answer = line.getresponse()
        answer.read()
        line.close()
        return answer.status, answer.headers.get("Retry-After", "")
