"""Whether this process was asked to end: who works in rounds finishes what is in hand and begins nothing."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TypeVar

Item = TypeVar("Item")

_asked = threading.Event()
_listeners: list[Callable[[], None]] = []


def ask() -> None:
    """End soon. Safe to call from a signal handler's thread, and more than once."""
    _asked.set()
    for listener in _listeners:
        listener()


def is_asked() -> bool:
    """Nothing new should be begun."""
    return _asked.is_set()


def when_asked(act: Callable[[], None]) -> None:
    """Call ``act`` when the process is asked to end; it must not wait for anything."""
    if act not in _listeners:
        _listeners.append(act)


def until_asked(items: Iterable[Item]) -> Iterator[Item]:
    """The items, as long as nobody asks to end."""
    for item in items:
        if is_asked():
            return
        yield item


@contextlib.contextmanager
def on_signal() -> Iterator[None]:
    """Within it, the first SIGTERM asks; a second one ends the process as ever. For commands."""

    def asked(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before)
        ask()

    before = signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _asked.clear()
