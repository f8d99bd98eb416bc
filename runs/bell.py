"""Wakes claims that wait, when there may be something for them: one listener for each process, and none where
nobody waits (lifecycle contract, section 11: within 100 ms of a run becoming claimable).

Nothing depends on it. A bell that is not heard, because a pooler stands between or the listener is
reconnecting, costs a waiting claim the seconds until it asks again by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import structlog
from django.conf import settings
from django.db import connection

from runs.store import BELL

log = structlog.get_logger(__name__)

IDLE_SECONDS: Final = 60.0  #: without anybody waiting, the listener's connection is given up
RECONNECT_SECONDS: Final = 2.0


class Bell:
    """Counts rings of this process. Read ``rings``, look, then ``wait``: no ring in between is missed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._listener: threading.Thread | None = None
        self._waiting = 0
        self.rings = 0

    def wait(self, heard: int, seconds: float) -> None:
        """Return at the first ring after ``heard``, or when the seconds are over."""
        with self._among_waiters():
            self._changed.wait_for(lambda: self.rings != heard, timeout=seconds)

    @contextmanager
    def _among_waiters(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            if self._listener is None:
                self._listener = threading.Thread(target=self._listen, name="bell", daemon=True)
                self._listener.start()
            try:
                yield
            finally:
                self._waiting -= 1

    def _ring(self) -> None:
        with self._changed:
            self.rings += 1
            self._changed.notify_all()

    def _is_over(self) -> bool:
        with self._changed:
            if not self._waiting:
                self._listener = None
            return self._listener is None

    def _listen(self) -> None:
        while not self._is_over():
            try:
                with _connect() as listening:
                    listening.execute(f"LISTEN {BELL}")
                    self._ring()  # for what came before we could hear
                    while not self._is_over():
                        for _ in listening.notifies(timeout=IDLE_SECONDS):
                            self._ring()
            except psycopg.Error as error:
                log.warning("bell_not_heard", error=type(error).__name__)
                time.sleep(RECONNECT_SECONDS)


def _connect() -> psycopg.Connection:
    """A connection of its own: never one of the pool, and past a pooler where its address is known."""
    if settings.DATABASE_LISTEN_URL:
        return psycopg.connect(settings.DATABASE_LISTEN_URL, autocommit=True)
    given = connection.get_connection_params()
    own = {name: value for name, value in given.items() if name not in ("cursor_factory", "context")}
    return psycopg.connect(**own, autocommit=True)


bell: Final = Bell()
