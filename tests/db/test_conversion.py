"""A database with the plain table of events gets partitions in place: nothing is lost or looser."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, ProgrammingError, connection, transaction
from psycopg import sql

from agentplatform.ids import new_id
from runs import partitions
from runs.models import RunEvent
from tests import database

pytestmark = pytest.mark.django_db(transaction=True)
RUN, EMPTY = new_id("run"), new_id("run")


@pytest.fixture
def plain(django_db_setup: None) -> Iterator[psycopg.Connection]:
    """A database as it was before, with a run's events in it; yields a superuser's connection."""
    usual = settings.DATABASES["default"]["NAME"]
    name = f"{usual}_plain"
    with psycopg.connect(database.owner_url("postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        database.use_database(name)
        try:
            call_command("migrate", "runs", "0009_periodic_tasks", verbosity=0)
            with psycopg.connect(database.owner_url(name), autocommit=True) as owner:
                for run in (RUN, EMPTY):
                    _insert_run(owner, run)
                yield owner
        finally:
            database.use_database(usual)
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _insert_run(owner: psycopg.Connection, run_id: str) -> None:
    owner.execute("SET session_replication_role = replica")  # it needs no task for this
    owner.execute(
        "INSERT INTO runs (id, task_id, repository_id, attempt_no, status, status_reason, worker_id, state,"
        " directive, fence, claim_role, begun, queue_key, needs, failure_category, gate, cost_usd,"
        " status_since, version, chain_hash, chain_mac, created_at, updated_at) VALUES (%s, %s, 'x', 1,"
        " 'QUEUED', '', '', '{}', 'continue', 0, '', false, 0, '{}', '', '', 0, now(), 0, '', '',"
        " now(), now())",
        [run_id, run_id],
    )
    owner.execute("RESET session_replication_role")


def _append(
    sequence: int, event: str, source: str, target: str, *, run: str = RUN, key: str = "", event_id: str = ""
) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO run_events (id, run_id, sequence, event_type, from_status, to_status, attempt,"
            " actor_type, actor_id, actor_name, fence, idempotency_key, request_fingerprint, parent, payload,"
            " facts, schema_version, occurred_at, recorded_at, previous_hash, hash) VALUES (%s, %s, %s, %s,"
            " %s, %s, 0, 'x', 'x', 'x', 0, %s, '', 0, '{}', '{}', 1, now(), now(), '', 'x')",
            [event_id or new_id("evt"), run, sequence, event, source, target, key or None],
        )


def _rows(owner: psycopg.Connection) -> list[tuple[object, ...]]:
    columns = [sql.Identifier(str(field.column)) for field in RunEvent._meta.concrete_fields]
    listed = sql.SQL(", ").join(columns)
    return owner.execute(
        sql.SQL("SELECT {} FROM run_events ORDER BY run_id, sequence").format(listed)
    ).fetchall()


def test_a_table_with_events_becomes_the_first_partition_as_it_stands(plain: psycopg.Connection):
    known = new_id("evt")
    _append(1, "run_created", "", "CREATED", key="first", event_id=known)
    _append(2, "run_enqueued", "CREATED", "QUEUED")
    before = _rows(plain)

    call_command("migrate", verbosity=0)

    assert _rows(plain) == before
    places = plain.execute("SELECT DISTINCT tableoid::regclass::text FROM run_events").fetchall()
    assert places == [("partitions.run_events_first",)]
    _append(3, "note_added", "QUEUED", "QUEUED", key="second")

    with pytest.raises(ProgrammingError, match="does not follow"):
        _append(5, "note_added", "QUEUED", "QUEUED")
    with pytest.raises(ProgrammingError, match="no transition"):
        _append(4, "approved", "QUEUED", "EXECUTING")
    for key in ("first", "second"):
        with pytest.raises(IntegrityError, match="duplicate key"):
            _append(4, "note_added", "QUEUED", "QUEUED", key=key)
    with pytest.raises(IntegrityError, match="duplicate key"):
        _append(1, "run_created", "", "CREATED", run=EMPTY, event_id=known)
    with pytest.raises(IntegrityError, match="foreign key"):
        _append(1, "run_created", "", "CREATED", run=new_id("run"))
    for statement in ("UPDATE run_events SET hash = ''", "DELETE FROM run_events", "TRUNCATE run_events"):
        with pytest.raises(ProgrammingError, match="permission denied"):
            connection.cursor().execute(statement)
        with pytest.raises(psycopg.errors.RaiseException):
            plain.execute(sql.SQL(statement))
    assert len(partitions.make_ahead()) == partitions.AHEAD
    assert len(_rows(plain)) == 3
