"""`docs/tour.md`, taken by a newcomer: the product started as it says, every command in order."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tour.guide import ROOT, blocks_of, follow

BLOCKS = blocks_of(ROOT / "docs" / "tour.md")
PROMISES = [(n, text) for n, block in enumerate(BLOCKS) for text in dict.fromkeys(block.expects)]
PATIENCE = 120.0
LONGEST = 400.0


@pytest.fixture(scope="module")
def printed(new_folder: Callable[[], Path]) -> Iterator[list[str]]:
    """What each block printed, with a product of its own running beside it."""
    folder = new_folder()
    port = _free_port()
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    environment = {**kept, "AGENTPLATFORM_DATA_DIR": str(folder / "data"), "TMPDIR": str(folder)}
    said = folder / "said"
    with said.open("wb") as output:
        product = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--no-demo", "--port", str(port)],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_ready(product, said)
        address = f"http://127.0.0.1:{port}"
        yield follow(BLOCKS, environment={**environment, "URL": address}, folder=folder, seconds=LONGEST)
    except AssertionError as error:
        error.add_note(
            "".join(line for line in said.open() if " GET " not in line and "=GET" not in line)[-6000:]
        )
        raise
    finally:
        product.send_signal(signal.SIGTERM)
        try:
            product.wait(60)
        finally:
            product.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(product: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while "is ready" not in said.read_text():
        assert product.poll() is None, said.read_text()
        assert time.monotonic() < deadline, said.read_text()
        time.sleep(0.1)


def test_the_tour_promises_what_it_is_about():
    told = {text for _, text in PROMISES}
    assert told >= {
        "approval_forbidden",
        "approval_superseded",
        "fence 2",
        "Invalid transition",
        "permission denied",
        "Every chain holds",
        "No difference",
    }


@pytest.mark.parametrize(("number", "text"), PROMISES)
def test_each_comment_says_what_is_printed(printed, number, text):
    assert printed[number].count(text) >= BLOCKS[number].expects.count(text), printed[number]


def test_every_block_is_run(printed):
    assert len(printed) == len(BLOCKS)


def test_the_approved_patch_is_one_commit_on_the_base(printed):
    graph = next(text for text in printed if "Greet by name" in text)
    commits = [line.split(maxsplit=2)[2] for line in graph.splitlines() if line.startswith("* ")]
    assert commits == ["Use an f-string", "Greet by name"], graph
