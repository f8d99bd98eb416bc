"""`manage.py up`: the whole product in the foreground, from an empty folder to an address that answers."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import http.client
import os
import socket
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from agentplatform import measures, programs
from agentplatform.postgres import PostgresError
from agentplatform.supervisor import Child, Supervisor
from runs.demo import load

_READY_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 20.0


class Command(BaseCommand):
    help = "Start everything: database, migrations, web, background work and the reference worker."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (default: 8000)")
        parser.add_argument(
            "--no-demo", action="store_true", help="leave an empty database empty; offer no one-click sign-in"
        )
        parser.add_argument("--no-worker", action="store_true", help="start no reference worker")
        parser.add_argument(
            "--workers", type=int, default=1, metavar="N", help="reference workers (default: 1)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        demo, workers = not options["no_demo"], 0 if options["no_worker"] else options["workers"]
        if demo and settings.DEMO_REFUSED:
            raise CommandError(f"{settings.DEMO_REFUSED} Pass --no-demo.")
        for folder in (settings.ARTIFACT_DIR, settings.MIRROR_DIR, settings.SANDBOX_DIR, settings.BROKER_DIR):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with _only_one(), Supervisor(settings.DATA_DIR / "up.mark", say=self._say) as supervisor:
                _check_port(options["port"])
                with _database(supervisor):
                    self._start(supervisor, port=options["port"], workers=workers, demo=demo)
                    supervisor.run()
                    supervisor.stop()
                measures.clear(settings.METRICS_DIR)
        except PostgresError as error:
            raise CommandError(str(error)) from error
        self._say("Stopped.")

    def _start(self, supervisor: Supervisor, *, port: int, workers: int, demo: bool) -> None:
        measures.clear(settings.METRICS_DIR)
        call_command("migrate", verbosity=0, interactive=False)
        if settings.PRODUCTION:
            call_command("collectstatic", verbosity=0, interactive=False)
        is_new = demo and load.is_empty()
        is_demo = is_new or (demo and load.is_demo_loaded())
        supervisor.start(_web(port, is_demo=is_demo))
        supervisor.start(programs.background(port))
        token_file = _token_file() if workers else None
        if is_new:
            call_command("load_demo", stdout=StringIO())
        connections.close_all()
        if not _wait_until_ready(supervisor, port, self._say):
            return
        if token_file:
            for number in range(1, workers + 1):
                supervisor.start(programs.reference_worker(number, port=port, token_file=token_file))
        self._say(f"Agent Platform is ready: {settings.PUBLIC_URL or f'http://127.0.0.1:{port}/'}")
        if is_demo:
            self._say(_demo_accounts())
        self._say("Ctrl-C stops it.")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    # The kernel gives the lock back when its holder dies, so a crash leaves nothing to clear away.
    descriptor = os.open(settings.DATA_DIR / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CommandError(f"It is already running with the data folder {settings.DATA_DIR}.") from None
    finally:
        os.close(descriptor)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CommandError(
                f"Port {port} is not free ({error.strerror}): choose another by --port."
            ) from None


@contextlib.contextmanager
def _database(supervisor: Supervisor) -> Iterator[None]:
    if not settings.EMBEDDED_DATABASE:
        yield
        return
    server = settings.EMBEDDED_SERVER
    with server.taken_over(), server.log_file.open("ab") as log:
        supervisor.start(programs.database(server, log))
        server.bootstrap(is_alive=lambda: supervisor.is_running("database"))
        yield


def _token_file() -> Path:
    path: Path = settings.DATA_DIR / "worker.token"
    if not path.exists():
        token = StringIO()
        roles = [word for role in programs.WORKER_ROLES for word in ("--role", role)]
        name = f"local-{os.urandom(3).hex()}"  # never the name of an account whose token was lost
        call_command("create_worker", name, *roles, stdout=token)
        _write_private(path, token.getvalue().strip())
    return path


def _web(port: int, *, is_demo: bool) -> Child:
    # Said either way: what the shell happens to export must not open a database of real work to one click.
    child = programs.web(port)
    return dataclasses.replace(
        child, environment={**child.environment, "AGENTPLATFORM_DEMO": "true" if is_demo else "false"}
    )


def _demo_accounts() -> str:
    with contextlib.suppress(FileNotFoundError):
        return load.accounts_file().read_text().strip()
    return "Demonstration data is in use; one click signs in."


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _wait_until_ready(supervisor: Supervisor, port: int, say: Callable[[str], None]) -> bool:
    """False when a signal came first; says what is missing when it takes long."""
    patience_ends = time.monotonic() + _PATIENCE_SECONDS
    while not supervisor.stopping:
        missing = _missing(port)
        if not missing:
            return True
        if time.monotonic() > patience_ends:
            say(f"Not ready yet: {missing}")
            patience_ends += _PATIENCE_SECONDS
        supervisor.wait(_READY_POLL_SECONDS)
        supervisor.revive()
    return False


def _missing(port: int) -> str:
    """What `/readyz` finds missing; nothing when it is ready."""
    host = settings.ALLOWED_HOSTS[0].lstrip(".*") or "127.0.0.1"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": host})
        answer = connection.getresponse()
        return "" if answer.status == http.HTTPStatus.OK else f"{answer.status} {answer.read(500).decode()}"
    except OSError as error:
        return str(error)
    finally:
        connection.close()
