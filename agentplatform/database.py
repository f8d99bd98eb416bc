"""Two logins, one database: the owner migrates, the app's role works and owns nothing.

`migrate` is the one command that takes the owner's login (see `management/commands/migrate.py`). Afterwards
the app's role is granted what it needs, and may not UPDATE, DELETE or TRUNCATE the append-only tables.

Statements may go through a pooler in transaction mode (PgBouncer). It hands each transaction to another
session of the server, so nothing may be kept in a session: no prepared statement, no cursor outside a
transaction, no lock that outlives one, no LISTEN; and it takes no settings at the start of one. What needs a
session of its own (`session`, migrations) goes past it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import Connection, ProgrammingError, connect, sql
from psycopg.conninfo import conninfo_to_dict

WEB_TIMEOUT: timedelta = timedelta(seconds=10)
COMMAND_TIMEOUT: timedelta = timedelta(seconds=60)
_LOCK_TIMEOUT = timedelta(seconds=2)
_IDLE_TIMEOUT = timedelta(seconds=15)
_PREPARE_AFTER = 5  #: times that a session has been asked the same: then it keeps the plan


def login(
    url: str,
    *,
    statement_timeout: timedelta | None = None,
    pool_size: int = 0,
    through_pooler: bool = False,
) -> dict[str, Any]:
    """A Django database entry for a `postgresql://` address.

    With `statement_timeout` the session is also bounded in waiting for locks and in idling in a transaction;
    without it, nothing is bounded (migrations). Through a pooler the role's bounds hold: see `bound_role`.
    A pool of connections belongs to the web process alone.
    """
    try:
        parts: dict[str, Any] = {
            name: value for name, value in conninfo_to_dict(url).items() if value is not None
        }
    except ProgrammingError:
        # The driver's own words repeat the address, and with it the password.
        raise ImproperlyConfigured(
            "DATABASE_URL, DATABASE_POOLER_URL or DATABASE_OWNER_URL is no address like"
            " postgresql://user:password@host:5432/name."
        ) from None
    entry: dict[str, Any] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": str(parts.pop("port", "")),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": pool_size > 0,
        "OPTIONS": {"connect_timeout": 5, **parts},
    }
    if through_pooler:
        entry["DISABLE_SERVER_SIDE_CURSORS"] = True
    else:
        limits = _bounds(statement_timeout) if statement_timeout else _UNBOUNDED
        words = [f"-c {name}={value}" for name, value in limits.items()]
        entry["OPTIONS"]["options"] = " ".join([parts.get("options", ""), *words]).strip()
        # Django's own default is never; only `agentplatform.rows` binds on the server, and so prepares.
        entry["OPTIONS"]["prepare_threshold"] = _PREPARE_AFTER
    if pool_size:
        entry["OPTIONS"]["pool"] = {"min_size": 1, "max_size": pool_size, "timeout": 5}
    return entry


#: Nothing that is asked here runs longer than compiling it would take. What is prepared finds its rows by
#: keys, whatever their values: planning it anew each time would take longer than running it.
_PLANS = {"jit": "off", "plan_cache_mode": "force_generic_plan"}


def _bounds(statement_timeout: timedelta) -> dict[str, str]:
    limits = {
        "statement_timeout": statement_timeout,
        "lock_timeout": _LOCK_TIMEOUT,
        "idle_in_transaction_session_timeout": _IDLE_TIMEOUT,
    }
    return {**_PLANS, **{name: f"{limit // timedelta(milliseconds=1)}" for name, limit in limits.items()}}


#: Said, and not left out: the owner may be the very role that `bound_role` has bounded.
_UNBOUNDED = dict.fromkeys(_bounds(WEB_TIMEOUT).keys() - _PLANS.keys(), "0")


def session(*, name: str, **options: Any) -> Connection:
    """A session of its own as the app's role, in autocommit: never one of the pool, and past any pooler.

    `name` says to administrators what it is for; `options` are the driver's.
    """
    words = {"connect_timeout": 5, "application_name": f"agentplatform {name}", **options}
    return connect(settings.DATABASE_URL, autocommit=True, **words)


@contextlib.contextmanager
def owner_login(alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Inside, this thread's connection is the owner's; before and after it is the app's."""
    connection = connections[alias]
    app_entry = connection.settings_dict
    owner = login(settings.DATABASE_OWNER_URL)
    connection.close()
    # A new dictionary: the old one is shared with other threads. The name stays, for test databases.
    connection.settings_dict = {**app_entry, **owner, "NAME": app_entry["NAME"]}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = app_entry


def grant_after_migrate(*, using: str, **_: Any) -> None:
    """Receiver of `post_migrate`."""
    grant(using)
    if settings.DATABASE_POOLER_URL:
        bound_role()


def bound_role() -> None:
    """Make the bounds of the web process those of the app's role, for sessions that a pooler begins.

    A role may do so for itself. It holds for every session that begins from now on.
    """
    with session(name="migrate") as app:
        for name, value in _bounds(WEB_TIMEOUT).items():
            words = {"name": sql.Identifier(name), "value": sql.Literal(value)}
            app.execute(sql.SQL("ALTER ROLE CURRENT_USER SET {name} = {value}").format(**words))


def grant(alias: str = DEFAULT_DB_ALIAS) -> None:
    """Give the app's role what it works with, and take from it what would rewrite history.

    Does nothing where the app's own login migrated: PostgreSQL checks foreign keys with the owner's rights,
    so they cannot be taken from an owner; there, the triggers on the append-only tables are all that holds.
    """
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_user")
        (owner,) = cursor.fetchone()
        if owner == settings.DATABASE_APP_ROLE:
            return
        names = {"app": sql.Identifier(settings.DATABASE_APP_ROLE), "owner": sql.Identifier(owner)}
        for statement in _GRANTS:
            cursor.execute(sql.SQL(statement).format(**names))
        for table in settings.APPEND_ONLY_TABLES:
            cursor.execute("SELECT to_regclass(%s)", [table])
            if cursor.fetchone() != (None,):
                cursor.execute(sql.SQL(_REVOKE).format(table=sql.Identifier(table), **names))
        for function in settings.OWNER_FUNCTIONS:
            cursor.execute("SELECT to_regproc(%s)", [function])
            if cursor.fetchone() != (None,):
                cursor.execute(sql.SQL(_GRANT_CALL).format(function=sql.Identifier(function), **names))


_FROM_NOW_ON = "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public"
_GRANTS = (
    "GRANT USAGE ON SCHEMA public TO {app}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {app}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {app}",
    f"{_FROM_NOW_ON} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {{app}}",
    f"{_FROM_NOW_ON} GRANT USAGE, SELECT ON SEQUENCES TO {{app}}",
)
_GRANT_CALL = "GRANT EXECUTE ON FUNCTION {function} TO {app}"
_REVOKE = "REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {app}"
