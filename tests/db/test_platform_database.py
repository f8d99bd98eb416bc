"""Two logins, and tests that really commit yet leave no trace."""

from __future__ import annotations

import threading
import urllib.request

import psycopg
import pytest
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import ProgrammingError, connection, connections, transaction
from django.utils import timezone

from agentplatform import database
from agentplatform.rows import ask
from runs.models import Session

pytestmark = pytest.mark.django_db


def _current_user() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return cursor.fetchone()[0]


def _make_session(key: str) -> None:
    Session.objects.create(session_key=key, session_data="", expire_date=timezone.now())


def test_tests_work_as_the_apps_role():
    assert _current_user() == settings.DATABASE_APP_ROLE


def test_app_role_owns_nothing_and_is_no_superuser():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE tableowner = current_user")
        assert cursor.fetchone() == (0,)
        cursor.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
        )
        assert cursor.fetchone() == (False, False, False)


def test_app_role_reads_and_writes_rows():
    _make_session("a")
    assert Session.objects.filter(session_key="a").delete() == (1, {"runs.Session": 1})


@pytest.mark.parametrize("statement", ["DROP TABLE sessions", "TRUNCATE sessions"])
def test_app_role_cannot_change_the_schema_or_truncate(statement):
    with pytest.raises(ProgrammingError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.django_db(transaction=True)
def test_grant_takes_rewriting_of_append_only_tables_from_the_app(owner_connection, settings):
    owner_connection.execute("CREATE TABLE kept_for_ever (id int)")
    settings.APPEND_ONLY_TABLES = ("kept_for_ever", "not_made_yet")
    try:
        with database.owner_login():
            database.grant()
        rights = owner_connection.execute(
            "SELECT array_agg(privilege_type::text ORDER BY privilege_type)"
            " FROM information_schema.table_privileges WHERE table_name = 'kept_for_ever' AND grantee = %s",
            [settings.DATABASE_APP_ROLE],
        ).fetchone()
        assert rights == (["INSERT", "SELECT"],)
    finally:
        owner_connection.execute("DROP TABLE kept_for_ever")


def test_tables_made_later_are_granted_by_default(owner_connection, settings):
    owner_connection.execute("CREATE TABLE made_later (id int)")
    try:
        with psycopg.connect(owner_connection.info.dsn, dbname=owner_connection.info.dbname) as owner:
            owner.execute(f'SET ROLE "{settings.DATABASE_APP_ROLE}"')
            assert owner.execute("SELECT count(*) FROM made_later").fetchone() == (0,)
    finally:
        owner_connection.execute("DROP TABLE made_later")


@pytest.mark.django_db(transaction=True)
def test_migrate_runs_as_the_owner_and_gives_the_login_back():
    call_command("migrate", verbosity=0)
    assert _current_user() == settings.DATABASE_APP_ROLE
    with database.owner_login():
        assert _current_user() != settings.DATABASE_APP_ROLE
    assert _current_user() == settings.DATABASE_APP_ROLE


def test_what_is_asked_again_and_again_is_planned_once_where_a_session_is_ones_own():
    for _ in range(7):
        ask("SELECT %s::int + 1", [1])
    ((kept,),) = ask("SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int + 1'")
    assert kept == (0 if settings.DATABASE_POOLER_URL else 1)


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.django_db(transaction=True)
def test_committed_rows_are_gone_after_the_test_and_migrated_rows_are_back(attempt):
    assert not Session.objects.exists()
    assert ContentType.objects.filter(app_label="runs").exists()
    _make_session("kept")
    ContentType.objects.all().delete()
    seen: list[bool] = []

    def look() -> None:
        seen.append(Session.objects.filter(session_key="kept").exists())
        connections.close_all()

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert seen == [True]


def test_live_server_sees_what_the_test_committed(live_server):
    with urllib.request.urlopen(f"{live_server.url}/readyz", timeout=10) as answer:
        assert answer.status == 200
