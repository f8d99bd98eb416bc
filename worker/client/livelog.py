"""Output shown while it grows. A convenience: the whole output becomes an artifact anyway."""

from __future__ import annotations

import logging
import time

from worker.client.errors import WorkerError
from worker.client.plane import LeasedRun
from worker.sandbox.masking import Masker

logger = logging.getLogger("worker")

INTERVAL_SECONDS = 1.0
MOST_BYTES = 1 << 20
# A line longer than this is sent in parts, although a secret across the parts could slip through.
LONGEST_HELD = 1 << 16


class LiveLog:
    """Sends whole lines, masked, about once a second; gives up at the first refusal."""

    def __init__(self, leased: LeasedRun, operation_id: str, masker: Masker) -> None:
        self._leased = leased
        self._operation_id = operation_id
        self._masker = masker
        self._held = bytearray()
        self._offset = 0
        self._open = True
        self._next = time.monotonic() + INTERVAL_SECONDS

    def feed(self, data: bytes) -> None:
        if not self._open:
            return
        self._held += data
        if time.monotonic() >= self._next or len(self._held) > LONGEST_HELD:
            self._send(self._ready())

    def finish(self) -> None:
        """Send the rest."""
        if self._open and self._held:
            self._send(len(self._held))

    def _ready(self) -> int:
        if len(self._held) > LONGEST_HELD:
            return len(self._held)
        # The lines of a private key are only recognised together.
        key = self._held.rfind(b"-----BEGIN ")
        end = key if key >= 0 and self._held.find(b"-----END ", key) < 0 else len(self._held)
        return self._held.rfind(b"\n", 0, end) + 1

    def _send(self, count: int) -> None:
        self._next = time.monotonic() + INTERVAL_SECONDS
        if not count:
            return
        data = self._masker.mask(bytes(self._held[:count]))
        del self._held[:count]
        try:
            self._leased.append_log(self._operation_id, data, offset=self._offset)
        except WorkerError as error:
            logger.debug("live log closed: %s", error)
            self._open = False
            return
        self._offset += len(data)
        self._open = self._offset < MOST_BYTES
