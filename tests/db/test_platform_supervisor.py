"""Children are kept running, stopped in order, and never left behind. Every process here is real."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from agentplatform.supervisor import Supervisor, stop_leftovers

_PATIENCE = 20.0

# A supervisor of three children; each notes its pid when it starts and its name when it is asked to end.
_PROGRAM = """
    import sys
    from pathlib import Path
    from agentplatform.supervisor import Child, Supervisor

    folder = Path(sys.argv[1])
    CHILD = '''
    import os, signal, subprocess, sys
    name, folder, stubborn = sys.argv[1], sys.argv[2], sys.argv[3] == "stubborn"
    def asked(*_):
        with open(folder + "/ended", "a") as file: file.write(name + " ")
        if not stubborn: sys.exit()
    signal.signal(signal.SIGTERM, asked)
    if stubborn:
        deaf = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
        command, apart = [sys.executable, "-c", deaf], len(sys.argv) > 4
        grandchild = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=apart)
        grandchild.stdout.readline()
        with open(folder + "/grandchild", "w") as file: file.write(str(grandchild.pid))
    with open(folder + "/started-" + name, "a") as file: file.write(str(os.getpid()) + " ")
    while True: signal.pause()
    '''
    import textwrap
    def child(name, stage, *how):
        command = [sys.executable, "-c", textwrap.dedent(CHILD), name, str(folder), *how]
        return Child(name=name, stage=stage, command=command, stop_seconds=1.0)

    with Supervisor(folder / "mark") as supervisor:
        supervisor.start(child("low", 0, "polite"))
        supervisor.start(child("high", 1, *sys.argv[2:]))
        supervisor.run()
"""


class Running:
    def __init__(self, folder: Path, *how: str) -> None:
        self.folder = folder
        program = textwrap.dedent(_PROGRAM)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder), *(how or ["polite"])],
            stdout=subprocess.PIPE,
            text=True,
        )
        eventually(lambda: self.starts("low") and self.starts("high"))

    def starts(self, name: str) -> list[int]:
        return numbers(self.folder / f"started-{name}")

    def pids(self) -> list[int]:
        return [*self.starts("low"), *self.starts("high"), *numbers(self.folder / "grandchild")]


def numbers(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def has_more_starts(running: Running, count: int) -> bool:
    return len(running.starts("high")) > count


def gone(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    begun: list[Running] = []

    def _start(*how: str) -> Running:
        begun.append(Running(tmp_path, *how))
        return begun[-1]

    yield _start
    for running in begun:
        for pid in (running.process.pid, *running.pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.process.communicate()


def test_a_child_that_dies_is_started_again(start):
    running = start()
    os.kill(running.starts("high")[0], signal.SIGKILL)
    eventually(lambda: len(running.starts("high")) == 2)
    assert len(running.starts("low")) == 1


def test_a_child_that_keeps_dying_is_started_later_each_time(start):
    running = start()
    for _ in range(3):
        killed = running.starts("high")
        os.kill(killed[-1], signal.SIGKILL)
        eventually(partial(has_more_starts, running, len(killed)))
    running.process.send_signal(signal.SIGTERM)
    said, _ = running.process.communicate(timeout=_PATIENCE)
    assert [line.rpartition("again in ")[2] for line in said.splitlines()] == ["0.2 s", "0.4 s", "0.8 s"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_all_children_higher_stages_first(start, number):
    running = start()
    running.process.send_signal(number)
    assert running.process.wait(_PATIENCE) == 0
    assert (running.folder / "ended").read_text().split() == ["high", "low"]
    assert all(gone(pid) for pid in running.pids())


def test_a_child_that_does_not_stop_is_killed_with_its_children(start):
    running = start("stubborn")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(_PATIENCE) == 0
    assert len(running.pids()) == 3
    eventually(lambda: all(gone(pid) for pid in running.pids()))


def test_children_end_when_the_supervisor_is_killed(start):
    running = start()
    running.process.kill()
    eventually(lambda: all(gone(pid) for pid in running.pids()))


def test_the_next_start_stops_what_a_killed_supervisor_left_and_nothing_else(start, tmp_path):
    running = start("stubborn", "apart")
    stranger = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    running.process.kill()
    running.process.wait()
    left = [running.starts("high")[0], *numbers(tmp_path / "grandchild")]
    assert not any(gone(pid) for pid in left)
    try:
        stop_leftovers(tmp_path / "mark", say=lambda _: None, seconds=0.2)
        eventually(lambda: all(gone(pid) for pid in left))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_supervisor_gives_back_the_signal_handlers_it_took(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with Supervisor(tmp_path / "mark"):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    assert not (tmp_path / "mark").exists()
