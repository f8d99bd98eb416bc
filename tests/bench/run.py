"""`make bench`: the shipped product under load, each figure beside the floor measured in the same run.

Starts a product of its own (embedded PostgreSQL, two web processes) in a folder of its own, on 127.0.0.1, and
prints a table of ratios: on a shared machine only what was measured side by side says anything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@contextmanager
def product(folder: Path) -> Iterator[tuple[int, int]]:
    """A running product in ``folder``; yields its port and its supervisor's process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "manage.py", "up", "--no-demo", "--no-worker", "--port", str(port)]
    log = (folder / "up.log").open("wb")
    process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log, env=os.environ)
    try:
        _wait_until_ready(port)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        log.close()


def _wait_until_ready(port: int) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.3)
    raise TimeoutError("the product did not become ready; see up.log")


def main() -> None:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="agentplatform-bench-"))
    os.environ["AGENTPLATFORM_DATA_DIR"] = str(folder / "data")
    os.environ["DJANGO_SETTINGS_MODULE"] = "agentplatform.settings"
    os.environ["LOG_LEVEL"] = "ERROR"
    try:
        with product(folder):
            pass  # set up; what follows is a start like any other
        begun = time.perf_counter()
        with product(folder) as (port, supervisor):
            ready = time.perf_counter() - begun
            import django

            django.setup()
            from tests.bench import figures, table, waits

            print(table.HEAD, flush=True)
            missed = 0
            lines = chain(
                [
                    table.Line(
                        "manage.py up on a set-up tree, ready after", ready, "s", 10, 1, 1, at_most=True
                    )
                ],
                figures.all_of(port, folder, seconds=options.seconds, many=options.many),
                waits.all_of(port, _web_processes(supervisor), policy=figures.POLICY),
            )
            for line in lines:
                print(line, flush=True)
                missed += line.verdict == "MISSED"
            sys.exit(1 if missed else 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _web_processes(supervisor: int) -> list[int]:
    """Those that answer requests: gunicorn's children."""
    below = psutil.Process(supervisor).children(recursive=True)
    web = [process for process in below if "gunicorn" in " ".join(process.cmdline())]
    return [process.pid for process in web if process.ppid() in {one.pid for one in web}]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=6, help="length of each measurement (default: 6)")
    parser.add_argument("--many", type=int, default=100_000, help="runs that wait, and that are listed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
