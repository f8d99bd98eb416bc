"""Running a command that nobody trusts: bounded in time, output, files and offspring.

The command runs below `supervisor.py` in its own session, with exactly the environment it
is given. Its output is read to the end whatever its size, and kept as a head and a tail. When
`run_command` returns, nothing that the command started is alive, or `group_gone` says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

SUPERVISOR = Path(__file__).with_name("supervisor.py")
MARKER = "AGENTPLATFORM_SANDBOX"
OUTPUT_LIMIT_BYTES = 1 << 20
KILL_AFTER_SECONDS = 10.0
POLL_SECONDS = 0.1
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Of each process: largest file in bytes, processor seconds (0: enough for the time limit on all
    cores), data in memory. Of all together: processes, resident memory in bytes, and bytes on disk below
    the folder `disk`. 0 is none."""

    file_bytes: int = 1 << 30
    cpu_seconds: int = 0
    processes: int = 1024
    memory_bytes: int = 8 << 30
    disk_bytes: int = 10 << 30


@dataclass(frozen=True)
class Walls:
    """What `namespaces.py` builds: folders to keep writable, paths to hide, a folder to be /tmp.

    A command can neither move nor replace what is kept or is /tmp: what the worker opens there later is what
    it made. So only such folders are kept, and never one above what the worker reads or writes by name.
    """

    keep: Sequence[Path]
    hide: Sequence[Path] = ()
    tmp: Path | None = None
    network: bool = False


@dataclass(frozen=True)
class Command:
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    marker: str
    timeout_seconds: float
    stdin: bytes = b""
    kill_after_seconds: float = KILL_AFTER_SECONDS
    output_limit: int = OUTPUT_LIMIT_BYTES
    limits: Limits = field(default_factory=Limits)
    disk: Path | None = None
    walls: Walls | None = None


@dataclass(frozen=True)
class Result:
    """`exit_code` is 128 + n after signal n; `stopped`, `timed_out` and `limit` say who ended it, the last
    with the limit's name: `processes`, `memory` or `disk`."""

    exit_code: int
    output: bytes
    duration_ms: int
    timed_out: bool = False
    stopped: bool = False
    group_gone: bool = True
    limit: str = ""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out and not self.stopped and not self.limit


def run_command(
    command: Command,
    *,
    must_stop: Callable[[], bool] = lambda: False,
    on_output: Callable[[bytes], None] = lambda data: None,
) -> Result:
    """Run to the end, the time limit or `must_stop`, asked ten times a second."""
    started = time.monotonic()
    output = CappedOutput(command.output_limit)
    process, pipe, status = _start(command)
    ending = _Ending(process, deadline=started + command.timeout_seconds, must_stop=must_stop)
    with selectors.DefaultSelector() as selector, pipe:
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, selectors.EVENT_READ)
        while process.poll() is None:
            ending.consider(command.kill_after_seconds)
            if selector.select(POLL_SECONDS) and not _drain(pipe, output, on_output, blocks=64):
                selector.unregister(pipe)
                _wait_quietly(process, ending, command.kill_after_seconds)
        gone = end_marked(command.marker)
        _drain(pipe, output, on_output, blocks=1 << 16)
    exit_code, limit = _read_status(status)
    return Result(
        exit_code=exit_code,
        output=output.value() + (f"\n[ended: over the limit on {limit}]\n".encode() if limit else b""),
        duration_ms=int((time.monotonic() - started) * 1000),
        timed_out=ending.why == "timeout",
        stopped=ending.why == "stop",
        group_gone=gone,
        limit=limit,
    )


class CappedOutput:
    """The first and the last half of what was written, and how much lies between."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Cut seldom: cutting at each block would copy the tail again and again.
        if len(self._tail) > 2 * self._half:
            self._cut()

    def value(self) -> bytes:
        self._cut()
        if not self._dropped:
            return bytes(self._head + self._tail)
        marker = f"\n[… {self._dropped} bytes left out …]\n".encode()
        return bytes(self._head) + marker + bytes(self._tail)

    def _cut(self) -> None:
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess


class _Ending:
    """Decides when a command has to end, and insists."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        deadline: float,
        must_stop: Callable[[], bool],
    ) -> None:
        self.why: str | None = None
        self._process = process
        self._deadline = deadline
        self._must_stop = must_stop
        self._kill_at = 0.0

    def consider(self, kill_after: float) -> None:
        now = time.monotonic()
        if self.why is None:
            if self._must_stop():
                self._stop("stop", now + kill_after)
            elif now >= self._deadline:
                self._stop("timeout", now + kill_after)
        elif now >= self._kill_at:
            # The supervisor itself hangs: the marker finds what it leaves.
            self._process.kill()

    def _stop(self, why: str, latest: float) -> None:
        self.why = why
        self._kill_at = latest + 15
        self._process.send_signal(signal.SIGTERM)


def _start(command: Command) -> tuple[subprocess.Popen[bytes], IO[bytes], int]:
    """The process, its output, and the descriptor on which its status will be read."""
    read_end, write_end = os.pipe()
    output, output_end = os.pipe()
    try:
        process = _spawn(command, output, output_end, write_end)
    except BaseException:
        for descriptor in (read_end, output):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (write_end, output_end):
            os.close(descriptor)
    return process, os.fdopen(output, "rb", buffering=0), read_end


def _spawn(command: Command, output: int, output_end: int, write_end: int) -> subprocess.Popen[bytes]:
    # A flood passes in a tenth of the time through a pipe of this size.
    fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, BLOCK_BYTES)
    head = [sys.executable, "-I", "-S", str(SUPERVISOR), json.dumps(_orders(command, write_end))]
    with tempfile.TemporaryFile() as stdin, _termination_held_back():
        stdin.write(command.stdin)
        stdin.seek(0)
        return subprocess.Popen(
            [*head, "--", *command.argv],
            cwd=command.cwd,
            env={**command.env, MARKER: command.marker},
            stdin=stdin,
            stdout=output_end,
            stderr=subprocess.STDOUT,
            pass_fds=(write_end,),
            start_new_session=True,
        )


def _orders(command: Command, status_fd: int) -> dict[str, object]:
    limits, walls = command.limits, command.walls
    shown = walls and {
        "keep": [str(path) for path in walls.keep],
        "hide": [str(path) for path in walls.hide],
        "tmp": str(walls.tmp or ""),
        "network": walls.network,
    }
    return {
        "kill_after": command.kill_after_seconds,
        "status_fd": status_fd,
        "file_bytes": limits.file_bytes,
        "cpu_seconds": limits.cpu_seconds or int(command.timeout_seconds * (os.cpu_count() or 1)) + 60,
        "processes": limits.processes,
        "memory_bytes": limits.memory_bytes,
        "disk_bytes": limits.disk_bytes if command.disk else 0,
        "disk": str(command.disk or ""),
        "walls": shown,
    }


@contextmanager
def _termination_held_back() -> Iterator[None]:
    """What is started meanwhile inherits it: a supervisor told to stop before it listens hears it later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _drain(pipe: IO[bytes], output: CappedOutput, on_output: Callable[[bytes], None], *, blocks: int) -> bool:
    """Read what is there, a bounded number of blocks; False at the end of the stream."""
    for _ in range(blocks):
        try:
            data = os.read(pipe.fileno(), BLOCK_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.feed(data)
        on_output(data)
    return True


def _wait_quietly(process: subprocess.Popen[bytes], ending: _Ending, kill_after_seconds: float) -> None:
    """The command closed its output and goes on: only its end is left to wait for."""
    while True:
        try:
            process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            ending.consider(kill_after_seconds)
        else:
            return


def _read_status(descriptor: int) -> tuple[int, str]:
    """The exit status, and the limit that ended the command or ""."""
    with os.fdopen(descriptor, "rb") as stream:
        status, _, limit = stream.read().decode("ascii").partition(" ")
    # Nothing written: the command killed its supervisor.
    return (int(status), limit) if status else (128 + int(signal.SIGKILL), "")


def end_marked(marker: str, *, seconds: float = 10.0) -> bool:
    """Kill whatever still carries the marker in its environment; True when nothing is left."""
    deadline = time.monotonic() + seconds
    while pids := _marked(marker):
        if time.monotonic() >= deadline:
            return False
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.005)
    return True


def _marked(marker: str) -> list[int]:
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in variables:
            found.append(int(entry.name))
    return found
