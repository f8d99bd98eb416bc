"""Says that there may be something for those who wait for it (``runs.bell``): a run to claim, or the next
event of a run's log."""

from __future__ import annotations

from functools import partial
from typing import Final

from django.db import connection, transaction

BELL: Final = "runs"
TO_CLAIM: Final = ""  #: what a ring is about where it is about no run's log


def ring(about: str = TO_CLAIM) -> None:
    """Ring once this transaction has committed; ``about``: a run's id, for its log.

    Afterwards and not in it: a transaction that notifies commits in single file with all others that do.
    """
    transaction.on_commit(partial(_notify, about), robust=True)


def _notify(about: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [BELL, about])


_WATCH: Final = """
INSERT INTO run_watches (run_id, until) VALUES (%s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (run_id) DO UPDATE SET until = greatest(run_watches.until, excluded.until)
"""


def watch_run(run_id: str, *, seconds: float) -> None:
    """From its commit on, for that long, whoever writes to the run's log rings; nobody rings unasked."""
    with connection.cursor() as cursor:
        cursor.execute(_WATCH, [run_id, seconds])
