"""Starting the worker under trial, once for each case."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker.conformance.cases import CASES, Case, state_of
from worker.conformance.stand_in import StandIn

FILES = {"notes.txt": "one\ntwo\n"}
SETTLE_SECONDS = 3.0
END_SECONDS = 15.0


@dataclass(frozen=True)
class Verdict:
    """`broken` is empty where the promise held; `output` is the end of what the worker said."""

    case: Case
    broken: Sequence[str]
    output: str


def run_cases(command: str, *, only: str = "", seconds: float = 60.0) -> Iterator[Verdict]:
    """Each case whose name contains `only`, one after the other."""
    for case in CASES:
        if only in case.name:
            with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
                yield run_case(case, command, folder=Path(folder), seconds=seconds)


def run_case(case: Case, command: str, *, folder: Path, seconds: float = 60.0) -> Verdict:
    """`seconds` is how long the worker may take in all."""
    remote = folder / "remote"
    commit = make_repository(remote)
    token_file = folder / "token"
    with StandIn(state_of(case, str(remote)), base_commit=commit) as plane:
        token_file.write_text(plane.token)
        case.prepare(plane)
        with _started(command, plane, token_file, folder) as process:
            in_time = _wait(case, plane, process, seconds=seconds)
        output = (folder / "output").read_text(errors="replace")[-2000:]
        broken = list(case.broken(plane))
    if not in_time and not broken:
        broken = [f"nothing came to an end within {seconds:.0f} s"]
    return Verdict(case, broken, output)


def make_repository(folder: Path) -> str:
    """A small repository with one commit; its id."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    person = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*person, "commit", "-q", "-m", "First"]):
        subprocess.run(["git", *words], cwd=folder, env=environment, check=True)
    shown = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    )
    return shown.stdout.strip()


@contextmanager
def _started(
    command: str, plane: StandIn, token_file: Path, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The worker in a process group of its own; nothing of it is left afterwards."""
    line = command.replace("{url}", plane.url).replace("{token_file}", str(token_file))
    environment = {**os.environ, "AGENTPLATFORM_URL": plane.url, "AGENTPLATFORM_TOKEN_FILE": str(token_file)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", line],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process)


def _wait(case: Case, plane: StandIn, process: subprocess.Popen[bytes], *, seconds: float) -> bool:
    """Until the case is over, and a little longer for what should not come; False when it never is."""
    deadline = time.monotonic() + seconds
    terminated = case.terminate_when is None
    while time.monotonic() < deadline:
        if not terminated and case.terminate_when and case.terminate_when(plane):
            os.killpg(process.pid, signal.SIGTERM)
            terminated = True
        if terminated and case.ends(plane):
            _watch_a_little(process)
            return True
        if terminated and not _alive(process):
            return case.ends(plane)
        time.sleep(0.05)
    return False


def _watch_a_little(process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + SETTLE_SECONDS
    while _alive(process) and time.monotonic() < until:
        time.sleep(0.05)


def _alive(process: subprocess.Popen[bytes]) -> bool:
    """Whether anything of the worker's group is left; its shell may end before the worker does."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        until = time.monotonic() + END_SECONDS
        while _alive(process) and time.monotonic() < until:
            time.sleep(0.02)
