"""Rows by plain SQL, for the way that every event goes.

Through the ORM each statement costs about a millisecond of compiling, ten times what the database needs for
it. Here a statement's text depends on table and columns alone, its rows travel as one JSON document, and
statements whose answers nobody waits for go out together. Constraints, triggers and column types stay the
database's, and the models stay the one definition of the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from django.db import connection, models

Json = dict[str, Any]
Row = TypeVar("Row", bound=models.Model)


@contextmanager
def together() -> Iterator[psycopg.Cursor[Any]]:
    """A cursor whose statements go out in one round trip; all have been answered when the block ends.

    In a transaction only: what is refused half-way is rolled back with the rest.
    """
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    with connection.wrap_database_errors, raw.pipeline(), psycopg.Cursor(raw) as cursor:
        yield cursor


def ask(statement: str, words: Sequence[Any] | Json = ()) -> list[tuple[Any, ...]]:
    """The rows of one statement, bound by the server, and prepared by it when it comes again and again and no
    pooler stands between.

    A parameter whose type its place does not tell has a cast in the text.
    """
    connection.ensure_connection()
    if connection.queries_logged:  # who counts queries counts these, too
        connection.queries_log.append({"sql": statement, "time": "0"})
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(statement, words)
        return cursor.fetchall()


def insert(cursor: psycopg.Cursor[Any], model: type[models.Model], rows: Iterable[Json], *,
           replacing: tuple[str, ...] = ()) -> None:  # fmt: skip
    """Insert rows; a column that is not given has the model's default.

    ``replacing`` names the key of a row that may be there already: the columns given are laid over it.
    """
    table = model._meta.db_table  # noqa: SLF001  Django's documented way
    for columns, alike in _by_shape(rows):
        full = [{**_defaults(model), **row} for row in alike]
        laid_over = tuple(name for name in columns if name not in replacing) if replacing else ()
        cursor.execute(_insert(table, tuple(full[0]), replacing, laid_over), [_document(full)])


def update(cursor: psycopg.Cursor[Any], model: type[models.Model], rows: Iterable[Json], *,
           by: tuple[str, ...] = ("id",)) -> None:  # fmt: skip
    """Set the columns of rows, each found by its key."""
    table = model._meta.db_table  # noqa: SLF001
    for columns, alike in _by_shape(rows):
        cursor.execute(_update(table, columns, by), [_document(alike)])


def _by_shape(rows: Iterable[Json]) -> Iterable[tuple[tuple[str, ...], list[Json]]]:
    """Rows with the same columns go in one statement, in their order."""
    shapes: dict[tuple[str, ...], list[Json]] = {}
    for row in rows:
        shapes.setdefault(tuple(row), []).append(row)
    return shapes.items()


def columns_of(model: type[models.Model], alias: str) -> str:
    """All columns of a table, for a SELECT whose rows ``instance`` reads."""
    return ", ".join(f'{alias}."{field.column}"' for field in model._meta.concrete_fields)  # noqa: SLF001


def instance(model: type[Row], values: Sequence[Any]) -> Row:
    """The model's row of these values, in the order of ``columns_of``."""
    names, documents = _shape(model)
    given = list(values)
    for place in documents:  # Django leaves JSON as the text that the database sent
        if isinstance(given[place], str):
            given[place] = json.loads(given[place])
    return model.from_db(connection.alias, names, given)


# --- texts, made once ----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _insert(table: str, columns: tuple[str, ...], key: tuple[str, ...], laid_over: tuple[str, ...]) -> str:
    names = ", ".join(columns)
    values = f"SELECT {names} FROM jsonb_populate_recordset(NULL::{table}, %s::jsonb)"  # noqa: S608  our own names
    text = f"INSERT INTO {table} ({names}) {values}"
    if not key:
        return text
    new = ", ".join(f"{name} = excluded.{name}" for name in laid_over)
    return f"{text} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {new}"


@lru_cache(maxsize=256)
def _update(table: str, columns: tuple[str, ...], by: tuple[str, ...]) -> str:
    new = ", ".join(f"{name} = new.{name}" for name in columns if name not in by)
    found = " AND ".join(f"{table}.{name} = new.{name}" for name in by)
    return (
        f"UPDATE {table} SET {new} FROM jsonb_populate_recordset(NULL::{table}, %s::jsonb) new WHERE {found}"  # noqa: S608
    )


def _defaults(model: type[models.Model]) -> Json:
    return {name: make() for name, make in _default_makers(model)}


@lru_cache(maxsize=32)
def _default_makers(model: type[models.Model]) -> list[tuple[str, Callable[[], Any]]]:
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]  # noqa: SLF001
    return [(field.attname, field.get_default) for field in fields]


@lru_cache(maxsize=32)
def _shape(model: type[models.Model]) -> tuple[list[str], list[int]]:
    fields = model._meta.concrete_fields  # noqa: SLF001
    documents = [place for place, field in enumerate(fields) if isinstance(field, models.JSONField)]
    return [field.attname for field in fields], documents


def _document(rows: Sequence[Json]) -> str:
    return json.dumps(rows, default=_spelt)


def _spelt(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    raise TypeError(f"{type(value).__name__} has no column")
