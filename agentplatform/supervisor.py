"""Keeps a few child processes running in the foreground, and leaves none behind.

Each child leads a process group of its own. A child that exits is started again, later each time; a signal
stops all of them, last stage first. Should this process be killed, the kernel tells the children; what still
lingers is found by the next start through the mark that every child carries in its environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Self

import psutil

_MARK = "AGENTPLATFORM_SUPERVISOR"
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_HEALTHY_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Child:
    """One program to keep running.

    Children of a higher `stage` are stopped before those of a lower one, and those of one stage together.
    It inherits the environment but for the names in `withheld`. `stop_signal` asks it to end; after
    `stop_seconds` its whole process group is killed. `options` are further arguments of `subprocess.Popen`.
    """

    name: str
    command: Sequence[str]
    stage: int
    environment: Mapping[str, str] = field(default_factory=dict)
    withheld: Collection[str] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 5.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Kept:
    child: Child
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    delay: float = _FIRST_DELAY
    due_at: float = 0.0


class Supervisor:
    """`with Supervisor(mark_file) as supervisor: supervisor.start(child); supervisor.run()`.

    Must live in the main thread: signals arrive there, and a child's link to its parent is to that thread.
    """

    def __init__(self, mark_file: Path, *, say: Say = print) -> None:
        self._mark_file = mark_file
        self._mark = secrets.token_hex(16)
        self._say = say
        self._kept: list[_Kept] = []
        self.stopping = False

    def __enter__(self) -> Self:
        stop_leftovers(self._mark_file, say=self._say)
        self._mark_file.write_text(self._mark)
        self._signals, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end)
        self._handlers = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGINT, self._on_stop),
                (signal.SIGTERM, self._on_stop),
                (signal.SIGHUP, self._on_stop),
                (signal.SIGCHLD, _notice),
            )
        }
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(signal.set_wakeup_fd(-1))
        os.close(self._signals)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._mark_file.unlink(missing_ok=True)

    def start(self, child: Child) -> None:
        """Start it now, and again whenever it exits."""
        kept = _Kept(child)
        self._kept.append(kept)
        self._launch(kept)

    def is_running(self, name: str) -> bool:
        """Whether that child lives at this moment."""
        return any(kept.child.name == name and _lives(kept.process) for kept in self._kept)

    def run(self) -> None:
        """Return when a signal asks to stop."""
        while not self.stopping:
            self.wait(self._next_due())
            self.revive()

    def wait(self, seconds: float | None) -> None:
        """Sleep, but no longer than until a signal arrives or a child exits."""
        if select.select([self._signals], [], [], seconds)[0]:
            os.read(self._signals, 1024)

    def revive(self) -> None:
        """Start the children that exited and whose time has come."""
        now = time.monotonic()
        for kept in self._kept:
            if _lives(kept.process) or self.stopping:
                continue
            if kept.process is not None:
                self._note_exit(kept, kept.process, now)
            if kept.due_at <= now:
                self._launch(kept)

    def stop(self) -> None:
        """Stop all, stage by stage; a second signal meanwhile kills what is left."""
        self.stopping = True
        for stage in sorted({kept.child.stage for kept in self._kept}, reverse=True):
            self._end([kept for kept in self._kept if kept.child.stage == stage])
        self._kept.clear()

    # --- Parts -------------------------------------------------------------

    def _launch(self, kept: _Kept) -> None:
        parent = os.getpid()
        kept.process = subprocess.Popen(
            list(kept.child.command),
            env={**_inherited(kept.child.withheld), **kept.child.environment, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal reaches us alone: we know the order
            preexec_fn=lambda: _die_with(parent, kept.child.stop_signal),  # noqa: PLW1509  one thread only
            **kept.child.options,
        )
        kept.started_at = time.monotonic()

    def _note_exit(self, kept: _Kept, process: subprocess.Popen[bytes], now: float) -> None:
        _kill_group(process.pid)
        if now - kept.started_at >= _HEALTHY_SECONDS:
            kept.delay = _FIRST_DELAY
        self._say(f"{kept.child.name} ended ({_reason(process.returncode)}); again in {kept.delay:.1f} s")
        kept.process = None
        kept.due_at = now + kept.delay
        kept.delay = min(kept.delay * 2, _LONGEST_DELAY)

    def _next_due(self) -> float | None:
        waiting = [kept.due_at for kept in self._kept if kept.process is None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _end(self, stage: list[_Kept]) -> None:
        asked_at = time.monotonic()
        ending = [(kept.child, kept.process) for kept in stage if kept.process is not None]
        for child, process in ending:
            process.send_signal(child.stop_signal)  # does nothing when it has exited
        for child, process in ending:
            try:
                process.wait(max(0.0, asked_at + child.stop_seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(f"{child.name} did not stop in {child.stop_seconds:.0f} s; killed")
            _kill_group(process.pid)
            process.wait()

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        if self.stopping:
            for kept in self._kept:
                if kept.process is not None and _lives(kept.process):
                    _kill_group(kept.process.pid)
        self.stopping = True


def stop_leftovers(mark_file: Path, *, say: Say = print, seconds: float = 5.0) -> None:
    """Stop what a killed supervisor left behind: the processes that carry its mark, and no others."""
    try:
        mark = mark_file.read_text().strip()
    except FileNotFoundError:
        return
    found = list(_carriers(mark)) if mark else []
    for process in found:
        say(f"stopping process {process.pid}, left over from a start that was killed")
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(found, timeout=seconds)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()  # psutil compares start times first, so a reused pid is safe
    mark_file.unlink(missing_ok=True)


def _carriers(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                yield process


def _die_with(parent: int, number: signal.Signals) -> None:
    """In the child: have the kernel send `number` when the parent dies, however it dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)  # it died before the kernel was told


def _inherited(withheld: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in withheld}


def _notice(_number: int, _frame: FrameType | None) -> None:
    """Nothing to do: having a handler is what makes the signal end a wait."""


def _lives(process: subprocess.Popen[bytes] | None) -> bool:
    return process is not None and process.poll() is None


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _reason(returncode: int) -> str:
    return f"signal {signal.Signals(-returncode).name}" if returncode < 0 else f"exit status {returncode}"
