"""The deterministic judge: right patches pass, wrong ones do not, and confidence follows evidence."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.worker.judge_patches import CODE, RIGHT, WRONG, Case, make_patch
from worker.checks.judge import Evidence, judge_analysis, judge_patch
from worker.client.protocol import Contract, Instruction


def evidence(case: Case, **changes: Any) -> Evidence:
    patch = changes.pop("patch", case.patch())
    digest = hashlib.sha256(patch.encode()).hexdigest()
    contract = Contract.parse(
        {
            "instruction": case.instruction,
            "allowed_paths": case.allowed,
            "forbidden_paths": case.forbidden,
            "verifiers": [{"name": "test", "command": "pytest -q"}],
        }
    )
    command = {"name": "test", "command": "pytest -q", "exit_code": 0, "duration_ms": 5}
    later = [Instruction(number, text) for number, text in enumerate(case.later, start=2)]
    settings = {
        "contract": contract,
        "plan": {"files": list(case.planned), "must_not_change": []},
        "patch": patch,
        "patch_sha256": digest,
        "report": {"patch_sha256": digest, "commands": [command], "baseline": [command]},
        "instructions": [Instruction(1, case.instruction), *later],
    }
    return Evidence(**{**settings, **changes})


PLAIN = Case("plain", *CODE, planned=("*.py",))


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_a_right_patch_passes(case: Case) -> None:
    report = judge_patch(evidence(case))
    assert report["verdict"] == "pass", report["reasons"]
    assert "feedback" not in report


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_wrong_patch_is_sent_back_with_its_reason(case: Case) -> None:
    report = judge_patch(evidence(case))
    assert report["verdict"] == "fix"
    assert case.says in " | ".join(report["reasons"])
    assert case.says in report["feedback"]


def test_there_are_twenty_of_each() -> None:
    assert (len(RIGHT), len(WRONG)) == (20, 20)
    assert all(case.patch() for case in RIGHT + WRONG)


def test_confidence_is_the_documented_product() -> None:
    # checks 1 · cover 1 · plan 1 · size 1/(1 + 2/4000) · tests 0.95
    assert judge_patch(evidence(PLAIN))["confidence"] == round(0.95 / (1 + 2 / 4000), 3)


def confidence(case: Case = PLAIN, **changes: Any) -> float:
    return float(judge_patch(evidence(case, **changes))["confidence"])


def test_confidence_falls_with_each_kind_of_weaker_evidence() -> None:
    full = evidence(PLAIN)
    command = full.report["commands"][0]
    base = {"patch_sha256": full.patch_sha256}
    reports = {
        "none": {**base, "commands": []},
        "flaky": {**base, "commands": [{**command, "flaky": True}]},
        "red base": {**base, "commands": [command], "baseline": [{**command, "exit_code": 1}]},
        "not covering": {**base, "commands": [{**command, "command": "go test ./..."}]},
        "unknown": {**base, "commands": [{**command, "command": "./check.sh"}]},
    }
    values = {name: confidence(report=report) for name, report in reports.items()}
    assert all(value < confidence() for value in values.values()), values
    assert values["none"] < 0.6 < values["not covering"] < values["unknown"]
    big = make_patch({}, {"big.py": "x = 1\n" * 4000})
    assert confidence(patch=big) < 0.6
    assert confidence(Case("any plan", *CODE)) < confidence()
    half = Case("half", CODE[0], {**CODE[1], "b.txt": "x\nx\n"}, planned=("*.py",))
    assert confidence(half) < 0.6


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ({"patch_sha256": "0" * 64, "commands": []}, "another patch"),
        ({"commands": [{"name": "test", "exit_code": 1}]}, "the check test failed"),
        ({"commands": []}, "the check test did not run"),
    ],
)
def test_a_report_that_proves_nothing_is_sent_back(report: dict[str, Any], says: str) -> None:
    digest = evidence(PLAIN).patch_sha256
    judged = judge_patch(evidence(PLAIN, report={"patch_sha256": digest, **report}))
    assert judged["verdict"] == "fix"
    assert says in judged["reasons"][0]


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("Do not change `clock.py`", {"2": False}),
        ("don't touch clock.*", {"2": False}),
        ("Never edit *.py files", {"2": False}),
        ("leave docs/index.md alone", {"2": True}),
        ("Leave the generated files alone", {"2": False}),
        ("Do not change the behaviour of clock.py", {}),
        ("Please be quick", {}),
        ("Change clock.py", {}),
    ],
)
def test_later_instructions_are_decided_where_they_can_be(text: str, met: dict[str, bool]) -> None:
    case = Case("later", *CODE, later=(text,))
    judged = judge_patch(evidence(case, generated_paths=["clock.py"]))
    assert judged["instructions_met"] == met
    assert judged["verdict"] == ("fix" if False in met.values() else "pass")


def test_an_empty_patch_is_no_success() -> None:
    assert judge_patch(evidence(PLAIN, patch=""))["verdict"] == "fix"


def test_an_analysis_is_judged_by_what_can_be_seen() -> None:
    contract = Contract.parse({"title": "Look", "instruction": "Where are the deadlocks?"})

    def judged(report: str) -> dict[str, Any]:
        return judge_analysis(
            report=report, subject_sha256="0" * 64, contract=contract, known_paths=["src/lock.py"]
        )

    assert judged("nothing")["verdict"] == "fix"
    long = judged("In src/lock.py two locks are taken in turn. " * 20)
    vague = judged("Some words that say nothing at all here. " * 20)
    topical = judged("There may be deadlocks in some of the files. " * 20)
    assert long["verdict"] == vague["verdict"] == "pass"
    assert vague["confidence"] < topical["confidence"] < long["confidence"] == 0.9
