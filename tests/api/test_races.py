"""Over HTTP, with real connections: many at once, and each thing happens once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from runs.domain.vocabulary import RunStatus
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

#: At a time: the suite's server takes 300 connections, and every request opens its own.
THREADS = 16


@pytest.fixture
def http(live_server) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=THREADS, max_keepalive_connections=THREADS)
    url = f"{live_server.url}/api/v1/"
    with httpx.Client(base_url=url, timeout=60, trust_env=False, limits=limits) as client:
        yield client


def all_at_once(calls: list[Callable[[], None]]) -> None:
    """Each call in a thread of its own, all let go at the same moment."""
    gate, errors = threading.Barrier(len(calls)), []

    def run(call: Callable[[], None]) -> None:
        gate.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001  shown by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_50_posts_with_one_key_are_one_event(http):
    holder = factories.run_in(RunStatus.EXECUTING)
    before = holder.run.version
    body = {"type": "model_decision", "payload": {"decision": "tool", "summary": "look around"}}
    answers: list[httpx.Response] = []

    def say_it() -> None:
        headers = {"Idempotency-Key": "decision-1", "Lease-Token": holder.token}
        answers.append(post(http, holder.machine.token, f"runs/{holder.run_id}/events", body, headers))

    all_at_once([say_it] * 50)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 49}
    assert len({answer.json()["event"]["id"] for answer in answers}) == 1
    assert holder.run.version == before + 1


def post(
    http: httpx.Client, token: str, path: str, body: Any, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Repeated with the same key while the answer is 503, as clients do: a busy machine has short locks."""
    sent = {"Authorization": f"Bearer {token}", **(headers or {})}
    while (answer := http.post(path, json=body, headers=sent)).status_code == 503:
        assert answer.headers["Retry-After"]
    return answer
