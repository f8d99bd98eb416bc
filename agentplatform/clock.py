"""Time is the database's clock; a process's own clock decides nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection


def database_now() -> datetime:
    """The database's present moment (not the start of its transaction), in UTC."""
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
