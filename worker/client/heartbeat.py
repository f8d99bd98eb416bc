"""Keeping a lease alive in the background, and hearing what the run's people want.

The interval is the server's: from the lease, and from a later answer that changes it. A lease that
could not be renewed for as long as it lives counts as lost even while the server is unreachable:
somebody else may hold the run by then.
"""

from __future__ import annotations

import logging
import threading
import time

from worker.client.errors import BadAnswer, LeaseLost, Refused, Unavailable
from worker.client.plane import LeasedRun
from worker.client.protocol import CONTINUE

logger = logging.getLogger("worker")


class Heartbeat:
    """A thread that beats until stopped. `lost` and `directive` may be read at any time."""

    def __init__(self, leased: LeasedRun) -> None:
        self._leased = leased
        self._interval = leased.lease.heartbeat_interval_seconds
        self._alive_until = time.monotonic() + leased.lease.seconds
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._directive = CONTINUE
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def lost(self) -> bool:
        return self._lost.is_set()

    @property
    def directive(self) -> str:
        return self._directive

    def observe(self, directive: str) -> None:
        """What an event's answer said, which may be newer than the last beat."""
        self._directive = directive

    def start(self) -> Heartbeat:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._interval + 5)

    def _run(self) -> None:
        wait = self._interval
        while not self._stop.wait(wait):
            renewed = self._beat()
            if self.lost:
                return
            # A missed beat is repeated soon: the lease outlives only a few of them.
            wait = self._interval if renewed else self._interval / 3

    def _beat(self) -> bool:
        sent = time.monotonic()
        try:
            beat = self._leased.heartbeat(timeout=max(1.0, self._interval))
        except LeaseLost:
            self._lost.set()
            return False
        except (Unavailable, Refused, BadAnswer) as error:
            logger.warning("heartbeat missed: %s", error)
            if time.monotonic() >= self._alive_until:
                self._lost.set()
            return False
        self._alive_until = sent + self._leased.lease.seconds
        self._interval = beat.interval_seconds or self._interval
        self._directive = beat.directive
        return True
