"""Threads with connections of their own, let go at one instant."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection, transaction


def at_once(*actions: Callable[[], Any], seconds: float = 120) -> list[Any]:
    """Run each action in a thread on its own connection, all released by one barrier.

    ``seconds``: how long all of it may take. Returns what each returned or raised, in their order.
    """
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def work(index: int, action: Callable[[], Any]) -> None:
        connection.ensure_connection()
        barrier.wait(timeout=60)
        results[index] = _answer_of(action)

    threads = [threading.Thread(target=work, args=item) for item in enumerate(actions)]
    _run(threads, seconds)
    return results


def _run(threads: Sequence[threading.Thread], seconds: float = 120) -> None:
    ends = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=max(ends - time.monotonic(), 0))
        assert not thread.is_alive()


@contextmanager
def standing(count: int) -> Iterator[Callable[..., list[Any]]]:
    """``at_once`` for many rounds of ``count`` actions each: threads and connections are kept."""
    barrier = threading.Barrier(count)

    def begin(action: Callable[[], Any]) -> Any:
        connection.ensure_connection()
        barrier.wait(timeout=60)
        try:
            return action()
        except Exception as error:  # noqa: BLE001  the test looks at it
            return error

    with ThreadPoolExecutor(count) as pool:
        yield lambda *actions: list(pool.map(begin, actions))
        list(pool.map(begin, [connection.close] * count))


def behind(
    owner: psycopg.Connection, first: Callable[[], Any], *others: Callable[[], Any], commits: bool = True
) -> list[Any]:
    """What ``first`` answered, then what each of the others did, who had to wait for it.

    ``first`` acts in a transaction that stays open until the database itself says that all the others, each
    on a connection of its own, wait for a lock; none of them has an answer by then.
    """
    with ThreadPoolExecutor(len(others)) as pool:
        with transaction.atomic():
            won = first()
            waiting = [pool.submit(_answer_of, other) for other in others]
            wait_until_blocked(owner, sessions=len(others))
            assert not any(one.done() for one in waiting)
            transaction.set_rollback(not commits)
        return [won, *[one.result(timeout=60) for one in waiting]]


def _answer_of(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:  # noqa: BLE001  the test looks at it
        return error
    finally:
        connection.close()


def wait_until_blocked(owner: psycopg.Connection, *, sessions: int = 1) -> None:
    """Return once that many sessions of this database wait for another's lock."""
    statement = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    )
    pause = threading.Event()
    for _ in range(2_000):
        row = owner.execute(statement).fetchone()
        if row and row[0] >= sessions:
            return
        pause.wait(0.005)
    raise AssertionError(f"{sessions} sessions should be waiting for a lock")
