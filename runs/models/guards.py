"""Triggers by which the database itself refuses what the service would never do
(lifecycle contract, 4.3 rule 4)."""

from __future__ import annotations

import pgtrigger

from runs.domain.table import edges
from runs.domain.vocabulary import Ev, RunStatus


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


def legal_events(name: str) -> pgtrigger.Trigger:
    """An event must be a cell of the table, and the next of its run."""
    cells = {f"{event}:{source}:{target}" for event, source, target in edges()}
    cells.add(f"{Ev.RUN_CREATED}::{RunStatus.CREATED}")
    known = ",".join(f"'{cell}'" for cell in sorted(cells))
    return pgtrigger.Trigger(
        name=name,
        when=pgtrigger.Before,
        operation=pgtrigger.Insert,
        func=f"""
            IF NOT (NEW.event_type || ':' || NEW.from_status || ':' || NEW.to_status
                    = ANY (ARRAY[{known}]::text[])) THEN
                RAISE EXCEPTION 'no transition % from % to %',
                    NEW.event_type, NEW.from_status, NEW.to_status;
            END IF;
            IF NEW.sequence IS DISTINCT FROM 1 + COALESCE(
                (SELECT max(sequence) FROM run_events WHERE run_id = NEW.run_id), 0) THEN
                RAISE EXCEPTION 'event % of run % is not the next', NEW.sequence, NEW.run_id;
            END IF;
            RETURN NEW;
        """,  # noqa: S608  the cells are our own words
    )
