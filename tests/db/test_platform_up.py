"""`manage.py up`, for real: it comes up, heals, survives a kill, and leaves nothing behind."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.served import free_port

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 90.0


class Product:
    """One `up` over one data folder."""

    words: tuple[str, ...] = ("--no-demo", "--no-worker")
    patience = _PATIENCE

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.starts = 0
        self.output = folder.with_name("output-0")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # One file each: children of a killed start may still write to theirs.
        self.starts += 1
        self.output = self.folder.with_name(f"output-{self.starts}")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", *self.words, "--port", str(self.port)],
                cwd=ROOT,
                env=environment(self.folder),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.eventually(lambda: "is ready" in self.said)

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def database_pid(self) -> int:
        return int((self.folder / "postgres" / "postmaster.pid").read_text().splitlines()[0])

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def processes(self) -> list[psutil.Process]:
        """All that belong to this folder: children by their environment, the database by its command line."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = process.environ().get("AGENTPLATFORM_DATA_DIR") == str(self.folder)
                if mine or str(self.folder / "postgres") in process.cmdline():
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def eventually(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + self.patience
        while not condition():
            assert time.monotonic() < deadline, self.said
            assert self.process is None or self.process.poll() is None, self.said
            time.sleep(0.05)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    return {**kept, "AGENTPLATFORM_DATA_DIR": str(folder), "WEB_PROCESSES": "1"}


def refusal(folder: Path, port: int) -> str:
    command = [sys.executable, "manage.py", "up", "--no-demo", "--no-worker", "--port", str(port)]
    refused = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    assert refused.returncode != 0
    return refused.stderr


@pytest.fixture(scope="module")
def shared(new_folder: Callable[[], Path]) -> Iterator[Product]:
    product = Product(new_folder() / "data", free_port())
    yield product
    product.kill()
    for process in product.processes():
        process.kill()


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
    printed = subprocess.run(
        [sys.executable, "manage.py", "database_url"],
        cwd=ROOT,
        env=environment(product.folder),
        capture_output=True,
        text=True,
        check=True,
        timeout=_PATIENCE,
    )
    assert printed.stdout.startswith("postgresql://agentplatform_app@")


def test_it_heals_when_the_database_is_killed(product):
    killed = product.database_pid
    os.kill(killed, signal.SIGKILL)
    product.eventually(lambda: "database ended" in product.said)
    product.eventually(product.is_ready)
    assert product.database_pid != killed


def test_after_a_kill_it_starts_again_at_once(product):
    product.kill()
    product.start()
    assert product.is_ready()


def test_sigterm_stops_all_of_it(product):
    product.process.send_signal(signal.SIGTERM)
    assert product.process.wait(30) == 0
    assert "Stopped." in product.said
    assert product.processes() == []
