"""A small parent for one untrusted command, run as a process of its own.

It adopts every process the command leaves behind (child subreaper), whatever session, process
group or environment those give themselves, and ends them all: when the command ends, when it is
told to stop, and when the worker itself dies. Standard library only: it starts in milliseconds.

    supervisor.py KILL_AFTER_SECONDS STATUS_FD FSIZE CPU NPROC -- PROGRAM ARGUMENT…

FSIZE (bytes), CPU (seconds) and NPROC (processes) are limits, 0 for none. On STATUS_FD it writes
the exit status, 128 + n for a command that died by signal n.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
WATCHED = STOP_SIGNALS | {signal.SIGCHLD}
NOT_STARTED = 127


def main(arguments: list[str]) -> None:
    kill_after, status_fd = float(arguments[0]), int(arguments[1])
    os.set_inheritable(status_fd, False)  # noqa: FBT003 - the call has no keyword
    _adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    child = os.fork()
    if child == 0:
        _become(arguments[6:], limits=[int(text) for text in arguments[2:5]])
    status = _watch(child, kill_after)
    os.write(status_fd, str(status).encode())


def _adopt_orphans() -> None:
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    # The worker may have died before the line above took hold.
    if os.getppid() != parent:
        sys.exit(1)


def _become(argv: list[str], *, limits: list[int]) -> None:
    try:
        os.setsid()
        kinds = (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_NPROC)
        for kind, wanted in zip(kinds, limits, strict=True):
            _limit(kind, wanted)
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


def _watch(child: int, kill_after: float) -> int:
    status: int | None = None
    deadline: float | None = None
    while True:
        status = _reap(child, status)
        finished = status is not None and deadline is None
        all_gone = deadline is not None and not descendants(os.getpid())
        late = deadline is not None and time.monotonic() >= deadline
        if finished or all_gone or late:
            break
        signalled = signal.sigtimedwait(WATCHED, 0.05 if deadline else 1.0)
        if signalled and signalled.si_signo in STOP_SIGNALS and deadline is None:
            deadline = time.monotonic() + kill_after
            _signal_all(signal.SIGTERM)
    return _end_all(child, status)


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
