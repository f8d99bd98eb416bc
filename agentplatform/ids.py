"""Prefixed ULIDs: opaque to callers, ordered by time for the database's indexes."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford: no I, L, O, U
_RANDOM_BITS = 80
_TIME_LENGTH = 10

_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """`run_01J…`: prefix, underscore, 26 characters; within a process each is greater than the one before."""
    return f"{prefix}_{_encoded(_next())}"


def first_id(prefix: str, moment: datetime) -> str:
    """Ids made before ``moment`` sort before it, those made from then on after it."""
    milliseconds = int(moment.timestamp() * 1000)
    return f"{prefix}_{_encoded(milliseconds << _RANDOM_BITS)[:_TIME_LENGTH]}"


def moment_of(made: str) -> datetime:
    """When an id was made, to the millisecond; also of what ``first_id`` gives."""
    milliseconds = 0
    for letter in made.partition("_")[2][:_TIME_LENGTH]:
        milliseconds = milliseconds << 5 | _ALPHABET.index(letter)
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _next() -> int:
    global _last
    drawn = (time.time_ns() // 1_000_000) << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8))
    with _lock:
        same_or_earlier_millisecond = drawn >> _RANDOM_BITS <= _last >> _RANDOM_BITS
        _last = _last + 1 if same_or_earlier_millisecond else drawn
        return _last


def _encoded(value: int) -> str:
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def _forget() -> None:
    """Parent and child of a fork must not count on from the same number."""
    global _last, _lock
    _last, _lock = 0, threading.Lock()


os.register_at_fork(after_in_child=_forget)
