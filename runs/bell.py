"""Wakes those who wait, when there may be something for them: claims by a run to claim, readers of a log by
its next event. One listener for each process, and none where nobody waits (lifecycle contract, section 11:
within 100 ms of a run becoming claimable).

Nothing depends on it. A bell that is not heard, because the listener is reconnecting, costs whoever waits the
seconds until they ask again by themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import structlog

from agentplatform import stopping
from agentplatform.database import session
from runs import store
from runs.store import BELL, TO_CLAIM

log = structlog.get_logger(__name__)

IDLE_SECONDS: Final = 60.0  #: without anybody waiting, the listener's connection is given up
RECONNECT_SECONDS: Final = 2.0
#: Who waits asks again unasked after this: bells may go unheard.
ASK_AGAIN_SECONDS = 2.0
#: Of so many runs' logs is known when they last rang; then all may have.
MOST_KNOWN: Final = 1_000


class Bell:
    """Counts rings of this process. Read ``rings``, look, then ``wait``: no ring in between is missed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._listener: threading.Thread | None = None
        self._waiting = 0
        self._last: dict[str, int] = {}  #: what was rung about → the number of that ring
        self._all = 0  #: the number of the last ring that may have been about anything
        self.rings = 0

    def wait(self, heard: int, seconds: float, about: str = TO_CLAIM) -> None:
        """Return at the first ring about this after ``heard``, or when the seconds are over."""
        with self._among_waiters():
            self._changed.wait_for(lambda: max(self._all, self._last.get(about, 0)) > heard, timeout=seconds)

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

    def wake_all(self) -> None:
        """Let everybody look again."""
        self._ring()

    def _ring(self, about: str | None = None) -> None:
        """Rung about a run's log or about claims; None: perhaps about anything."""
        with self._changed:
            self.rings += 1
            if about is None or len(self._last) >= MOST_KNOWN:
                self._all, self._last = self.rings, {}
            else:
                self._last[about] = self.rings
            self._changed.notify_all()

    def _is_over(self) -> bool:
        with self._changed:
            if not self._waiting:
                self._listener = None
            return self._listener is None

    def _listen(self) -> None:
        while not self._is_over():
            try:
                with session(name="bell") as listening:
                    listening.execute(f"LISTEN {BELL}")
                    self._ring()  # for what came before we could hear
                    while not self._is_over():
                        for notice in listening.notifies(timeout=IDLE_SECONDS):
                            self._ring(notice.payload)
            except psycopg.Error as error:
                log.warning("bell_not_heard", error=type(error).__name__)
                time.sleep(RECONNECT_SECONDS)


bell: Final = Bell()
stopping.when_asked(bell.wake_all)


def begin_reading(run_id: str) -> Callable[[], Callable[[float], None]]:
    """For who reads a log that stands still: call what it returns before each look; what that returns waits.

    The first wait only says that somebody waits, and is over at once: from then on who writes rings.
    """
    said: list[bool] = []

    def begin() -> Callable[[float], None]:
        heard = bell.rings

        def wait(seconds: float) -> None:
            if said:
                bell.wait(heard, min(seconds, ASK_AGAIN_SECONDS), run_id)
            else:
                store.watch_run(run_id, seconds=seconds)
                said.append(True)

        return wait

    return begin
