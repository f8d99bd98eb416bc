"""Time is the database's clock; a process's own clock decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from django.db import connection

_turned: ContextVar[datetime | None] = ContextVar("turned", default=None)


@contextmanager
def clock_turned_to(moment: datetime) -> Iterator[None]:
    """Within it the present is ``moment``, in this thread alone: how a past is posted through the service.

    What the database compares with its own clock, such as whose turn a claim is, does not turn with it.
    """
    token = _turned.set(moment.astimezone(UTC))
    try:
        yield
    finally:
        _turned.reset(token)


def present(read: datetime) -> datetime:
    """The moment that a statement read from the database's clock, unless the clock was turned."""
    return _turned.get() or read.astimezone(UTC)


def database_now() -> datetime:
    """The database's present moment (not the start of its transaction), in UTC."""
    if (turned := _turned.get()) is not None:
        return turned
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now.astimezone(UTC)


def rfc3339(moment: datetime) -> str:
    """`2026-07-03T10:20:30.000000Z`: UTC, always with microseconds, so that text sorts as time does.

    Raises `ValueError` for a moment without an offset.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment needs an offset")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
