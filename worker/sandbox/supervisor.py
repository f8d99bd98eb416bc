"""A small parent for one untrusted command, run as a process of its own.

It adopts every process the command leaves behind (child subreaper), whatever session, process
group or environment those give themselves, and ends them all: when the command ends, when it is
told to stop, and when the worker itself dies. Standard library only: it starts in milliseconds.

    supervisor.py JSON -- PROGRAM ARGUMENT…

JSON is `{kill_after, status_fd, file_bytes, cpu_seconds, processes, memory_bytes, disk_bytes, disk,
walls}`: seconds; where to write; limits, 0 for none: the largest file and the processor time of each
process, and of all together how many they are, what they hold in memory, and what the folder `disk`
holds; and what `namespaces.py` builds around the command, or null. On STATUS_FD it writes the exit
status, 128 + n for a command that died by signal n, and after it the limit that ended it, if one did.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
WATCHED = STOP_SIGNALS | {signal.SIGCHLD}
NOT_STARTED = 127
PROCESSES_OF_A_USER = 4096
PAGE = resource.getpagesize()


def main(arguments: list[str]) -> None:
    orders: dict[str, Any] = json.loads(arguments[0])
    os.set_inheritable(orders["status_fd"], False)  # noqa: FBT003 - the call has no keyword
    if orders["walls"]:
        _namespaces().leave_shared(orders["walls"])
    _adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    child = os.fork()
    if child == 0:
        _begin(arguments[2:], orders)
    status, limit = _watch(child, orders)
    os.write(orders["status_fd"], f"{status} {limit}".encode())


def _namespaces() -> Any:
    # Isolated as this process is, its own folder is not looked in; nothing else there is a library's name.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    return importlib.import_module("namespaces")


def _adopt_orphans() -> None:
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    # The worker may have died before the line above took hold.
    if os.getppid() != parent:
        sys.exit(1)


def _begin(argv: list[str], orders: dict[str, Any]) -> None:
    """Become the command; behind walls, become its first process, and fork the command from it."""
    where = os.getcwd()  # noqa: PTH109
    if orders["walls"]:
        walls = _namespaces()
        try:
            walls.build(orders["walls"])
        except OSError as error:
            os.write(2, f"no walls could be built: {error}\n".encode())
            os._exit(NOT_STARTED)
        command = os.fork()
        if command:
            os._exit(_reap_all(command))
        os.chdir(where)
        walls.drop_capabilities()
    _become(argv, orders)


def _reap_all(command: int) -> int:
    """The first process of its world: when it ends, the kernel ends all the others."""
    while True:
        pid, raw = os.waitpid(-1, 0)
        if pid == command:
            code = os.waitstatus_to_exitcode(raw)
            return code if code >= 0 else 128 - code


def _become(argv: list[str], orders: dict[str, Any]) -> None:
    try:
        os.setsid()
        _limit(resource.RLIMIT_FSIZE, orders["file_bytes"])
        _limit(resource.RLIMIT_CPU, orders["cpu_seconds"])
        # A brake for the time between two looks; it counts all of a user's processes, and none of root's.
        _limit(resource.RLIMIT_NPROC, max(orders["processes"], PROCESSES_OF_A_USER))
        _limit(resource.RLIMIT_DATA, orders["memory_bytes"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - the command is what this is for
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode())
    os._exit(NOT_STARTED)


def _limit(kind: int, wanted: int) -> None:
    _, hard = resource.getrlimit(kind)
    if wanted and (hard == resource.RLIM_INFINITY or wanted < hard):
        resource.setrlimit(kind, (wanted, wanted))


def _watch(child: int, orders: dict[str, Any]) -> tuple[int, str]:
    status: int | None = None
    deadline: float | None = None
    meter = _Meter(orders)
    while True:
        status = _reap(child, status)
        finished = status is not None and deadline is None
        all_gone = deadline is not None and not descendants(os.getpid())
        late = deadline is not None and time.monotonic() >= deadline
        if finished or all_gone or late or meter.exceeded():
            break
        signalled = signal.sigtimedwait(WATCHED, 0.05 if deadline else meter.interval)
        if signalled and signalled.si_signo in STOP_SIGNALS and deadline is None:
            deadline = time.monotonic() + orders["kill_after"]
            _signal_all(signal.SIGTERM)
    return _end_all(child, None if meter.limit else status), meter.limit


class _Meter:
    """What the command and its offspring use together, looked at a few times a second."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self.limit = ""
        self._orders = orders
        self._disk_again = 0.0
        counted = orders["memory_bytes"] or orders["processes"] or orders["disk_bytes"]
        self.interval = 0.25 if counted else 1.0

    def exceeded(self) -> bool:
        pids = descendants(os.getpid())
        if 0 < self._orders["processes"] < len(pids):
            self.limit = "processes"
        elif 0 < self._orders["memory_bytes"] < sum(map(_resident_bytes, pids)):
            self.limit = "memory"
        elif self._orders["disk_bytes"] and self._disk_is_full():
            self.limit = "disk"
        return bool(self.limit)

    def _disk_is_full(self) -> bool:
        begun = time.monotonic()
        if begun < self._disk_again:
            return False
        most: int = self._orders["disk_bytes"]
        full = _bytes_below(self._orders["disk"], most=most) > most
        # A twentieth of the time at most goes into looking at what may be a million files.
        self._disk_again = time.monotonic() + max(0.5, 20 * (time.monotonic() - begun))
        return full


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as stream:  # noqa: PTH123
            return int(stream.read().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _bytes_below(folder: str, *, most: int) -> int:
    """What the files of a folder take up on disk; counting ends at the limit."""
    total, ahead = 0, [folder]
    while ahead and total <= most:
        try:
            with os.scandir(ahead.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
        except OSError:
            continue
    return total


def _end_all(child: int, status: int | None) -> int:
    # Stopped first: what forks faster than it is killed would otherwise outrun this loop.
    patience = time.monotonic() + 10
    while descendants(os.getpid()) and time.monotonic() < patience:
        _signal_all(signal.SIGSTOP)
        _signal_all(signal.SIGKILL)
        status = _reap(child, status)
        time.sleep(0.002)
    status = _reap(child, status)
    return status if status is not None else 128 + signal.SIGKILL


def _reap(child: int, status: int | None) -> int | None:
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            code = os.waitstatus_to_exitcode(raw)
            status = code if code >= 0 else 128 - code


def _signal_all(number: int) -> None:
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def descendants(root: int) -> list[int]:
    """Living processes below `root`, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double the start time
        if entry.isdigit():
            parent = _living_parent(entry)
            if parent is not None:
                children.setdefault(parent, []).append(int(entry))
    found, ahead = [], [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _living_parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:  # noqa: PTH123
            # The command's name may itself hold spaces and brackets.
            state, parent = stream.read().rsplit(b")", 1)[1].split()[:2]
    except (OSError, IndexError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


if __name__ == "__main__":
    main(sys.argv[1:])
