"""`manage.py up` with the demonstration: loaded unless asked not to, refused where others would reach it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    own = {"AGENTPLATFORM_DATA_DIR": str(folder), "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}
    return {**kept, **own, "WEB_PROCESSES": "1", **more}


class Demonstration:
    """`up` with one data folder; without a worker unless it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder.with_name("output")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, **variables: str) -> None:
        words = ["--port", str(self.port), *(options or ["--no-worker"])]
        command = [sys.executable, "manage.py", "up", *words]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(self.folder, **variables),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        ends = time.monotonic() + PATIENCE_SECONDS
        while "Ctrl-C stops it" not in self.said:
            assert time.monotonic() < ends, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def accounts_file(self) -> Path:
        return self.folder / "demo-accounts"

    def sign_in_page(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.port}/accounts/login/", timeout=30).text

    def branches(self) -> list[str]:
        """What agents brought out to the demonstration's remotes."""
        heads = (self.folder / "demo").glob("*.git/refs/heads/agent/*")
        return [head.name for head in heads]

    def is_offered(self) -> bool:
        return "/accounts/demo/ada/" in self.sign_in_page()


@pytest.fixture
def demonstration(new_folder: Callable[[], Path]) -> Iterator[Demonstration]:
    made = Demonstration(new_folder() / "data")
    yield made
    made.kill()
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("AGENTPLATFORM_DATA_DIR") == str(made.folder)
            if ours or str(made.folder / "postgres") in process.cmdline():
                process.kill()
        except psutil.Error:
            continue


def test_an_empty_folder_becomes_a_demonstration_unless_asked_not_to(demonstration):
    demonstration.start("--no-demo", "--no-worker", AGENTPLATFORM_DEMO="true")
    assert not demonstration.is_offered()
    assert not demonstration.accounts_file.exists()
    demonstration.kill()
    demonstration.start()
    assert demonstration.is_offered()
    assert demonstration.accounts_file.read_text() in demonstration.said


def test_its_work_ends_in_branches_with_nobodys_help(demonstration):
    demonstration.start("--workers", "1")
    ends = time.monotonic() + PATIENCE_SECONDS
    while len(demonstration.branches()) < 2:
        assert time.monotonic() < ends, demonstration.said
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("command", "variables", "said"),
    [
        ("up", {"ALLOWED_HOSTS": "agents.example.com,localhost"}, "Pass --no-demo"),
        ("up", {"AGENTPLATFORM_URL": "https://agents.example.com"}, "Pass --no-demo"),
        ("check", {"AGENTPLATFORM_DEMO": "true", "ALLOWED_HOSTS": "*"}, "AGENTPLATFORM_DEMO is on"),
        ("check", {"AGENTPLATFORM_DEMO": "true", "AGENTPLATFORM_ENV": "production"}, "in production"),
    ],
)
def test_it_refuses_to_start_where_others_reach_it(tmp_path, command, variables, said):
    needed = {
        "SECRET_KEY": "f8Y2kq9wT7" * 6,
        "EVENT_CHAIN_KEY": "k3P9zx4bN1" * 6,
        "ALLOWED_HOSTS": "localhost",
        "DATABASE_URL": "postgresql://app:pw@db.example.com/agents",
    }
    refused = subprocess.run(
        [sys.executable, "manage.py", command],
        cwd=ROOT,
        env=environment(tmp_path, **needed | variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert refused.returncode != 0
    assert said in refused.stderr
