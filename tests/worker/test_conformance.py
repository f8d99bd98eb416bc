"""The trial for other workers: the reference worker passes it, and each planted fault is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from worker.conformance.cases import CASES
from worker.conformance.command import conformance
from worker.conformance.running import run_case

ROOT = Path(__file__).parents[2]
OPTIONS = "--url {url} --token-file {token_file} --once --work-dir work --drain-seconds 0.5"
BY_NAME = {case.name: case for case in CASES}
QUICK = ("takeover", "shutdown")
# Each makes the reference worker break a promise.
FAULTS = {
    "claim answer lost": (
        "from worker.client.plane import ControlPlane as P; c = P.claim; k = lambda: uuid.uuid4().hex; "
        "P.claim = lambda self, *, key, **more: c(self, key=k(), **more)"
    ),
    "cancel": (
        "from worker.client.heartbeat import Heartbeat as H; H.directive = property(lambda self: 'continue')"
    ),
    "takeover": (
        "import worker.phases.calling as c; announce = c._announce; "
        "c._announce = lambda session, kind, pending: announce(session, kind, None)"
    ),
}
SAID = {
    "claim answer lost": "another key",
    "cancel": "never posted run_cancelled",
    "takeover": "another operation id",
}


def worker_line(fault: str = "") -> str:
    start = f"import sys, uuid; {fault or 'pass'}; from worker.__main__ import run; run(sys.argv[1:])"
    options = OPTIONS.replace("--once ", "") if "P.claim" in fault else OPTIONS
    return f'PYTHONPATH={ROOT} {sys.executable} -c "{start}" {options} --wait-seconds 0'


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in BY_NAME],
)
def test_the_reference_worker_keeps_every_promise(name: str, tmp_path: Path) -> None:
    verdict = run_case(BY_NAME[name], worker_line(), folder=tmp_path)
    assert verdict.broken == [], verdict.output


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "takeover" else [pytest.mark.long]) for name in FAULTS],
)
def test_a_broken_promise_is_named(name: str, tmp_path: Path) -> None:
    verdict = run_case(BY_NAME[name], worker_line(FAULTS[name]), folder=tmp_path, seconds=8)
    assert any(SAID[name] in reason for reason in verdict.broken), (verdict.broken, verdict.output)


def test_a_worker_that_does_nothing_fails_the_trial_with_what_it_said() -> None:
    done = CliRunner().invoke(
        conformance, ["--command", "echo I am no worker", "--only", "full line", "--seconds", "2"]
    )
    assert done.exit_code == 1
    assert "BROKEN  full line" in done.output
    assert "I am no worker" in done.output
    assert "1 promise broken" in done.output
