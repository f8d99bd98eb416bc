from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from agentplatform.ids import first_id, moment_of, new_id


def test_an_id_is_a_prefix_and_a_ulid():
    assert re.fullmatch(r"run_[0-7][0-9A-HJKMNP-TV-Z]{25}", new_id("run"))


def test_ids_of_one_thread_grow():
    ids = [new_id("evt") for _ in range(5_000)]
    assert ids == sorted(set(ids))


def test_ids_grow_while_the_clock_goes_back(monkeypatch):
    before = new_id("evt")
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert new_id("evt") > before


def test_threads_never_draw_the_same_id():
    with ThreadPoolExecutor(8) as pool:
        drawn = [
            one for part in pool.map(lambda _: [new_id("evt") for _ in range(500)], range(8)) for one in part
        ]
    assert len(set(drawn)) == 4_000


def test_a_forked_child_does_not_repeat_its_parents_ids(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    new_id("evt")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_id("evt").encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 64).decode() != new_id("evt")
    os.close(reader)
    os.close(writer)


def test_a_bound_lies_between_the_ids_before_and_after_its_moment(monkeypatch):
    monkeypatch.setattr("agentplatform.ids._last", 0)
    moment = datetime(2026, 12, 1, 12, 0, 0, 1000, tzinfo=UTC)
    at = int(moment.timestamp() * 1000) * 1_000_000
    drawn = []
    for nanoseconds in (at - 1_000_000, at, at + 1_000_000):
        monkeypatch.setattr(time, "time_ns", lambda nanoseconds=nanoseconds: nanoseconds)
        drawn.append(new_id("run"))
    assert drawn[0] < first_id("run", moment) < drawn[1] < drawn[2]
    assert [moment_of(one) for one in (first_id("run", moment), drawn[1])] == [moment, moment]
