"""Shutting down without dropping what is in hand."""

from __future__ import annotations

import threading
import time


class Drain:
    """Asked once: no new work, and the run in hand is given up at its next boundary.

    A running command gets `grace_seconds` to end by itself; asked twice, it gets none.
    """

    def __init__(self, *, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._asked = threading.Event()
        self._deadline = float("inf")

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    @property
    def overdue(self) -> bool:
        return self.asked and time.monotonic() >= self._deadline

    def ask(self) -> None:
        now = time.monotonic()
        self._deadline = now if self.asked else now + self._grace
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until asked; True when asked."""
        return self._asked.wait(seconds)
