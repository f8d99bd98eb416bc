"""The crash laboratory: a real worker process, over HTTP, killed at every boundary of an outside effect.

The effect is a row in a database of its own, without any constraint: one that happened twice would show.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import F

from runs import timeouts
from runs.domain.vocabulary import RunStatus, StepState
from runs.models import Lease, Step
from tests import factories
from worker.client import ControlPlane, LeasedRun

pytestmark = pytest.mark.django_db(transaction=True)

#: Where a worker dies: in an operation of its own, or in one that it took over.
BOUNDARIES = ["claimed", "before the request", "requested", "effect happened", "result posted"]
PATIENT = dict.fromkeys(("max_takeovers", "max_outside_writes", "max_tool_calls", "max_repeats"), 10_000)


class Tracker:
    """The outside world: counts what was done to it, and can be asked whether it was."""

    def __init__(self, path: Path) -> None:
        self.world = sqlite3.connect(path)
        self.world.execute("CREATE TABLE IF NOT EXISTS effects (operation_id TEXT)")

    def happened(self, operation_id: str) -> bool:
        return self.times().get(operation_id, 0) > 0

    def act(self, operation_id: str) -> None:
        with self.world:
            self.world.execute("INSERT INTO effects VALUES (?)", [operation_id])

    def times(self) -> dict[str, int]:
        return dict(self.world.execute("SELECT operation_id, count(*) FROM effects GROUP BY 1").fetchall())


def work(url: str, token: str, world: Path, last: int, reached: Callable[[str], None]) -> None:
    """Finish what is pending, then go on to operation ``last``, knowing only what the control plane tells."""
    plane, tracker = ControlPlane(url=url, token=token), Tracker(world)
    claim = plane.claim(roles=[], labels=[], wait_seconds=10, key=f"claim-{os.getpid()}")
    assert claim is not None, "nothing was there to claim"
    leased = plane.leased(claim.lease)
    reached("claimed")
    for call in claim.resume.pending:
        finish(leased, tracker, call["operation_id"], reached)
    done = {entry["operation_id"] for entry in leased.resume().operations}
    for operation_id in (f"comment-{number}" for number in range(last + 1)):
        if operation_id not in done:
            reached("before the request")
            leased.post(
                "tool_requested",
                {
                    "operation_id": operation_id, "tool": "tracker", "arguments": {"text": operation_id},
                    "label": "Comment", "effect": "outside",
                },
            )  # fmt: skip
            reached("requested")
            finish(leased, tracker, operation_id, reached)
    leased.release(reason="done")


def finish(leased: LeasedRun, tracker: Tracker, operation_id: str, reached: Callable[[str], None]) -> None:
    if not tracker.happened(operation_id):
        tracker.act(operation_id)
    reached("effect happened")
    leased.post("tool_completed", {"operation_id": operation_id, "outcome": "succeeded"})
    reached("result posted")


def die_at(boundary: str) -> Callable[[str], None]:
    def reached(place: str) -> None:
        if place == boundary:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def process(url: str, token: str, world: Path, last: int, boundary: str) -> int:
    """The exit code of a worker that dies at ``boundary``, or goes on to the end where it is ""."""
    child = multiprocessing.get_context("fork").Process(
        target=work, args=(url, token, world, last, die_at(boundary))
    )
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def lapse(run_id: str) -> None:
    """The dead worker's lease runs out, and the sweep sees it."""
    held = Lease.objects.filter(run_id=run_id, ended_at=None)
    held.update(expires_at=F("expires_at") - timedelta(hours=1))
    timeouts.sweep()


@pytest.mark.parametrize("kills", [len(BOUNDARIES), pytest.param(200, marks=pytest.mark.long)])
def test_an_outside_effect_happens_once_wherever_the_worker_is_killed(live_server, tmp_path, kills):
    where = factories.repository(policy={"budget": PATIENT})
    holder = factories.run_in(RunStatus.EXECUTING, where=where)
    world, token = tmp_path / "world.db", holder.machine.token
    lapse(holder.run_id)
    connection.close()  # the children must not share it
    for boundary in islice(cycle(BOUNDARIES), kills):
        assert process(live_server.url, token, world, kills, boundary) == -signal.SIGKILL, boundary
        lapse(holder.run_id)
        connection.close()
    last = len(Tracker(world).times()) + 1
    assert process(live_server.url, token, world, last, "") == 0
    operations = {f"comment-{number}" for number in range(last + 1)}
    assert Tracker(world).times() == dict.fromkeys(operations, 1)
    steps = Step.objects.filter(run_id=holder.run_id, tool="tracker")
    assert set(steps.values_list("operation_id", "state")) == {(o, StepState.SUCCEEDED) for o in operations}
    state = holder.state
    assert (state.pending, {entry["operation_id"] for entry in state.operations}) == ({}, operations)
    assert state.used["takeovers"] == kills + 1
    assert state.fence == kills + 2
