"""Many runs, made by copying one that went the real way: SQL as the owner, past the triggers."""

from __future__ import annotations

import psycopg
from psycopg import sql


def copy_runs(
    url: str,
    run_id: str,
    task_id: str,
    lease_id: str = "",
    *,
    first: int,
    count: int,
    spread_seconds: float = 1.0,
) -> None:
    """``count`` more tasks and runs like these, each a little older than the last."""
    names = {
        "run": run_id,
        "task": task_id,
        "first": first,
        "last": first + count - 1,
        "spread": spread_seconds,
    }
    with psycopg.connect(url) as owner:
        owner.execute("SET session_replication_role = replica")
        _copy(
            owner,
            "tasks",
            "id = %(task)s",
            names,
            id=_new("id"),
            latest_run_id=_new("latest_run_id"),
            state=_text("state", task_id, run_id, lease_id),
            created_at=_older("created_at"),
            updated_at=_older("updated_at"),
        )
        _copy(
            owner,
            "runs",
            "id = %(run)s",
            names,
            id=_new("id"),
            task_id=_new("task_id"),
            state=_text("state", task_id, run_id, lease_id),
            created_at=_older("created_at"),
            updated_at=_older("updated_at"),
            queue_key="queue_key - n",
        )
        _copy(owner, "run_events", "run_id = %(run)s", names, id=_longer("id"), run_id=_new("run_id"))
        _copy(owner, "task_events", "task_id = %(task)s", names, id=_longer("id"), task_id=_new("task_id"))
        _copy(
            owner,
            "run_leases",
            "run_id = %(run)s",
            names,
            id=_new("id"),
            run_id=_new("run_id"),
            claim_key="''",
        )
        _copy(
            owner,
            "run_outcomes",
            "run_id = %(run)s",
            names,
            run_id=_new("run_id"),
            created_at=_older("created_at"),
            ended_at=_older("ended_at"),
        )
        _copy(owner, "attempts", "run_id = %(run)s", names, skip="id", run_id=_new("run_id"))
        _copy(
            owner,
            "approval_requests",
            "run_id = %(run)s",
            names,
            id=_new("id"),
            run_id=_new("run_id"),
            task_id=_new("task_id"),
        )
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE")


def copy_events(url: str, run_id: str, event_type: str, *, count: int) -> None:
    """Make a run's log longer by ``count`` events like its last one of that type."""
    with psycopg.connect(url) as owner:
        owner.execute("SET session_replication_role = replica")
        (version,) = owner.execute("SELECT version FROM runs WHERE id = %s", [run_id]).fetchone() or (0,)
        names = {
            "run": run_id,
            "type": event_type,
            "first": 1,
            "last": count,
            "version": version,
            "spread": 1.0,
        }
        where = "id = (SELECT max(id) FROM run_events WHERE run_id = %(run)s AND event_type = %(type)s)"
        _copy(
            owner,
            "run_events",
            where,
            names,
            id=_new("id"),
            sequence="%(version)s + n",
            idempotency_key="'copy' || n",
            recorded_at="recorded_at + n * interval '1 second'",
            occurred_at="occurred_at + n * interval '1 second'",
        )
        owner.execute("UPDATE runs SET version = version + %s WHERE id = %s", [count, run_id])
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE run_events")


def copy_of(one: str, n: int) -> str:
    """The id of the ``n``-th copy: as long as the first."""
    return f"{one[:-8]}{n:08d}"


def _new(column: str) -> str:
    return f"left({column}, -8) || lpad(n::text, 8, '0')"


def _longer(column: str) -> str:
    """For ids that stand close together, and that no address names."""
    return f"{column} || '_' || n"


def _older(column: str) -> str:
    return f"{column} - n * %(spread)s * interval '1 second'"


def _text(column: str, *ids: str) -> str:
    text = f"{column}::text"
    for one in filter(None, ids):
        text = f"replace({text}, '{one}', '{one[:-8]}' || lpad(n::text, 8, '0'))"
    return f"({text})::jsonb"


def _copy(owner: psycopg.Connection, table: str, where: str, names: dict[str, object], *, skip: str = "",
          **changed: str) -> None:  # fmt: skip
    rows = owner.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                         " AND NOT attisdropped AND attgenerated = ''", [table]).fetchall()  # fmt: skip
    columns = [name for (name,) in rows if name != skip]
    values = [changed.get(name, f'"{name}"') for name in columns]
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    query = sql.SQL("INSERT INTO {table} ({listed}) SELECT {values} FROM {table},"
                    " generate_series(%(first)s::bigint, %(last)s::bigint) n WHERE {where}")  # fmt: skip
    owner.execute(
        query.format(table=sql.Identifier(table), listed=listed, values=sql.SQL(", ".join(values)),
                     where=sql.SQL(where)),
        names,
    )  # fmt: skip
