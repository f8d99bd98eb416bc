"""What is measured: the paths that workers and people use most, through the shipped endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings
from django.test import Client

from agentplatform.ids import new_id
from agentplatform.postgres import OWNER_ROLE, program
from runs import store
from runs.domain.facts import Json
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Lease
from tests import factories
from tests.bench import floor, load, seed
from tests.bench.table import Line

CONNECTIONS: Final = 16
DEEP: Final = 10_000  #: events of the long run
EVENT: Final[Json] = {
    "type": "model_decision",
    "payload": {"decision": "tool", "summary": "Look at the failing test"},
}
#: So generous that neither lease nor budget ends within a measurement.
POLICY: Final[Json] = {
    "lease_seconds": 3600,
    "budget": {"max_steps": 10**9, "max_tool_calls": 10**9, "max_duration_seconds": 10**6},
}


@dataclass
class Bench:
    """Where to measure, how long, and what the floor took."""

    port: int
    url: str
    folder: Path
    seconds: int

    def floor(self, script: str) -> tuple[float, float]:
        """Transactions per second and the 99th percentile in ms, of PostgreSQL alone."""
        return floor.measure(program("pgbench"), self.url, script, seconds=self.seconds, folder=self.folder)

    def load(self, requests: load.Requests, *, wanted: int, connections: int = CONNECTIONS) -> load.Result:
        """The load's result; fails when an answer was not the wanted one."""
        result = load.run(self.port, requests, connections=connections, seconds=self.seconds, wanted=wanted)
        if result.refused:
            raise RuntimeError(f"answers that were not wanted: {result.refused}")
        return result


def all_of(port: int, folder: Path, *, seconds: int, many: int) -> Iterator[Line]:
    """Every figure, in the order of the table of goals."""
    url = settings.EMBEDDED_SERVER.url(OWNER_ROLE, settings.DATABASES["default"]["NAME"])
    bench = Bench(port, url, folder, seconds)
    floor.prepare(url)
    busy = factories.run_in(RunStatus.EXECUTING, where=factories.repository(policy=POLICY))
    yield from _machines(bench, busy)
    yield from _claims(bench, busy, many=many)
    yield from _pages(bench, busy, many=many)
    floor.remove(url)


# --- what machines do ----------------------------------------------------------------------------


def _machines(bench: Bench, busy: factories.Holder) -> Iterator[Line]:
    lease = Lease.objects.get(run_id=busy.run_id, ended_at=None)
    seed.copy_runs(bench.url, busy.run_id, busy.run.task_id, lease.pk, first=1, count=CONNECTIONS)
    mine = [
        (seed.copy_of(busy.run_id, n), store.lease_token(seed.copy_of(lease.pk, n)))
        for n in range(1, CONNECTIONS + 1)
    ]
    floor_rate, floor_p99 = bench.floor(floor.EVENT)

    def posting(runs: list[tuple[str, str]], batch: int = 1) -> load.Requests:
        def one(number: int, _: int) -> bytes:
            run_id, lease_token = runs[number % len(runs)]
            return _post(busy.machine.token, run_id, lease_token, batch)

        return one

    spread = bench.load(posting(mine), wanted=201)
    yield Line("one event, each client its own run", spread.rate, "events/s", floor_rate, 0.20, 0.12)
    p99 = spread.percentile(0.99)
    yield Line("  its 99th percentile", p99, "ms", floor_p99, 15, 30, at_most=True)
    for size, reach, never in ((10, 1.5, 1.0), (100, 2.0, 1.2)):
        rate = bench.load(posting(mine, size), wanted=201).rate * size
        yield Line(f"batch of {size}, in events", rate, "events/s", floor_rate, reach, never)
    hot = bench.load(posting(mine[:2]), wanted=201)
    yield Line("all clients on 2 runs, of the spread", hot.rate, "events/s", spread.rate, 0.35, 0.25)
    beats = bench.load(
        lambda number, _: _heartbeat(busy.machine.token, *mine[number % len(mine)]), wanted=200
    )
    yield Line("heartbeat", beats.rate, "beats/s", bench.floor(floor.HEARTBEAT)[0], 0.15, 0.08)


def _post(token: str, run_id: str, lease_token: str, batch: int) -> bytes:
    headers = {"Authorization": f"Bearer {token}", "Lease-Token": lease_token}
    path = f"/api/v1/runs/{run_id}/events"
    if batch == 1:
        key = {"Idempotency-Key": new_id("key")}
        return load.request("POST", path, headers={**headers, **key}, body=json.dumps(EVENT).encode())
    events = [{"key": new_id("key"), **EVENT} for _ in range(batch)]
    return load.request(
        "POST", f"{path}/batch", headers=headers, body=json.dumps({"events": events}).encode()
    )


def _heartbeat(token: str, run_id: str, lease_token: str) -> bytes:
    headers = {"Authorization": f"Bearer {token}", "Lease-Token": lease_token}
    return load.request("POST", f"/api/v1/runs/{run_id}/heartbeat", headers=headers, body=b"{}")


def _claims(bench: Bench, busy: factories.Holder, *, many: int) -> Iterator[Line]:
    queued = factories.queued_run(busy.run.repository)
    floor_rate, _ = bench.floor(floor.CLAIM)
    headers = {"Authorization": f"Bearer {busy.machine.token}"}
    ask = load.request("POST", "/api/v1/leases", headers=headers, body=b'{"roles": ["worker"]}')

    def claiming(first: int, count: int) -> float:
        seed.copy_runs(bench.url, queued.pk, queued.task_id, first=first, count=count)
        return bench.load(lambda _, __: ask, wanted=201).rate

    few = claiming(1, max(many // 10, 5_000))
    rate = claiming(10_000_000, many)
    yield Line(f"claim, {many:,} queued", rate, "claims/s", floor_rate, 0.30, 0.15)
    yield Line("  of the rate with a tenth of them", rate, "claims/s", few, 0.75, 0.6)


# --- what people look at -------------------------------------------------------------------------


def _pages(bench: Bench, busy: factories.Holder, *, many: int) -> Iterator[Line]:
    cookie = {"Cookie": f"sessionid={_session()}"}
    plain = bench.load(_getting("/healthz", {}), wanted=200).rate

    def rate(path: str) -> float:
        return bench.load(_getting(path, cookie), wanted=200, connections=4).rate

    busy.post(Ev.MODEL_DECISION, decision="tool", summary="Look again")
    seed.copy_events(bench.url, busy.run_id, "model_decision", count=DEEP)
    page = rate(f"/runs/{busy.run_id}/")
    yield Line(f"run page, {DEEP:,} events", page, "pages/s", plain, 0.025, 0.01)
    deep = rate(f"/runs/{busy.run_id}/?at={DEEP // 2}")
    yield Line("  half way down, of the first screen", page / deep, "times", 1, 1.2, 1.5, at_most=True)
    where = factories.repository()  # whose runs nothing else of this bench claims
    machine = factories.worker(repositories=(where,))
    waiting = factories.run_in(RunStatus.WAITING_FOR_APPROVAL, where=where, machine=machine)
    seed.copy_runs(bench.url, waiting.run_id, waiting.run.task_id, first=1, count=1_000)
    little = rate("/approvals/")
    ended = _ended(factories.run_in(RunStatus.EXECUTING, where=where, machine=machine))
    seed.copy_runs(bench.url, waiting.run_id, waiting.run.task_id, first=2_000, count=4_000)
    seed.copy_runs(bench.url, ended.run_id, ended.run.task_id, first=1, count=many, spread_seconds=60)
    much = rate("/approvals/")
    yield Line(f"approval queue, 5,000 open of {many:,} runs", much, "pages/s", plain, 0.025, 0.01)
    yield Line("  of the time with 1,000 runs", little / much, "times", 1, 1.3, 2, at_most=True)
    for path in ("/runs/", "/tasks/"):
        yield Line(f"{path}, {many:,} runs", rate(path), "pages/s", plain, 0.025, 0.01)


def _ended(holder: factories.Holder) -> factories.Holder:
    failure = {"category": "TOOL_FAILED", "reason": "compiler_gone", "summary": "The compiler is gone."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    return holder


def _getting(path: str, headers: dict[str, str]) -> load.Requests:
    text = load.request("GET", path, headers=headers)
    return lambda _, __: text


def _session() -> str:
    client = Client()
    client.force_login(factories.person(PersonRole.REVIEWER))
    return client.cookies["sessionid"].value
