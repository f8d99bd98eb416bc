"""A command that forks, hides, ignores signals or floods is contained, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.sandbox.process import CappedOutput, Command, Limits, Result, end_marked, run_command

Run = Callable[..., Result]
# No marker, no session, no parent: only adoption finds this one.
UNMARKED = (
    "(env -i setsid sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &) ;"
    " while ! [ -s pid ]; do :; done"
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A shell line with a marker of its own; nothing may carry it afterwards."""

    def start(line: str, *, must_stop: Callable[[], bool] = lambda: False, **settings: Any) -> Result:
        marker = uuid.uuid4().hex
        command = Command(
            argv=["/bin/sh", "-c", line],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            marker=marker,
            **{"timeout_seconds": 20.0, "kill_after_seconds": 0.3, **settings},
        )
        result = run_command(command, must_stop=must_stop)
        assert end_marked(marker, seconds=0)
        return result

    return start


def wait_until(condition: Callable[[], bool]) -> None:
    pause, deadline = threading.Event(), time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_status_and_output_come_back(run: Run) -> None:
    result = run("cat; echo err >&2; exit 7", stdin=b"in\n")
    assert (result.exit_code, result.output, result.ok) == (7, b"in\nerr\n", False)
    assert run("kill -KILL $$").exit_code == 128 + signal.SIGKILL


def test_a_missing_program_is_a_plain_failure(tmp_path: Path) -> None:
    command = Command(["/no/such"], tmp_path, {}, marker="missing", timeout_seconds=5)
    result = run_command(command)
    assert result.exit_code == 127
    assert b"cannot run /no/such" in result.output


def test_a_command_that_runs_too_long_is_timed_out(run: Run) -> None:
    result = run("sleep 1000", timeout_seconds=0.1)
    assert result.timed_out
    assert not result.stopped
    assert result.exit_code == 128 + signal.SIGTERM


def test_a_command_that_ignores_sigterm_is_killed(run: Run, tmp_path: Path) -> None:
    line = "trap '' TERM; touch ready; while :; do sleep 1; done"
    result = run(line, must_stop=(tmp_path / "ready").exists)
    assert result.stopped
    assert result.exit_code == 128 + signal.SIGKILL


def test_a_command_may_tidy_up_on_sigterm(run: Run, tmp_path: Path) -> None:
    line = "trap 'echo tidied; exit 3' TERM; touch ready; while :; do sleep 0.05; done"
    result = run(line, must_stop=(tmp_path / "ready").exists, kill_after_seconds=10)
    assert result.exit_code == 3
    assert result.output.endswith(b"tidied\n")


@pytest.mark.parametrize(
    "daemon",
    [
        "sleep 1000 &",
        "setsid sleep 1000 >/dev/null 2>&1 </dev/null &",
        UNMARKED,
    ],
)
def test_what_a_command_leaves_running_is_ended(run: Run, tmp_path: Path, daemon: str) -> None:
    result = run(f"echo begun; {daemon}\nexit 0")
    assert result.output == b"begun\n"
    assert result.exit_code == 0
    assert result.group_gone
    if (tmp_path / "pid").exists():
        assert not alive(int((tmp_path / "pid").read_text()))


def test_a_forking_command_is_ended_with_its_children(run: Run, tmp_path: Path) -> None:
    # Bounded, for the limit on processes does not hold for root.
    line = "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; touch ready; sleep 1000; }; f 5"
    result = run(line, must_stop=(tmp_path / "ready").exists)
    assert result.stopped
    assert result.group_gone


def test_a_flood_of_output_is_read_to_its_end_and_capped(run: Run) -> None:
    result = run("echo head; head -c 1000000000 /dev/zero; echo tail", output_limit=1 << 20)
    assert result.ok
    assert len(result.output) < (1 << 20) + 100
    assert result.output.startswith(b"head\n")
    assert result.output.endswith(b"tail\n")
    assert b"bytes left out" in result.output


def test_the_largest_file_is_limited(run: Run, tmp_path: Path) -> None:
    limits = Limits(file_bytes=100_000)
    result = run("head -c 200000 /dev/zero > big", limits=limits)
    assert not result.ok
    assert (tmp_path / "big").stat().st_size == 100_000


def test_the_processor_time_is_limited(run: Run) -> None:
    result = run("while :; do :; done", limits=Limits(cpu_seconds=1))
    assert result.exit_code in {128 + signal.SIGXCPU, 128 + signal.SIGKILL}
    assert not result.timed_out


def test_stopping_is_asked_for_while_the_command_is_silent(run: Run) -> None:
    asked = iter([False, True])
    result = run("exec >/dev/null 2>&1; sleep 1000", must_stop=lambda: next(asked, True))
    assert result.stopped
    assert not result.timed_out


def test_a_command_that_kills_its_supervisor_is_ended_all_the_same(run: Run) -> None:
    result = run("sleep 1000 & kill -9 $PPID; sleep 1000")
    assert not result.ok
    assert result.group_gone


def test_the_environment_is_what_was_given_and_no_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_TOKEN", "very-secret")
    names = {line.split(b"=")[0] for line in run("env").output.splitlines()}
    assert names <= {b"PATH", b"PWD", b"SHLVL", b"_", b"AGENTPLATFORM_SANDBOX", b"OLDPWD", b"LANG"}


def test_a_command_dies_with_its_worker(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from worker.sandbox.process import Command, run_command\n"
        "run_command(Command(['/bin/sh', '-c', 'echo $$ > pid; sleep 1000'], Path(sys.argv[1]),"
        " {'PATH': '/usr/bin:/bin'}, marker='dies-with-worker', timeout_seconds=100))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    worker = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=environment)
    pid_file = tmp_path / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    pid = int(pid_file.read_text())
    worker.kill()
    worker.wait()
    wait_until(lambda: not alive(pid))


def test_capped_output_keeps_both_ends_exactly() -> None:
    output = CappedOutput(10)
    for byte in b"0123456789":
        output.feed(bytes([byte]))
    assert output.value() == b"0123456789"
    output.feed(b"abcdefghijklmnopqrstuvwxyz")
    assert output.value() == "01234\n[… 26 bytes left out …]\nvwxyz".encode()


def test_a_command_that_cannot_be_started_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    too_long = {"PATH": os.defpath, "LONG": "x" * (200 << 10)}
    command = Command(argv=["true"], cwd=tmp_path, env=too_long, marker="m", timeout_seconds=5)
    with pytest.raises(OSError, match="too long"):
        run_command(command)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
