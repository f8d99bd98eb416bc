"""`python -m worker submit`: a file becomes a task, once for each key; refusals are printed in full."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pytest_django.live_server_helper import LiveServer

from runs.domain.vocabulary import PersonRole, TaskStatus
from runs.models import Task
from tests import factories as make
from worker.submit import main

pytestmark = pytest.mark.django_db(transaction=True)
TOML = """
title = "Replace utcnow"
repository = "clock"
instruction = "Everywhere."
[agent]
kind = "script"
command = "true"
[[verifiers]]
name = "test"
command = "true"
timeout_seconds = 60
"""


@pytest.fixture
def submit(live_server: LiveServer, tmp_path: Path):
    make.repository("clock", policy={"risk_ceiling": "medium"})
    token = tmp_path / "token"
    token.write_text(make.person_token(make.person(PersonRole.SUBMITTER)))

    def call(text: str, *options: str) -> Result:
        contract = tmp_path / "contract"
        contract.write_text(text)
        words = [str(contract), "--url", live_server.url, "--token-file", str(token), *options]
        return CliRunner().invoke(main, words)

    return call


def test_a_file_becomes_a_task_once_for_each_key(submit):
    first, again = submit(TOML, "--key", "k1"), submit(TOML, "--key", "k1")
    task = Task.objects.get()
    assert task.status == TaskStatus.RUNNING
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.output.startswith(f"{task.pk}  Queued  In the queue")
    assert submit('{"title": "x", "repository": "clock", "instruction": "y",'
                  ' "agent": {"kind": "script", "command": "true"}}', "--draft").exit_code == 0  # fmt: skip
    assert Task.objects.filter(status=TaskStatus.DRAFT).count() == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "neither JSON nor TOML"),
        (TOML.replace("Everywhere.", ""), "instruction: is required"),
        (f'risk_level = "high"\n{TOML}', "medium"),
    ],
)
def test_what_is_wrong_is_printed_and_the_command_fails(submit, text: str, said: str):
    result = submit(text)
    assert result.exit_code == 1
    assert said in result.output
