"""The worker in shell that the protocol's page shows: it works, and is as short as it says.

It needs curl, jq and openssl, which a machine that only runs `make test` may not have: `make test-shell`
is a target of its own, and CI runs it after it has installed them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runs.domain.vocabulary import RunStatus
from tests.worker import product
from tests.worker.product import Product, contract
from worker.conformance.stand_in import StandIn

SCRIPT = Path(__file__).parents[2] / "docs" / "shell_worker.sh"
ONE_LINE = "sed -i s/two/three/ notes.txt"
REPAIRED = f'[ -s "$AGENT_FEEDBACK_FILE" ] && {ONE_LINE} || echo more >> notes.txt'


def test_it_is_as_short_as_it_says() -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 100
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)


@pytest.mark.shell
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("command", "repairs"), [(ONE_LINE, 0), (REPAIRED, 1)])
def test_it_runs_a_task_to_the_end(
    make_product: Callable[..., Product], tmp_path: Path, command: str, repairs: int
) -> None:
    made = make_product()
    run = made.submit(**{**contract(), "agent": {"kind": "script", "command": command}})
    token = tmp_path / "token"
    token.write_text(made.token)
    environment = {**os.environ, "URL": made.url, "TOKEN_FILE": str(token), "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(
        [str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert product.status(run) == RunStatus.WAITING_FOR_APPROVAL, done.stderr
    assert done.returncode == 0, done.stderr
    assert product.types(run).count("verification_failed_retryable") == repairs
    made.decide(run)
    made.push()
    assert product.status(run) == RunStatus.SUCCEEDED
    assert "three" in made.in_branch(run, "notes.txt")
    assert made.token not in done.stdout + done.stderr


@pytest.mark.shell
def test_a_beat_refused_before_the_last_answer_came_ends_nothing(plane: StandIn, tmp_path: Path) -> None:
    lost: list[str] = []

    def lose_the_last_answer(method: str, path: str) -> str | None:
        if path.endswith("/events") and plane.types()[-1:] == ["verification_passed"] and not lost:
            lost.append(path)
            return "lose"
        return None

    plane.break_call = lose_the_last_answer
    plane.state.heartbeat_interval_seconds = 0.05
    token = tmp_path / "token"
    token.write_text(plane.token)
    environment = {**os.environ, "URL": plane.url, "TOKEN_FILE": str(token), "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(
        [str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert lost
    assert ("lease_lost", "heartbeat") in [(code, call.split("/")[-1]) for code, call in plane.refusals]
    assert (done.returncode, plane.state.status) == (0, "SUCCEEDED"), done.stderr
