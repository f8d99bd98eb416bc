"""Long polling: ask again until there is something or the caller's patience ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from django.db import connection

T = TypeVar("T")
POLL_SECONDS: Final = 0.5


def wait_for(ask: Callable[[], T], *, seconds: float) -> T:
    """The first answer that is not empty, or the last one. Between two questions no connection is held."""
    until = time.monotonic() + seconds
    while not (found := ask()) and (left := until - time.monotonic()) > 0:
        if not connection.in_atomic_block:
            connection.close()  # back to the pool: hundreds may wait while a handful of connections work
        time.sleep(min(POLL_SECONDS, left))
    return found
