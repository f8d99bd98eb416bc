"""The product as it is deployed: the commands that compose.yaml names, on Debian's servers, as production.

Each program can only read the root file system, but for the folder that its container may write.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import yaml

from tests import servers
from tests.served import free_port

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
HOST = "agents.example.com"
_APP, _OWNER, _NAME = "platform_app", "platform_owner", "platform"
_KEY = "no-secret-but-long-enough-" * 3
#: ``$0`` is the folder that may be written; everything else is read.
_READ_ONLY = 'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"'

Answer = tuple[int, Mapping[str, str], Any]


@dataclass
class Deployed:
    """One installation: its database and folder are there; programs are started and stopped by tests."""

    folder: Path
    broker: str = "memory://"
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def owner_url(self, database: str = _NAME) -> str:
        return servers.socket_url(self.folder / "debian", _OWNER, database)

    def pooled(self) -> psycopg.Connection:
        """A session of the app's login through the pooler."""
        url = servers.pooler_url(self.folder / "pooler", _APP, _NAME)
        return psycopg.connect(url, autocommit=True, prepare_threshold=None)

    def environment(self, service: str = "web") -> dict[str, str]:
        """Its variables, with values for this machine."""
        known = {
            "AGENTPLATFORM_ENV": "production",
            "AGENTPLATFORM_DATA_DIR": str(self.data),
            "AGENTPLATFORM_URL": f"https://{HOST}",
            "ALLOWED_HOSTS": HOST,
            "SECRET_KEY": _KEY,
            "EVENT_CHAIN_KEY": _KEY[::-1],
            "DATABASE_URL": servers.socket_url(self.folder / "debian", _APP, _NAME),
            "DATABASE_OWNER_URL": self.owner_url(),
            "CELERY_BROKER_URL": self.broker,
            "TRUST_PROXY_HEADERS": "true",
        }
        given = {name: known[name] for name in SERVICES[service]["environment"]}
        pooler = servers.pooler_url(self.folder / "pooler", _APP, _NAME)
        here = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TMPDIR": str(self.data),
            "PYTHONDONTWRITEBYTECODE": "1",
            "WEB_PROCESSES": "1",
        }
        return {**here, **given, **({"DATABASE_POOLER_URL": pooler} if service != "background" else {})}

    # --- programs ---------------------------------------------------------------------------------

    def migrate(self) -> None:
        """What stands before everything else."""
        command = SERVICES["migrate"]["command"]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment("migrate"), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def manage(self, *words: str) -> str:
        """What a command prints."""
        command = [sys.executable, "manage.py", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment(), capture_output=True, text=True, check=False,
            input="correct horse battery",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_web(self) -> Web:
        port = free_port()
        command = [f"127.0.0.1:{port}" if ":8000" in word else word for word in SERVICES["web"]["command"]]
        return Web(self._start("web", command), port, self.log("web"))

    def start_background(self) -> subprocess.Popen[bytes]:
        return self._start("background", SERVICES["background"]["command"])

    def _start(self, service: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        locked_in = ["unshare", "--mount", "sh", "-c", _READ_ONLY, str(self.data)]
        with self.log(service).open("ab") as log:
            process = subprocess.Popen(
                [*(locked_in if os.geteuid() == 0 else []), *command],
                cwd=ROOT, env=self.environment(service), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.programs.append(process)
        return process

    def log(self, service: str) -> Path:
        return self.folder / f"{service}.log"

    def kill(self) -> None:
        for process in self.programs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.programs.clear()

    # --- what the database knows ------------------------------------------------------------------

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """As a superuser, who alone sees what sessions of others do."""
        superuser = servers.socket_url(self.folder / "debian", "postgres", _NAME)
        with psycopg.connect(superuser, autocommit=True) as admin:
            return admin.execute(statement).fetchall()

    def beats(self) -> tuple[list[int], list[int]]:
        """Sessions of beats, and those of them that act."""
        found = self.rows(
            "SELECT pid, EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory')"
            " FROM pg_stat_activity a WHERE application_name = 'agentplatform beat'"
        )
        return [pid for pid, _ in found], [pid for pid, acts in found if acts]

    def undelivered(self) -> int:
        (row,) = self.rows("SELECT count(*) FROM deliveries WHERE state = 'pending'")
        count: int = row[0]
        return count

    def delivered(self) -> int:
        (row,) = self.rows("SELECT count(*) FROM deliveries WHERE state = 'delivered'")
        count: int = row[0]
        return count


@dataclass
class Web:
    """One web program; asked as the proxy before it would."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def ask(self, method: str, path: str, *, token: str = "", body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Host": HOST, "X-Forwarded-Proto": "https", "Content-Type": "application/json", **headers}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection.request(
                method, path, body=json.dumps(body) if body is not None else None, headers=sent
            )
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, dict(answer.getheaders()), json.loads(text) if text else None
        finally:
            connection.close()

    def until_ready(self) -> None:
        until(self._answers, lambda: self.log.read_text()[-3000:])

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        with contextlib.suppress(OSError):
            return self.ask("GET", "/readyz")[0] == 200
        return False


def until(condition: Callable[[], bool], said: Callable[[], object] = str, *, seconds: float = 180) -> None:
    """Return once it holds."""
    pause = threading.Event()
    for _ in range(int(seconds * 20)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError(f"it never came to be: {said()}")


@contextlib.contextmanager
def deployed(folder: Path) -> Iterator[Deployed]:
    """A migrated installation on Debian's PostgreSQL behind Debian's PgBouncer; no program runs yet."""
    folder.mkdir(parents=True, exist_ok=True)
    product = Deployed(folder)
    product.data.mkdir(mode=0o700)
    with (
        servers.postgres(folder / "debian", {"fsync": "off", "max_connections": "100"}),
        servers.pgbouncer(
            folder / "pooler", database_folder=folder / "debian", logins={_APP: ""}, pool_size=8
        ),
    ):
        superuser = servers.socket_url(folder / "debian", "postgres", "postgres")
        with psycopg.connect(superuser, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {_OWNER} LOGIN")
            admin.execute(f"CREATE ROLE {_APP} LOGIN")
            admin.execute(f"CREATE DATABASE {_NAME} OWNER {_OWNER}")
        product.migrate()
        try:
            yield product
        finally:
            product.kill()
            shutil.rmtree(product.data, ignore_errors=True)
