"""Debian's own servers, started for tests: PostgreSQL, PgBouncer, Redis and RabbitMQ, each in a folder.

All but RabbitMQ listen on unix sockets alone. Each is a child of this process and dies with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

_PATIENCE = 120.0
_PACKAGES = "postgresql pgbouncer redis-server rabbitmq-server"
#: As root; else every server runs as whoever runs the tests.
_ACCOUNT = "postgres"
_PR_SET_PDEATHSIG = 1
POOLER_PORT = 6432


def program(name: str) -> str:
    """Where a server's program is; Debian keeps some off the path."""
    by_version = sorted(Path("/usr/lib/postgresql").glob("*"), key=lambda folder: int(folder.name))
    places = [str(folder / "bin") for folder in reversed(by_version)]
    places += ["/usr/lib/rabbitmq/bin", "/usr/sbin", "/usr/bin", os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(places))
    assert found, f"{name} is not here: apt-get install {_PACKAGES}"
    return found


def socket_url(folder: Path, role: str, database: str, port: int = 5432) -> str:
    """The address of a database whose server listens on a socket in ``folder``."""
    return f"postgresql://{role}@/{database}?host={quote(str(folder), safe='')}&port={port}"


def pooler_url(folder: Path, role: str, database: str) -> str:
    """The address of a database through the PgBouncer in ``folder``."""
    return socket_url(folder, role, database, POOLER_PORT)


def redis_url(folder: Path) -> str:
    """The broker address of the Redis in ``folder``."""
    return f"redis+socket://{folder / 'redis.sock'}"


@contextlib.contextmanager
def postgres(folder: Path, options: Mapping[str, str]) -> Iterator[None]:
    """Debian's PostgreSQL; ``postgres`` is its superuser, without a password on its socket in ``folder``."""
    _own(folder)
    data = folder / "data"
    words = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=postgres", "-D", str(data)]
    made = [program("initdb"), "--no-sync", *words]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd="/", **_account())
    all_options = {"listen_addresses": "", "unix_socket_directories": str(folder), **options}
    settings = [word for name, value in all_options.items() for word in ("-c", f"{name}={value}")]
    command = [program("postgres"), "-D", str(data), *settings]
    with _running(command, folder, stop=signal.SIGINT) as still_runs:
        _until(lambda: _answers(socket_url(folder, "postgres", "postgres")), still_runs, folder)
        yield


@contextlib.contextmanager
def pgbouncer(
    folder: Path, *, database_folder: Path, logins: Mapping[str, str], pool_size: int = 100
) -> Iterator[None]:
    """PgBouncer in transaction mode before the server in ``database_folder``, for these names and passwords.

    Server connections are used in turn, so that two statements of one client seldom meet the same one unless
    they are in one transaction.
    """
    _own(folder)
    (folder / "logins").write_text("".join(f'"{name}" "{word}"\n' for name, word in logins.items()))
    (folder / "pgbouncer.ini").write_text(
        f"""
[databases]
* = host={database_folder} port=5432
[pgbouncer]
unix_socket_dir = {folder}
unix_socket_mode = 0777
listen_addr =
listen_port = {POOLER_PORT}
auth_type = trust
auth_file = {folder}/logins
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 1000
server_round_robin = 1
log_connections = 0
log_disconnections = 0
"""
    )
    _own(folder)
    with _running([program("pgbouncer"), str(folder / "pgbouncer.ini")], folder) as still_runs:
        _until(lambda: _listens(folder / f".s.PGSQL.{POOLER_PORT}"), still_runs, folder)
        yield


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    """The broker address of a Redis of its own, without persistence."""
    _own(folder)
    place = folder / "redis.sock"
    words = ["--port", "0", "--unixsocket", str(place), "--unixsocketperm", "777", "--save", ""]
    with _running([program("redis-server"), *words], folder) as still_runs:
        _until(lambda: _listens(place), still_runs, folder)
        yield redis_url(folder)


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[str]:
    """The broker address of a RabbitMQ of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    port, names_port, distribution = (_free_port() for _ in range(3))
    (folder / "enabled_plugins").write_text("[].\n")
    (folder / "rabbitmq.conf").write_text("loopback_users = none\n")
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_SCHEDULER_BIND_TYPE": "u",
    }
    # The name service first, in our hands: started by the server itself it would outlive it.
    with _running([program("epmd")], folder, environment=environment) as names_run:
        _until(lambda: _is_open(names_port), names_run, folder)
        server = "/usr/lib/rabbitmq/bin/rabbitmq-server"
        with _running([server], folder, environment=environment) as still_runs:
            _until(lambda: _is_open(port), still_runs, folder)
            yield f"amqp://guest:guest@127.0.0.1:{port}//"


# --- parts ------------------------------------------------------------------------------------------


def _account() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(_ACCOUNT)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _own(folder: Path) -> None:
    """The folder, in the hands of the account that the server runs as; sockets in it are for everybody."""
    folder.mkdir(parents=True, exist_ok=True)
    account = _account()
    for place in (folder, *folder.iterdir()) if account else ():
        os.chown(place, account["user"], account["group"])
    for parent in (folder, *folder.parents):
        if account and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode & 0o7777 | 0o011)


@contextlib.contextmanager
def _running(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[Callable[[], bool]]:
    """The server runs inside; what is given says whether it still does."""
    account = {} if environment else _account()
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            env=dict(environment) if environment else None, start_new_session=True,
            preexec_fn=_die_with_us, **account,  # noqa: PLW1509  before any thread of ours
        )  # fmt: skip
    try:
        yield lambda: process.poll() is None
    finally:
        process.send_signal(stop)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _die_with_us() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _until(condition: Callable[[], bool], still_runs: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert still_runs(), _log(folder)
        assert time.monotonic() < deadline, _log(folder)
        time.sleep(0.02)


def _log(folder: Path) -> str:
    return (folder / "server.log").read_text(errors="replace")


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(place)) == 0


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
