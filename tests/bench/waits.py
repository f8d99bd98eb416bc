"""How long people and workers wait, and what the log costs to read again; held against fixed goals."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import psutil

from runs import rebuild, store
from runs.domain.fold import fold
from runs.domain.vocabulary import Ev, PersonRole, Role, RunStatus
from runs.models import Lease
from tests import factories
from tests.bench.table import Line
from tests.deciding import decide, open_request

LONG: Final = 10_000  #: events of the run that is folded
TRIES: Final = 7
PATIENCE: Final = 30  #: seconds


def all_of(port: int, web: list[int], *, policy: dict[str, object]) -> Iterator[Line]:
    """Each wait as the median of some. ``web``: process ids of the web processes."""
    yield from _log(policy)
    yield _at_most("approval clicked → its pull request has begun", _median(_approved), "ms", 1_000)
    yield _at_most(
        "run claimable → a waiting claim has the answer", _median(lambda: _queued(port)), "ms", 100
    )
    resident = max(psutil.Process(pid).memory_info().rss for pid in web) / 2**20
    yield _at_most("the largest web process after all this", resident, "MiB", 160)


def _at_most(name: str, value: float, unit: str, goal: float) -> Line:
    return Line(name, value, unit, goal, 1, 1, at_most=True)


def _log(policy: dict[str, object]) -> Iterator[Line]:
    """A run of 10,000 events that were all posted, folded from the first."""
    holder = factories.run_in(RunStatus.EXECUTING, where=factories.repository(policy=policy))
    step = (Ev.MODEL_DECISION, {"decision": "tool", "summary": "Look at the failing test"})
    for _ in range(LONG // 100):
        holder.post_all(*[step] * 100)
    events = list(store.events_of(holder.run_id))
    begun = time.perf_counter()
    fold(events)
    yield _at_most(f"fold of {len(events):,} events", 1_000 * (time.perf_counter() - begun), "ms", 1_000)
    begun = time.perf_counter()
    if rebuild.differences(holder.run_id, whole=True):
        raise RuntimeError("the rows differ from the log")
    rate = len(events) / (time.perf_counter() - begun)
    yield Line("  read and compared, by rebuild_runs --check", rate, "events/s", 5_000, 1, 1)


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(TRIES))


def _queued(port: int) -> float:
    """Milliseconds from the commit of a new run to the whole answer of a claim that waits for it."""
    where = factories.repository()
    return _heard(
        port, factories.worker(repositories=(where,)), Role.WORKER, lambda: factories.queued_run(where)
    )


def _approved() -> float:
    """From an approval to the lease under which the product opens the pull request."""
    request = open_request(factories.run_in(RunStatus.WAITING_FOR_APPROVAL, where=factories.repository()))
    leases = Lease.objects.filter(run_id=request.run_id)
    held, carol = leases.count(), factories.person(PersonRole.REVIEWER)
    decide(request, carol)
    begun = time.perf_counter()
    while leases.count() == held:
        if time.perf_counter() - begun > PATIENCE:
            raise RuntimeError("nobody began the pull request")
        time.sleep(0.003)
    return 1_000 * (time.perf_counter() - begun)


def _heard(port: int, machine: factories.Machine, role: Role, cause: Callable[[], object]) -> float:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(_claim, port, machine.token, role)
        time.sleep(1)  # until it waits
        cause()
        begun = time.perf_counter()
        status, at = answer.result(60)
    if status != http.HTTPStatus.CREATED:
        raise RuntimeError(f"the waiting claim was answered {status}")
    return max(1_000 * (at - begun), 0)


def _claim(port: int, token: str, role: Role) -> tuple[int, float]:
    asks = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asks.request("POST", "/api/v1/leases", json.dumps({"roles": [role], "wait_seconds": 20}), headers)
    with asks.getresponse() as answer:
        answer.read()
        return answer.status, time.perf_counter()
