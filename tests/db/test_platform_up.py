"""`manage.py up`, for real: it comes up, heals, survives a kill, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running import OPTIONS, PATIENCE_SECONDS, ROOT, Product, environment
from tests.served import free_port


def refusal(folder: Path, port: int) -> str:
    command = [sys.executable, "manage.py", "up", *OPTIONS, "--port", str(port)]
    refused = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert refused.returncode != 0
    return refused.stderr


@pytest.fixture(scope="module")
def shared(new_folder: Callable[[], Path]) -> Iterator[Product]:
    product = Product(new_folder() / "data", free_port())
    yield product
    product.end()


@pytest.fixture
def product(shared: Product) -> Product:
    """The module's product, ready."""
    if shared.process is None or shared.process.poll() is not None:
        shared.start()
    return shared


def test_it_says_ready_only_when_it_is(product):
    assert product.is_ready()
    assert f"http://127.0.0.1:{product.port}/" in product.said


def test_a_second_one_over_the_same_folder_is_refused(product):
    assert "already running" in refusal(product.folder, free_port())


def test_a_port_that_is_taken_is_refused_with_the_way_out(product, tmp_path):
    assert "--port" in refusal(tmp_path / "data", product.port)


def test_the_printed_address_opens_the_database_as_the_app(product):
    printed = product.command("database_url")
    assert printed.stdout.startswith("postgresql://agentplatform_app@")


def test_it_heals_when_the_database_is_killed(product):
    killed = product.database_pid
    os.kill(killed, signal.SIGKILL)
    product.eventually(lambda: "database ended" in product.said)
    product.eventually(product.is_ready)
    assert product.database_pid != killed


def test_beat_killed_alone_takes_its_program_along_and_both_come_back(product):
    def beats() -> list[int]:
        """Celery's children that are no zombies: there is one, and it is beat."""
        celery = [p for p in product.processes() if "celery" in p.cmdline()]
        mine = {p.pid for p in celery}
        return [p.pid for p in celery if p.ppid() in mine]

    product.eventually(beats)
    (killed,) = beats()
    os.kill(killed, signal.SIGKILL)
    product.eventually(lambda: "background ended" in product.said)
    product.eventually(beats)
    assert beats() != [killed]


def test_after_a_kill_it_starts_again_at_once(product):
    product.kill()
    product.start()
    assert product.is_ready()


def test_sigterm_stops_all_of_it(product):
    product.process.send_signal(signal.SIGTERM)
    assert product.process.wait(30) == 0
    assert "Stopped." in product.said
    assert product.processes() == []
