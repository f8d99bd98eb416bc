"""The worker's own loop, with a scripted model over real HTTP, all through the product."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import honcho
import pytest

from runs.domain.vocabulary import RunStatus
from tests.worker import product
from tests.worker.product import EDIT, FINISH, contract, say
from worker.models.scripted import ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)

S = RunStatus


def package_files() -> dict[str, str]:
    """A published package as it lies in this environment, made a repository."""
    folder = Path(honcho.__file__).parent
    files = {f"honcho/{path.name}": path.read_text() for path in sorted(folder.glob("*.py"))}
    assert "log.warn(" in files["honcho/command.py"]
    files["test_command.py"] = (
        "import sys, unittest, unittest.mock\n"
        "from honcho import command\n\n\n"
        "class Terminal(unittest.TestCase):\n"
        "    def test_a_terminal_without_utf8_is_warned(self):\n"
        "        out = unittest.mock.Mock(encoding='ascii')\n"
        "        with unittest.mock.patch.object(sys, 'stdout', out), self.assertLogs(command.log) as logs:\n"
        "            command._check_output_encoding()\n"
        "        self.assertEqual(logs.records[0].levelname, 'WARNING')\n"
    )
    return files


def test_a_model_migrates_a_published_package_and_repairs_what_its_tests_show(make_product):
    made = make_product(package_files())
    python = f"{sys.executable} -W error::DeprecationWarning -m unittest -q"
    wrong, right = ("log.warn(", "log.warns("), ("log.warns(", "log.warning(")
    turns = [
        say(("search", {"pattern": r"\.warn\(", "path": "honcho"})),
        say(("replace", {"path": "honcho/command.py", "old": wrong[0], "new": wrong[1]})),
        say(("run", {"command": "ls honcho"})),
        say(("finish", {"summary": "Renamed one call."})),
        # What follows is the answer to the verifier's report.
        say(("replace", {"path": "honcho/command.py", "old": right[0], "new": right[1]})),
        say(("run", {"command": python})),
        say(("finish", {"summary": "log.warning is the successor of log.warn."})),
    ]
    script = {
        "plan": {"files": ["honcho/*.py"], "summary": "Rename the calls."},
        "turns": turns,
        "verdict": {"verdict": "pass", "confidence": 0.95, "reasons": ["as asked"]},
    }
    run = made.submit(
        title="Replace log.warn",
        instruction="Replace the deprecated log.warn by its successor.",
        verifiers=[{"name": "tests", "command": python, "timeout_seconds": 60}],
        agent={"kind": "model", "model": "scripted", "script": script},
    )
    made.work(judge_model="scripted")
    assert product.status(run) == S.WAITING_FOR_APPROVAL, product.types(run)
    kinds = product.types(run)
    assert kinds.count("verification_failed_retryable") == 1
    assert kinds.count("verification_passed") == 1
    # Four turns, the repair's three, plan and judgement.
    assert kinds.count("model_decision") == 9
    found = product.events(run, "tool_completed")[0].payload["summary"]
    assert "honcho/command.py:404:" in found
    made.decide(run)
    made.push()
    assert product.status(run) == S.SUCCEEDED
    pushed = made.in_branch(run, "honcho/command.py")
    assert "log.warning('Your terminal" in pushed
    assert pushed.replace("log.warning(", "log.warn(") == package_files()["honcho/command.py"]


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
