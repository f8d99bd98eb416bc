"""Production as it is deployed: pooler, brokers, several of each program, and the end of each."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests import servers
from tests.production.deployed import Deployed, Web, deployed, until

pytestmark = pytest.mark.servers

BROKERS = {"redis": servers.redis, "rabbitmq": servers.rabbitmq}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def product(new_folder: Callable[[], Path]) -> Iterator[Deployed]:
    with deployed(new_folder() / "production") as made:
        made.manage("create_person", "ada", "--role", "admin", "--password-stdin")
        made.manage("create_repository", "shop", "--url", "https://git.example.com/shop.git")
        yield made


@pytest.fixture(scope="module")
def person(product: Deployed) -> str:
    return product.manage("create_person", "ben", "--role", "admin", "--token", "--password-stdin")


@pytest.fixture(scope="module")
def machine(product: Deployed) -> str:
    return product.manage("create_worker", "one", "--role", "worker")


@pytest.fixture
def web(product: Deployed) -> Iterator[Web]:
    started = product.start_web()
    started.until_ready()
    yield started
    product.kill()


@pytest.fixture(params=BROKERS)
def broker(request, product: Deployed, new_folder) -> Iterator[None]:
    with BROKERS[request.param](new_folder()) as address:
        product.broker = address
        yield
        product.kill()


def submit(web: Web, person: str) -> str:
    """A task of that person, whose run is queued; the run's id."""
    task = {
        "title": f"Task {next(_numbers)}", "repository": "shop", "instruction": "Do it.", "submit": True,
        "completion_mode": "analysis_report_created", "risk_level": "low", "plan_approval": "never",
        "agent": {"kind": "script", "command": "true"},
    }  # fmt: skip
    status, _, made = web.ask("POST", "/api/v1/tasks", token=person, body=task)
    assert (status, made["status"]) == (201, "RUNNING"), made
    run_id: str = made["latest_run_id"]
    return run_id


def claim(web: Web, machine: str, seconds: int) -> tuple[int, str]:
    status, _, made = web.ask("POST", "/api/v1/leases", token=machine, body={"wait_seconds": seconds})
    return status, made["run"]["id"] if made else ""


def listens(product: Deployed) -> bool:
    """Somebody waits, and will hear."""
    statement = "SELECT query FROM pg_stat_activity WHERE application_name = 'agentplatform bell'"
    return ("LISTEN runs",) in product.rows(statement)


def test_a_session_behind_the_pooler_is_bounded_as_web_is(product):
    with product.pooled() as session:
        bounds = [
            session.execute(f"SHOW {name}").fetchone()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "jit")
        ]
    assert bounds == [("10s",), ("2s",), ("15s",), ("off",)]


def test_a_pooler_refuses_what_it_would_lose(product):
    """Why nothing is set at the start of a session there, and who listens goes past it."""
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
        psycopg.connect(product.pooled().info.dsn, options="-c statement_timeout=1000")


def test_a_claim_that_waits_at_one_web_is_woken_by_another(product, web, person, machine):
    other = product.start_web()
    other.until_ready()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claim, web, machine, 30)
        until(lambda: listens(product))
        run_id = submit(other, person)
        submitted_at = time.monotonic()
        assert waiting.result(timeout=60) == (201, run_id)
    assert time.monotonic() - submitted_at < 10


def test_a_web_that_is_asked_to_end_answers_who_waits_and_ends(product, web, machine):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claim, web, machine, 30)
        until(lambda: listens(product))
        asked_at = time.monotonic()
        web.process.send_signal(signal.SIGTERM)
        assert waiting.result(timeout=60) == (204, "")
        assert web.process.wait(timeout=60) == 0
    assert time.monotonic() - asked_at < 25


def test_one_beat_acts_another_takes_over_and_all_is_delivered_once(product, broker, web, person):
    said = product.log("background").read_text
    first = product.start_background()
    until(lambda: len(product.beats()[1]) == 1, said)
    second = product.start_background()
    until(lambda: [len(sessions) for sessions in product.beats()] == [2, 1], said)
    submit(web, person)
    until(lambda: product.undelivered() == 0, said)
    (acting,) = product.beats()[1]
    first.kill()  # itself alone: its beat must notice, and end
    first.wait()
    until(lambda: product.beats()[1] not in ([], [acting]), said)
    submit(web, person)
    until(lambda: product.undelivered() == 0, said)
    assert product.delivered() == len(product.rows("SELECT DISTINCT message_id, consumer FROM deliveries"))
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=60) == 0
    until(lambda: product.beats() == ([], []), said)
