"""One product with everything around it: machines that work, a remote, a receiver, people who ask."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from agentplatform.postgres import Server
from tests.chaos.journal import Journal, read
from tests.chaos.load import Load
from tests.receivers import Receiver, receiver
from tests.running import ROOT, Product
from tests.served import free_port

MACHINES = 2


@dataclass
class World:
    product: Product
    folder: Path
    journal: Journal
    load: Load
    remote: Path
    webhook: str
    hook: Receiver
    machines: list[Machine] = field(default_factory=list)
    frozen: list[threading.Timer] = field(default_factory=list)

    def children(self, name: str) -> list[psutil.Process]:
        """Processes of one program of the product, `gunicorn` or `celery`, parents first."""
        found = []
        for process in self.product.processes():
            with suppress(psutil.Error):
                if name in " ".join(process.cmdline()[:4]):
                    found.append(process)
        return sorted(found, key=lambda process: (process.create_time(), process.pid))

    def database(self) -> list[psutil.Process]:
        """The server and what it began; nobody while it is down."""
        with suppress(OSError, ValueError, IndexError, psutil.Error):
            server = psutil.Process(self.product.database_pid)
            return [server, *server.children(recursive=True)]
        return []

    def freeze(self, processes: list[psutil.Process], seconds: float) -> None:
        """Stop them, and let them go on after that long whatever happens meanwhile."""
        _send(processes, signal.SIGSTOP)
        timer = threading.Timer(seconds, _send, [processes, signal.SIGCONT])
        timer.start()
        self.frozen.append(timer)

    def thaw(self) -> None:
        """Wait until nothing is stopped any more."""
        for timer in self.frozen:
            timer.join()

    def count(self, kind: str) -> int:
        """How much of that kind was acknowledged so far."""
        return sum(line["kind"] == kind for line in read(self.journal.path))

    def undelivered(self) -> int:
        """Messages of the outbox that somebody still waits for."""
        with psycopg.connect(self.server.app_url, connect_timeout=5) as database:
            row = database.execute("SELECT count(*) FROM deliveries WHERE state = 'pending'").fetchone()
        return int(row[0]) if row else 0

    @property
    def server(self) -> Server:
        return Server(self.product.folder / "postgres")

    def keep_machines(self) -> None:
        """Start those anew that have died."""
        for machine in self.machines:
            machine.keep()


@dataclass
class Machine:
    """A worker process over a folder of its own; whoever is killed is followed by another."""

    url: str
    token: str
    folder: Path
    journal: Path
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0

    def keep(self) -> None:
        if self.process is None or self.process.poll() is not None:
            words = (self.url, self.token, str(self.folder), str(self.journal))
            with self.folder.with_suffix(".log").open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "tests.chaos.machine", *words], cwd=ROOT, stdout=log, stderr=log
                )
            self.lives += 1

    def end(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def _send(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A ready product in ``folder``, under load from the first moment; all of it is gone afterwards."""
    with ExitStack() as stack:
        hook = stack.enter_context(receiver())
        product = Product(
            folder / "data",
            free_port(),
            WEB_PROCESSES="2",
            WEBHOOK_NETWORKS="127.0.0.0/8",
        )
        product.patience = 600.0  # the machine may be busy with much else
        stack.callback(product.end)
        product.start()
        prepared = product.command("-m", "tests.chaos.prepare", str(folder), hook.url)
        assert prepared.returncode == 0, prepared.stderr
        made = json.loads(prepared.stdout)
        journal = Journal(folder / "journal")
        stack.callback(journal.close)
        (folder / "effects").mkdir()
        load = Load(product.url, made, journal, folder)
        here = World(product, folder, journal, load, Path(made["remote"]), made["webhook"], hook)
        for number in range(MACHINES):
            here.machines.append(
                Machine(product.url, made["worker"], folder / f"machine-{number}", journal.path)
            )
            stack.callback(here.machines[-1].end)
        here.keep_machines()
        stack.enter_context(load.running())
        stack.callback(here.thaw)
        yield here


def calm_down(here: World, *, seconds: float) -> float:
    """Let no more come in and wait until what is under way has ended and was told; seconds that it took.

    What has not ended by then is for the audit to judge.
    """
    here.thaw()
    here.load.asking.clear()
    began = time.monotonic()
    here.product.eventually(here.product.is_ready)
    while time.monotonic() - began < seconds and (here.load.tasks or here.undelivered()):
        here.keep_machines()
        time.sleep(0.2)
    return time.monotonic() - began
