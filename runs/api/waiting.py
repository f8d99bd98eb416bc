"""Long polling: ask again until there is something or the caller's patience ends.

Who waits holds a thread and nothing else. So that threads are left for everybody else, only so many wait
at a time; the others are answered at once, and are told when to come back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from django.conf import settings
from django.db import connection

from agentplatform import stopping

T = TypeVar("T")
#: Seconds after which a caller may come back who found no place to wait in.
COME_BACK_SECONDS: Final = 1

_places: Final = threading.BoundedSemaphore(settings.WAITING_PLACES)


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What was found, the last empty answer included; ``crowded``: there was no place to wait for more."""

    answer: T
    crowded: bool = False


def wait_for(
    ask: Callable[[], T], *, seconds: float, begin: Callable[[], Callable[[float], None]]
) -> Found[T]:
    """The first answer that is not empty, or the last one. Between two questions no connection is held.

    ``begin`` is called before each question; what it returns then waits, for at most the given seconds.
    """
    if seconds <= 0:
        return Found(ask())
    until = time.monotonic() + seconds
    pause = begin()
    if answer := ask():
        return Found(answer)
    with _place() as found_one:
        while found_one and not answer and (left := _seconds_left(until)) > 0:
            if not connection.in_atomic_block:
                connection.close()  # back to the pool: hundreds may wait while a handful of connections work
            pause(left)
            pause = begin()
            answer = ask()
    return Found(answer, crowded=not found_one)


def _seconds_left(until: float) -> float:
    """No time is left where the process is to end: who waits is answered at once, and asks another."""
    return 0.0 if stopping.is_asked() else until - time.monotonic()


@contextmanager
def _place() -> Iterator[bool]:
    found_one = _places.acquire(blocking=False)
    try:
        yield found_one
    finally:
        if found_one:
            _places.release()
