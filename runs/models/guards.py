"""Triggers by which the database itself refuses what the service would never do
(lifecycle contract, 4.3 rule 4)."""

from __future__ import annotations

from collections.abc import Iterable

import pgtrigger


def append_only(table: str) -> list[pgtrigger.Trigger]:
    """No UPDATE, no DELETE, no TRUNCATE, not even by the table's owner."""
    return [
        pgtrigger.Protect(name=f"{table}_append_only", operation=pgtrigger.Update | pgtrigger.Delete),
        pgtrigger.Trigger(
            name=f"{table}_no_truncate",
            level=pgtrigger.Statement,
            when=pgtrigger.Before,
            operation=pgtrigger.Truncate,
            func=f"RAISE EXCEPTION '{table} is append-only: it cannot be truncated';",
        ),
    ]


def no_delete(name: str) -> pgtrigger.Trigger:
    """Rows with a history are never deleted."""
    return pgtrigger.Protect(name=name, operation=pgtrigger.Delete)


def starts_as(name: str, status: str) -> pgtrigger.Trigger:
    """A row begins its life in one status; the FSM trigger guards only what comes after."""
    return pgtrigger.Trigger(
        name=name,
        when=pgtrigger.Before,
        operation=pgtrigger.Insert,
        condition=pgtrigger.Condition(f"NEW.status IS DISTINCT FROM '{status}'"),
        func=f"RAISE EXCEPTION 'a new row of % begins as {status}, not as %', TG_TABLE_NAME, NEW.status;",
    )


def legal_events(
    name: str, table: str, stream: str, cells: Iterable[tuple[str, str, str]]
) -> pgtrigger.Trigger:
    """An event must be a cell of the table, and follow the last one of its stream without a gap.

    ``cells`` are (event, from, to); the first event of a stream comes from "".
    """
    known = ",".join(f"'{event}:{source}:{target}'" for event, source, target in sorted(cells))
    return pgtrigger.Trigger(
        name=name,
        when=pgtrigger.Before,
        operation=pgtrigger.Insert,
        declare=[("before_sequence", "bigint"), ("before_status", "text")],
        func=f"""
            IF NOT (NEW.event_type || ':' || NEW.from_status || ':' || NEW.to_status
                    = ANY (ARRAY[{known}]::text[])) THEN
                RAISE EXCEPTION 'no transition % from % to %',
                    NEW.event_type, NEW.from_status, NEW.to_status;
            END IF;
            SELECT sequence, to_status INTO before_sequence, before_status
                FROM {table} WHERE {stream} = NEW.{stream} ORDER BY sequence DESC LIMIT 1;
            IF NEW.sequence IS DISTINCT FROM COALESCE(before_sequence, 0) + 1
                    OR NEW.from_status IS DISTINCT FROM COALESCE(before_status, '') THEN
                RAISE EXCEPTION 'event % of % (from %) does not follow % (%)',
                    NEW.sequence, NEW.{stream}, NEW.from_status, before_sequence, before_status;
            END IF;
            RETURN NEW;
        """,  # noqa: S608  the names and cells are our own words
    )
