"""The worker's own loop, with a scripted model over real HTTP, all through the product."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import honcho
import pytest

from runs.artifacts import artifact_read
from runs.domain.vocabulary import RunStatus
from runs.models import Run
from tests.worker import product
from tests.worker.product import EDIT, FINISH, contract, say
from worker.models.scripted import ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)

S = RunStatus


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every request that scripted models get."""
    requests: list[dict[str, Any]] = []
    answer = ScriptedModel.answer

    def listen(self: ScriptedModel, request: dict[str, Any]) -> dict[str, Any]:
        requests.append(request)
        return answer(self, request)

    monkeypatch.setattr(ScriptedModel, "answer", listen)
    return requests


def package_files() -> dict[str, str]:
    """A published package as it lies in this environment, made a repository, with a program that uses it."""
    folder = Path(honcho.__file__).parent
    files = {f"honcho/{path.name}": path.read_text() for path in sorted(folder.glob("*.py"))}
    assert "log.warn(" in files["honcho/command.py"]
    files["launcher.py"] = (
        "from honcho import command\n\n\n"
        "def begin(procfile):\n"
        "    command._check_output_encoding()\n"
        "    command.log.warn('starting %s', procfile)\n"
    )
    files["test_launcher.py"] = (
        "import sys, unittest, unittest.mock\n"
        "import launcher\n\n\n"
        "class Terminal(unittest.TestCase):\n"
        "    def test_a_terminal_without_utf8_is_warned(self):\n"
        "        out = unittest.mock.Mock(encoding='ascii')\n"
        "        with unittest.mock.patch.object(sys, 'stdout', out):\n"
        "            with self.assertLogs(launcher.command.log) as logs:\n"
        "                launcher.begin('Procfile')\n"
        "        self.assertEqual([record.levelname for record in logs.records], ['WARNING'] * 2)\n"
    )
    return files


def test_a_model_migrates_a_published_package_and_repairs_what_its_tests_show(make_product, asked):
    made = make_product(package_files())
    python = f"{sys.executable} -W error::DeprecationWarning -m unittest -q"
    run = made.submit(
        title="Replace log.warn",
        instruction="Replace the deprecated log.warn by its successor.",
        verifiers=[{"name": "tests", "command": python, "timeout_seconds": 60}],
        agent={"kind": "model", "model": "scripted", "script": {"follows": "deprecations"}},
    )
    # Neither the task nor the model knows what to write: Python says it, in what the checks print.
    assert "warning" not in json.dumps(run.task.contract)
    made.work(judge_model="scripted")
    assert product.status(run) == S.WAITING_FOR_APPROVAL, product.types(run)
    first, second = (set(patch.facts["paths"]) for patch in product.artifacts(run, "patch"))
    assert (first, second) == ({"honcho/command.py"}, {"honcho/command.py", "launcher.py"})
    _is_repaired_from_what_its_checks_said(run, asked)
    made.decide(run)
    made.push()
    assert product.status(run) == S.SUCCEEDED
    before = package_files()
    for path in second:
        pushed = made.in_branch(run, path)
        assert pushed.count("log.warning(") == 1
        assert pushed.replace("log.warning(", "log.warn(") == before[path]


def _is_repaired_from_what_its_checks_said(run: Run, asked: list[dict[str, Any]]) -> None:
    line = ["patch_created", "verification_failed_retryable", "patch_created", "verification_passed",
            "judge_passed", "human_approval_required"]  # fmt: skip
    assert [kind for kind in product.types(run) if kind in line] == line
    said = [request["messages"][-1]["content"] for request in asked]
    (report,) = (text for text in said if text.startswith("Your change was looked at, and is not right yet"))
    assert "use 'warning' instead" in report
    assert "launcher.py" in report
    judged = json.loads(artifact_read(product.artifacts(run, "judge_report")[0]))
    assert (judged["verdict"], "as scripted" in judged["reasons"]) == ("pass", True)


def test_the_model_is_told_the_task_the_rules_and_what_its_checks_said(make_product, asked):
    made = make_product()
    wrong = say(("write", {"path": "more.txt", "content": "x\n"}))
    run = made.submit(**contract(wrong, FINISH, EDIT, FINISH))
    made.work()
    assert product.status(run) == S.WAITING_FOR_APPROVAL
    opening = asked[1]["messages"]
    assert [message["role"] for message in opening] == ["system", "user"]
    for expected in ("Replace two by three", "Write numbers as words.", "notes.txt", "no-two: ! grep"):
        assert expected in opening[1]["content"]
    repaired = asked[3]["messages"]
    assert [message["role"] for message in repaired] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "user",
    ]  # fmt: skip
    assert "The check no-two ended with 1" in repaired[-1]["content"]
    assert product.artifacts(run, "context")


def test_a_question_rests_the_run_and_its_answer_reaches_the_model(make_product):
    made = make_product()
    question = say(("ask", {"question": "Which word?", "choices": ["three", "four"]}))
    run = made.submit(**contract(question, EDIT, FINISH))
    made.work()
    assert product.status(run) == S.WAITING_FOR_APPROVAL
    made.decide(run, comment="three")
    made.work()
    assert product.types(run)[-1] == "human_approval_required"
    assert product.types(run).count("question_asked") == 1
    assert product.types(run).count("model_decision") == 4


@pytest.mark.parametrize("decision", ["approve", "reject", "edit"])
def test_a_call_that_needs_approval_waits_for_it(make_product, decision):
    made = make_product()
    note = say(("write", {"path": "more.txt", "content": "asked\n"}))
    agent = {"requires_approval": ["write(more*)"]}
    run = made.submit(**contract(note, EDIT, FINISH, agent=agent))
    made.work()
    assert product.status(run) == S.WAITING_FOR_APPROVAL
    assert "tool_completed" not in product.types(run)
    edited = {"arguments": {"path": "more.txt", "content": "edited\n"}} if decision == "edit" else {}
    made.decide(run, decision, comment="as I say", **edited)
    made.work()
    patch = product.artifacts(run, "patch")[0]
    assert set(patch.facts["paths"]) == {"notes.txt"} | ({"more.txt"} if decision != "reject" else set())
    made.decide(run)
    made.push()
    if decision != "reject":
        assert made.in_branch(run, "more.txt") == ("edited\n" if decision == "edit" else "asked\n")


def test_an_analysis_ends_with_the_models_words(make_product):
    made = make_product()
    words = "notes.txt holds the numbers one and two. " * 20
    run = made.submit(
        **contract(say(("finish", {"summary": words})), completion_mode="analysis_report_created")
    )
    made.work()
    assert product.status(run) == S.SUCCEEDED
    assert product.artifacts(run, "analysis_report")[0].size == len(words.encode())


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"max_steps": 1, "max_attempts": 1}, "max_steps"),
        ({"max_tool_calls": 1, "max_attempts": 1}, "max_tool_calls"),
        ({"max_outside_writes": 0}, "max_outside_writes"),
    ],
)
def test_a_limit_ends_the_loop_with_its_name(make_product, budget, reason):
    tool = {"name": "notify", "command": "cat", "effect": "outside"}
    turns = (
        [say(("read", {"path": "notes.txt"})), say(("notify", {}))]
        if reason != "max_outside_writes"
        else [say(("notify", {}))]
    )
    made = make_product()
    run = made.submit(**contract(*turns, agent={"tools": [tool]}, budget={**budget, "max_runs": 1}))
    made.work()
    assert product.status(run) == S.FAILED
    failure = product.events(run, "attempt_finished", "non_retryable_failure")[0].payload["failure"]
    assert (failure["category"], failure["reason"]) == ("BUDGET_EXCEEDED", reason)


def test_the_same_call_again_and_again_ends_the_attempt(make_product):
    made = make_product()
    again = say(("read", {"path": "notes.txt"}))
    run = made.submit(**contract(*[again] * 9, budget={"max_attempts": 1, "max_runs": 1}))
    made.work()
    assert product.status(run) == S.FAILED
    failure = product.events(run, "attempt_finished")[0].payload["failure"]
    assert failure["reason"] == "repeated_strategy"
    assert product.types(run).count("tool_requested") == 4
