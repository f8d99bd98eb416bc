"""Workers that are killed, or stopped and woken: no run is lost, none is doubled, nothing late is written."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from runs import timeouts
from runs.domain.vocabulary import TASK_FINAL, Ev, RunStatus
from runs.models import Lease, Refusal, Run, RunEvent, Task
from tests import factories
from tests.db.test_sweep import lapse

pytestmark = pytest.mark.django_db(transaction=True)

#: A whole run is about twenty calls; a later one is never reached.
CALLS = 20
WORK: dict[str, Any] = {
    "completion_mode": "patch_ready_for_review",
    "agent": {"kind": "script", "command": "sed -i 's/utcnow()/now(datetime.UTC)/' clock.py"},
    "verifiers": [{"name": "test", "command": "grep -q UTC clock.py", "timeout_seconds": 60}],
    "budget": {"max_takeovers": 50, "max_runs": 50},
}

#: The next run of a task begins at once.
PROMPT = {"retry_base_seconds": 0.001, "retry_max_seconds": 0.001}
TTL, SWEPT_EVERY = 3, 1.0
SHORT_LIVED = {**PROMPT, "lease_seconds": TTL, "heartbeat_interval_seconds": 1}
#: Workers at a time, and one task fewer: somebody is always there to take over.
LANES = 4


@pytest.fixture
def start(live_server, tmp_path):
    """Starts a worker process that gets ``number`` at its ``at``-th call; each with a folder of its own."""
    started: list[subprocess.Popen[bytes]] = []
    folders = (tmp_path / str(number) for number in count())

    def begin(number: int = 0, at: int = 0, moment: str = "before") -> subprocess.Popen[bytes]:
        words = (live_server.url, factories.worker().token, next(folders), int(number), at, moment)
        command = [sys.executable, "-m", "tests.race.mortal_worker", *map(str, words)]
        started.append(subprocess.Popen(command, cwd=settings.BASE_DIR, stderr=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@contextmanager
def sweeping() -> Iterator[None]:
    """The sweep comes again and again, as beat lets it."""
    over = threading.Event()
    errors: list[str] = []

    def sweep() -> None:
        while not over.wait(SWEPT_EVERY):
            errors.extend(one.error for one in timeouts.sweep() if one.error)
        connection.close()

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert errors == []


def lose_leases() -> None:
    """As if the lease's time had passed without a heartbeat, and the sweep had come."""
    for run_id in Lease.objects.filter(ended_at=None).values_list("run_id", flat=True):
        lapse(run_id)
    assert [one.error for one in timeouts.sweep() if one.error] == []


@pytest.mark.parametrize(("kills", "slack"), [(6, 60), pytest.param(200, 5, marks=pytest.mark.long)])
def test_workers_killed_anywhere_are_taken_over_in_time_and_lose_or_double_nothing(kills, slack, start):
    seed = random.randrange(10**6)
    dice, where, one_at_a_time = (
        random.Random(seed),
        factories.repository(policy=SHORT_LIVED),
        threading.Lock(),
    )

    def kill_one(_: int) -> int:
        try:
            with one_at_a_time:
                if unfinished().count() < LANES - 1:
                    factories.task(where, **WORK)
                mortal = start(signal.SIGKILL, dice.randint(1, CALLS), dice.choice(["before", "after"]))
            return mortal.wait(120)
        finally:
            connection.close()

    with sweeping():
        with ThreadPoolExecutor(LANES) as lanes:
            ends = Counter(lanes.map(kill_one, range(kills)))
        while unfinished().exists():
            assert start().wait(120) == 0, seed
    assert ends[-signal.SIGKILL] > kills // 2, (seed, ends)
    tasks = Task.objects.count()
    assert Task.objects.filter(status="COMPLETED").count() == tasks, seed
    for run in Run.objects.filter(status=RunStatus.SUCCEEDED):
        types = list(RunEvent.objects.filter(run=run).values_list("event_type", flat=True))
        assert types.count(Ev.COMPLETION_CONDITION_MET) == 1, seed
    assert Run.objects.filter(status=RunStatus.SUCCEEDED).count() == tasks, seed
    slowest = max(takeovers(), default=0)
    assert slowest <= TTL + SWEPT_EVERY + slack, f"seed {seed}: {slowest} s"


def unfinished() -> QuerySet[Task]:
    return Task.objects.exclude(status__in=[status.value for status in TASK_FINAL])


def takeovers() -> Iterator[float]:
    """Seconds by the database's clock from each dead worker's last sign of life to the next one's lease."""
    for dead in Lease.objects.filter(end_reason="lease_lost").select_related("run"):
        after = Lease.objects.filter(run__task_id=dead.run.task_id, acquired_at__gt=dead.ended_at)
        taken = after.order_by("acquired_at").first()
        assert taken is not None, "it was taken over"
        yield (taken.acquired_at - dead.heartbeat_at).total_seconds()


@pytest.mark.parametrize("at", [3, 9])
def test_a_worker_stopped_beyond_its_lease_and_woken_writes_nothing(at, start):
    run = factories.queued_run(factories.repository(policy=PROMPT), **WORK)
    zombie = start(signal.SIGSTOP, at)
    until_stopped(zombie)
    lose_leases()
    if Run.objects.get(pk=run.pk).status == RunStatus.EXPIRED:
        run = Run.objects.get(task_id=run.task_id, attempt_no=2)
    start().wait(120)
    before = list(RunEvent.objects.order_by("run_id", "sequence").values_list("pk", flat=True))
    assert Run.objects.get(pk=run.pk).status == RunStatus.SUCCEEDED, "the taker finished"
    zombie.send_signal(signal.SIGCONT)
    zombie.wait(120)
    assert list(RunEvent.objects.order_by("run_id", "sequence").values_list("pk", flat=True)) == before
    refused = set(Refusal.objects.values_list("code", "fence"))
    assert refused <= {("lease_lost", 1), ("run_terminal", 1)}
    assert refused


def until_stopped(process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    for _ in range(6_000):
        if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
            return
        assert process.poll() is None, "it ended before it could be stopped"
        pause.wait(0.01)
    raise AssertionError("it was not stopped")
