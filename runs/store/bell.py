"""Says that there may be something to claim, to those who wait for it (``runs.bell``)."""

from __future__ import annotations

from typing import Final

from django.db import connection, transaction

BELL: Final = "runs_to_claim"


def ring() -> None:
    """Ring once this transaction has committed.

    Afterwards and not in it: a transaction that notifies commits in single file with all others that do.
    """
    transaction.on_commit(_notify, robust=True)


def _notify() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {BELL}")
