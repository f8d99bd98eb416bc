"""The product as people start it: one `manage.py up` over a data folder of its own, on 127.0.0.1."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 180.0
OPTIONS = ("--no-demo", "--no-worker")


class Product:
    """One `up` over one data folder. ``words`` are its options, ``variables`` go into its environment."""

    words: tuple[str, ...] = OPTIONS
    patience = PATIENCE_SECONDS

    def __init__(self, folder: Path, port: int, **variables: str) -> None:
        self.folder, self.port, self.variables = folder, port, variables
        self.starts = 0
        self.output = folder.with_name("output-0")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it says that it is ready."""
        # One file each: children of a killed start may still write to theirs.
        self.starts += 1
        self.output = self.folder.with_name(f"output-{self.starts}")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", *self.words, "--port", str(self.port)],
                cwd=ROOT,
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.eventually(lambda: "is ready" in self.said)

    def environment(self) -> dict[str, str]:
        return environment(self.folder, **self.variables)

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
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of `manage.py`, or a module's (``-m name``), over the same data folder."""
        program = words if words[0] == "-m" else ("manage.py", *words)
        return subprocess.run(
            [sys.executable, *program],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=20 * PATIENCE_SECONDS,
        )

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

    def stop(self) -> None:
        """As a person would: it ends by itself, with all that it started."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        """Leave nothing behind, whatever state it is in."""
        self.kill()
        for process in self.processes():
            process.kill()

    def eventually(self, condition: Callable[[], object]) -> None:
        """Wait for what ``condition`` says; the product must live meanwhile."""
        deadline = time.monotonic() + self.patience
        while not condition():
            assert time.monotonic() < deadline, self.said
            assert self.process is None or self.process.poll() is None, self.said
            time.sleep(0.05)


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """What a product over ``folder`` sees: nothing of the tests' own settings."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    own = {"AGENTPLATFORM_DATA_DIR": str(folder), "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}
    return {**kept, **own, "WEB_PROCESSES": "1", **variables}
