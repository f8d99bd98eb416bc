"""A campaign over a running product whose web, worker and background processes are killed again and again."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from runs.domain.campaigns.state import CampaignState, fold_campaign
from runs.domain.facts import Actor, Event
from tests.factories import make_origin
from tests.running import ROOT, Product, environment
from tests.served import free_port

PACE, CAP, EACH = 20, 12, 1
SECONDS_BETWEEN_KILLS, MOST_PATIENCE = (8.0, 20.0), 60.0
#: What of a command line tells which program it is.
PROGRAMS = {"web": "gunicorn", "background": "celery", "worker": "-m worker"}
POLICY = {
    "lease_seconds": 15,
    "heartbeat_interval_seconds": 5,
    "retry_base_seconds": 1,
    "retry_max_seconds": 2,
}
CONTRACT = {
    "title": "Say the hour",
    "instruction": "Write a file that says the hour.",
    "agent": {"kind": "script", "command": "echo noon > hour.txt"},
    "verifiers": [{"name": "there", "command": "test -s hour.txt", "timeout_seconds": 60}],
    "auto_pr": True,
    "budget": {"max_cost_usd": str(EACH), "max_runs": 1_000, "max_takeovers": 1_000, "max_attempts": 100},
}
_SETUP = """
import json, sys
from runs import service
from runs.models import Policy
names, policy = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name, url in names.items():
    service.repository_create(name=name, url=url, policy=policy)
"""


class Fleet(Product):
    """A product with two workers, and small repositories."""

    words = ("--no-demo", "--workers", "2")
    patience = 600.0
    token = ""

    def manage(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=environment(self.folder),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def make_repositories(self, count: int) -> None:
        """Copies of one small repository, each a remote of its own."""
        origin = make_origin(self.folder.with_name("origin")).path
        places = {f"fleet-{n:03}": self.folder.with_name("remotes") / f"{n:03}.git" for n in range(count)}
        for place in places.values():
            shutil.copytree(origin, place)
        addresses = {name: place.as_uri() for name, place in places.items()}
        program = f"import sys; sys.argv[1:] = {[json.dumps(addresses), json.dumps(POLICY)]!r}{_SETUP}"
        self.manage("shell", "--no-imports", "-c", program)

    def call(self, method: str, path: str, body: Any = None, key: str = "") -> Any:
        """The answer's JSON; None while nobody answers."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = json.dumps(body) if body is not None else None
            connection.request(method, f"/api/v1/{path}", sent, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if answer.status == 503:
            return None
        assert answer.status < 300, text
        return json.loads(text)

    def insist(self, *what: Any, **more: Any) -> Any:
        """The same call until somebody answers."""
        answers: list[Any] = []

        def ask() -> bool:
            answers.append(self.call(*what, **more))
            return answers[-1] is not None

        self.eventually(ask)
        return answers[-1]

    def kill_one(self, chance: random.Random, kills: Counter[str]) -> str:
        """SIGKILL to one of the programs that were killed least; "" where it is just being started again."""
        assert self.process is not None
        name = min(sorted(PROGRAMS), key=lambda program: (kills[program], chance.random()))
        living = [
            child for child in psutil.Process(self.process.pid).children() if _is(child, PROGRAMS[name])
        ]
        if not living:
            return ""
        chance.choice(living).kill()
        return name


def _is(process: psutil.Process, mark: str) -> bool:
    with suppress(psutil.Error):
        return mark in " ".join(process.cmdline())
    return False


@pytest.fixture
def fleet(new_folder: Callable[[], Path]) -> Iterator[Fleet]:
    product = Fleet(new_folder() / "data", free_port())
    yield product
    if product.process is not None:
        product.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            product.process.wait(timeout=60)
    product.kill()
    for process in product.processes():
        process.kill()


@pytest.mark.long
@pytest.mark.parametrize("count", [20, 200])
def test_a_campaign_ends_through_kills_of_web_worker_and_relay_within_its_limits(
    fleet: Fleet, count: int
) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    fleet.start()
    fleet.make_repositories(count)
    fleet.token = fleet.manage("create_person", "lena", "--role", "operator", "--token")
    limits = {"first_wave": 5, "pull_requests_per_hour": PACE, "max_cost_usd": str(CAP)}
    body = {"contract": CONTRACT, "repositories": ["fleet-*"], **limits}
    made = fleet.insist("POST", "campaigns", body, key="once")
    kills: Counter[str] = Counter()
    with psycopg.connect(fleet.manage("database_url"), autocommit=True) as database:
        watch = Watch(fleet, database, made["id"], seed)
        patience_ends = time.monotonic() + 300 + 60 * count
        while not watch.is_over():
            assert time.monotonic() < patience_ends, (seed, kills, watch.state.counts())
            due, before = time.monotonic() + chance.uniform(*SECONDS_BETWEEN_KILLS), len(watch.events)
            # What was killed is up again and has done something before the next: else nothing but starting
            # would be tried.
            while not watch.is_over() and not _is_time(due, grown=len(watch.events) > before):
                watch.look()
                time.sleep(0.5)
            kills[fleet.kill_one(chance, kills)] += 1
        watch.assert_done(count)
    assert all(kills[name] for name in PROGRAMS), kills


def _is_time(due: float, *, grown: bool) -> bool:
    """Whether to kill again; a campaign that stands still all the same is not waited for."""
    late = time.monotonic() - due
    return late > MOST_PATIENCE or (grown and late > 0)


class Watch:
    """What people and the database see of the campaign, again and again."""

    def __init__(self, fleet: Fleet, database: psycopg.Connection, campaign_id: str, seed: int) -> None:
        self.fleet, self.database, self.id, self.seed = fleet, database, campaign_id, seed
        self.events: list[Event] = []
        self.state = CampaignState()

    def is_over(self) -> bool:
        return self.state.is_over

    def look(self) -> bool:
        """The page's numbers are those of the log at the moment that they name, and every limit holds; False
        where nobody answered."""
        shape = self.fleet.call("GET", f"campaigns/{self.id}")
        if shape is None or not self._read_log():
            return False
        told = fold_campaign(self.events[: shape["sequence"]])
        assert shape["counts"] == told.counts(), self.seed
        seen = (shape["status"], shape["wave"], shape["opened"])
        assert seen == (told.status, told.wave, told.opened), self.seed
        self.state = fold_campaign(self.events)
        assert sum(bool(part.tries) for part in self.state.parts.values()) <= self.state.opened, self.seed
        assert sum(part.is_begun for part in self.state.parts.values()) * EACH <= CAP, self.seed
        self._look_at_pace()
        return True

    def _read_log(self) -> bool:
        while True:
            found = self.fleet.call("GET", f"campaigns/{self.id}/events?after={len(self.events)}&limit=200")
            if found is None:
                return False
            self.events += [_event(row) for row in found["results"]]
            assert [e.sequence for e in self.events] == list(range(1, len(self.events) + 1)), self.seed
            if found["next"] is None:
                return True

    def _look_at_pace(self) -> None:
        """Never more within an hour than the pace allows; where it is reached, an hour passes."""
        with self.database.cursor() as cursor:
            cursor.execute("SELECT created_at FROM pull_requests ORDER BY created_at")
            times = [row[0] for row in cursor.fetchall()]
            for first, later in zip(times, times[PACE:], strict=False):
                assert later - first >= timedelta(hours=1), self.seed
            cursor.execute("SELECT clock_timestamp() - interval '1 hour'")
            (since,) = cursor.fetchone() or (None,)
            if sum(at >= since for at in times) >= PACE:
                cursor.execute("UPDATE pull_requests SET created_at = created_at - interval '61 minutes'")

    def assert_done(self, count: int) -> None:
        """Each repository once: one task, one pull request, one branch of ours."""
        assert self.state.status == "COMPLETED", (self.seed, self.state.counts())
        assert self.state.counts()["done"] == count, self.seed
        with self.database.cursor() as cursor:
            for statement in (
                "SELECT count(*) FROM tasks",
                "SELECT count(*) FROM pull_requests",
                "SELECT count(DISTINCT repository_id) FROM pull_requests",
            ):
                cursor.execute(statement)
                assert cursor.fetchone() == (count,), (self.seed, statement)
        assert self.fleet.manage("rebuild_runs", "--check", "--run", self.id) == "No difference."
        self.fleet.manage("verify_log", "--run", self.id)


def _event(row: Any) -> Event:
    at = row["recorded_at"]
    actor = Actor(row["actor"]["type"], row["actor"]["id"], row["actor"]["name"])
    moved = (row["type"], row["from_status"] or "", row["to_status"])
    return Event(
        row["campaign_id"], row["sequence"], *moved, 0, actor, 0, row["payload"], row["facts"], at, at
    )
