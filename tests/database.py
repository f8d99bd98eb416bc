"""The suite's databases: one server a session, one template migrated once, one copy for each xdist worker."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from psycopg import sql
from psycopg.conninfo import make_conninfo

from agentplatform.postgres import APP_ROLE, OWNER_ROLE, Server
from tests import servers
from tests.settings import ON, OTHER_SERVER, SESSION_FOLDER, SESSION_NAME, SESSIONS_FOLDER

# The data lives for one session: nothing needs to survive a crash of the machine.
_OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "max_wal_size": "2GB",
}
_TEMPLATE = f"{SESSION_NAME}_template"
_servers = contextlib.ExitStack()


def session_server() -> Server:
    return Server(settings.DATA_DIR / "postgres", _OPTIONS)


def owner_url(database: str) -> str:
    """A superuser's address of one of the session's databases."""
    if OTHER_SERVER:
        return make_conninfo(OTHER_SERVER, dbname=database)
    return session_server().url(OWNER_ROLE, database)


def app_url(database: str) -> str:
    """The app role's address of one of the session's databases."""
    if OTHER_SERVER:
        return make_conninfo(OTHER_SERVER, user=SESSION_NAME, password=SESSION_NAME, dbname=database)
    return session_server().url(APP_ROLE, database)


def pooler_url(database: str) -> str:
    """The app role's address of one of the session's databases through the pooler, if there is one."""
    if ON != "pgbouncer":
        return ""
    return servers.pooler_url(SESSION_FOLDER / "pooler", SESSION_NAME, database)


def app_environment(database: str) -> dict[str, str]:
    """The variables with which a process of the product works on one of the session's databases."""
    return {"DATABASE_URL": app_url(database), "DATABASE_POOLER_URL": pooler_url(database)}


def make_worker_database(worker: str) -> str:
    """Make this worker's copy of the template, and the template when there is none yet; returns its name."""
    name = f"{SESSION_NAME}_{worker}"
    with _one_at_a_time():
        if not OTHER_SERVER:
            session_server().start()
        with _administration() as admin:
            if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]).fetchone():
                _make_template(admin)
            copy = "CREATE DATABASE {name} TEMPLATE {template}"
            admin.execute(sql.SQL(copy).format(name=sql.Identifier(name), template=sql.Identifier(_TEMPLATE)))
    return name


def use_database(name: str) -> None:
    """Point Django's connections of this process, in all threads, at a database."""
    connection.close()
    settings.DATABASES["default"]["NAME"] = name
    settings.DATABASE_URL = app_url(name)


def restore_pristine(database: str) -> None:
    """Put every table back to what migrations left, as a superuser and past all triggers."""
    with psycopg.connect(owner_url(database)) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("SET lock_timeout = '5s'")  # an unclosed transaction of the test: fail, do not hang
        owner.execute(_restoring_statements(database))


def begin_session() -> None:
    """Start Debian's servers, where the suite is to run on them."""
    if not ON:
        return
    _servers.enter_context(servers.postgres(SESSION_FOLDER / "debian", _OPTIONS))
    _servers.enter_context(servers.redis(SESSION_FOLDER / "redis"))
    if ON == "pgbouncer":
        logins = {SESSION_NAME: SESSION_NAME}
        place, behind = SESSION_FOLDER / "pooler", SESSION_FOLDER / "debian"
        _servers.enter_context(servers.pgbouncer(place, database_folder=behind, logins=logins))


def end_session() -> None:
    """Remove everything that this session made."""
    if OTHER_SERVER:
        with _administration() as admin:
            made = admin.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [SESSION_NAME]
            )
            for (name,) in made.fetchall():
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(SESSION_NAME)))
    _servers.close()
    _remove_session(settings.DATA_DIR)


def remove_dead_sessions() -> None:
    """Remove servers and folders of sessions that were killed."""
    for folder in SESSIONS_FOLDER.glob("*"):
        if folder.name.isdigit() and not psutil.pid_exists(int(folder.name)):
            _remove_session(folder)


def _remove_session(folder: Path) -> None:
    server = Server(folder / "postgres")
    server.stop()
    shutil.rmtree(server.socket_folder, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _make_template(admin: psycopg.Connection) -> None:
    template = sql.Identifier(_TEMPLATE)
    if OTHER_SERVER:
        role = "CREATE ROLE {role} LOGIN PASSWORD {password}"
        admin.execute(
            sql.SQL(role).format(role=sql.Identifier(SESSION_NAME), password=sql.Literal(SESSION_NAME))
        )
    admin.execute(sql.SQL("CREATE DATABASE {}").format(template))
    try:
        use_database(_TEMPLATE)
        call_command("migrate", verbosity=0)
        connection.close()
        _keep_pristine_rows()
    except BaseException:
        connection.close()
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(template))
        raise


def _keep_pristine_rows() -> None:
    with psycopg.connect(owner_url(_TEMPLATE)) as owner:
        owner.execute("CREATE SCHEMA pristine")
        for table in _tables(owner, "public"):
            names = {"kept": sql.Identifier("pristine", table), "table": sql.Identifier("public", table)}
            if owner.execute(sql.SQL("SELECT 1 FROM {table} LIMIT 1").format(**names)).fetchone():
                owner.execute(sql.SQL("CREATE TABLE {kept} AS TABLE {table}").format(**names))


@functools.cache
def _restoring_statements(database: str) -> sql.Composed:
    with psycopg.connect(owner_url(database)) as owner:
        tables = [sql.Identifier("public", table) for table in _tables(owner, "public")]
        statements: list[sql.Composable] = [sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables))]
        for table in _tables(owner, "pristine"):
            columns = sql.SQL(", ").join(map(sql.Identifier, _stored_columns(owner, table)))
            statements.append(
                sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}").format(
                    sql.Identifier("public", table), columns, columns, sql.Identifier("pristine", table)
                )
            )
    return sql.SQL("; ").join(statements)


def _tables(owner: psycopg.Connection, schema: str) -> list[str]:
    rows = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY tablename", [schema])
    return [name for (name,) in rows.fetchall()]


def _stored_columns(owner: psycopg.Connection, table: str) -> list[str]:
    rows = owner.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
        [table],
    )
    return [name for (name,) in rows.fetchall()]


@contextlib.contextmanager
def _administration() -> Iterator[psycopg.Connection]:
    with contextlib.closing(psycopg.connect(owner_url("postgres"), autocommit=True)) as admin:
        yield admin


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(settings.DATA_DIR / "template.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
