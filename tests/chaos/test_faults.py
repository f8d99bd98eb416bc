"""Everything dies, stands still and comes back under load; nothing is lost, doubled or unexplained."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import faults
from tests.chaos.world import World, calm_down, world

CALM_SECONDS = 240.0


@pytest.mark.parametrize(
    "is_long",
    [pytest.param(False, marks=pytest.mark.chaos), pytest.param(True, marks=pytest.mark.long)],
    ids=["quick", "long"],
)
def test_whatever_dies_under_load_nothing_acknowledged_is_lost_and_nothing_happens_twice(
    is_long: bool, new_folder: Callable[[], Path], record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(10**6)
    record_property("seed", seed)
    dice, folder = random.Random(seed), new_folder()
    with world(folder) as here:
        here.product.eventually(lambda: here.count("event"))  # until there is load, nothing can be lost
        history = break_things(here, dice, is_long=is_long)
        calm = calm_down(here, seconds=CALM_SECONDS)
        found, figures = audit(here)
    figures |= {
        "seconds to calm down": round(calm, 1),
        "faults": len(history),
        "answers": dict(here.load.counts),
        "alerts seen": dict(+here.load.alerts),
    }
    for name, value in figures.items():
        record_property(name, value)
    failed = {promise: broken for promise, broken in found.items() if broken}
    told = "\n".join([f"seed {seed}", *history, here.product.said[-4_000:]])
    assert not failed, f"{json.dumps(failed, indent=1)}\n{told}"
    assert not here.load.errors, f"seed {seed}: {here.load.errors}"
    assert not here.load.tasks, f"seed {seed}: {here.load.tasks} have not ended after {calm:.0f} s"
    assert sum(figures["acknowledged"].values()) > len(history), "there was no load"


def break_things(here: World, dice: random.Random, *, is_long: bool) -> list[str]:
    """Fault after fault, with little time between them; what happened when."""
    began, history = time.monotonic(), []
    for fault in faults.plan(dice, is_long=is_long):
        time.sleep(dice.uniform(0.1, 1.2))
        history.append(f"{time.monotonic() - began:7.1f} s  {fault.__name__}")
        fault(here, dice)
        here.keep_machines()
    return history


def audit(here: World) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """What the product's own database says afterwards, and the receiver of webhooks."""
    words = (str(here.journal.path), str(here.folder / "effects"), str(here.remote))
    done = here.product.command("-m", "tests.chaos.audit", *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found: dict[str, list[str]] = told["found"]
    found["a receiver hears of a run's events in their order"] = out_of_order(here)
    return found, {**told["figures"], "webhooks received": len(here.hook.posts)}


def out_of_order(here: World) -> list[str]:
    """After deduplication by id, as receivers are told to."""
    streams: dict[str, list[int]] = {}
    for post in {post.headers["webhook-id"]: post for post in here.hook.posts}.values():
        data = json.loads(post.body)["data"]
        streams.setdefault(data["stream"], []).append(data["sequence"])
    return [f"{stream}: {seen}" for stream, seen in streams.items() if seen != sorted(seen)]
