"""Each guard's evidence turned in its turn: exactly that guard fails (lifecycle contract, section 6)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from runs.domain.facts import Json
from runs.domain.guards import BLOCKING, GUARDS, LABELS, WAIVABLE, Evidence, all_passed, blocking, evaluate
from runs.domain.patch.reading import GitWord, patch_facts
from runs.domain.policy import effective
from runs.domain.state import RunState

BASE, SHA = "b" * 40, "a" * 64


def _file(path: str, **more: Any) -> Json:
    plain = {"old_path": None, "status": "modified", "binary": False, "added": 1, "deleted": 1}
    return {"path": path, **plain, **more}


def _good() -> Evidence:
    git = GitWord(commit=BASE, applies=True, tree="d" * 40, head=BASE, applies_to_head=True)
    reading = {**patch_facts((), git), "files": [_file("src/app.py")], "added": 1}
    command = {"name": "test", "exit_code": 0, "timed_out": None, "flaky": None}
    state = RunState(
        risk_level="low",
        budget={"max_cost_usd": "10"},
        patch={"id": "art_1", "sha256": SHA},
        verification={"patch_sha256": SHA, "commands": [command]},
        judgement={"subject_sha256": SHA, "verdict": "pass", "confidence": 0.9, "sha256": "e" * 64},
    )
    contract = {
        "auto_pr": True,
        "verifiers": [{"name": "test"}],
        "allowed_paths": ["src/**"],
        "forbidden_paths": ["src/keys/**"],
    }
    values = {**effective(()).values, "generated_paths": ["src/gen/**"], "judge_confidence": 0.8}
    return Evidence(state, contract, values, reading)


def _there(value: Json | None) -> Json:
    assert value is not None
    return value


Turn = Callable[[RunState, Json, Json, Json], Any]

TURNS: dict[str, list[Turn]] = {
    "risk": [
        lambda s, c, p, r: setattr(s, "risk_level", "high"),
        lambda s, c, p, r: p.update(risky_paths=["src/app.py"]),
    ],
    "auto_pr_task": [lambda s, c, p, r: c.update(auto_pr=False)],
    "auto_pr_repository": [lambda s, c, p, r: p.update(allow_auto_pr=False)],
    "verification": [
        lambda s, c, p, r: setattr(s, "verification", None),
        lambda s, c, p, r: _there(s.verification).update(patch_sha256="f" * 64),
        lambda s, c, p, r: _there(s.verification)["commands"][0].update(exit_code=1),
        lambda s, c, p, r: _there(s.verification)["commands"][0].update(timed_out=True),
        lambda s, c, p, r: _there(s.verification)["commands"][0].update(flaky=True),
        lambda s, c, p, r: p.update(required_verifiers=["lint"]),
    ],
    "judge": [
        lambda s, c, p, r: setattr(s, "judgement", None),
        lambda s, c, p, r: _there(s.judgement).update(confidence=0.79),
        lambda s, c, p, r: _there(s.judgement).update(confidence=None),
        lambda s, c, p, r: _there(s.judgement).update(verdict="fix"),
        lambda s, c, p, r: _there(s.judgement).update(subject_sha256="f" * 64),
        lambda s, c, p, r: _there(s.judgement).update(files_seen=0, files_total=1),
        lambda s, c, p, r: (_there(s.judgement).update(files_seen=1), _there(s.patch).update(files=120)),
    ],
    "secret_scan": [
        lambda s, c, p, r: r.update(secrets=[{"path": "src/app.py", "line": 1, "rule": "aws"}]),
        lambda s, c, p, r: r.pop("secrets"),
        lambda s, c, p, r: r.update(scanner_config=[".gitleaks.toml"]),
    ],
    "paths": [
        lambda s, c, p, r: r["files"].append(_file("src/keys/a.py")),
        lambda s, c, p, r: r["files"].append(_file("docs/a.md")),
        lambda s, c, p, r: r["files"].append(_file("src/b.py", old_path="docs/b.py")),
        lambda s, c, p, r: p.update(forbidden_paths=["**/app.py"]),
        lambda s, c, p, r: p.update(allowed_paths=[["lib/**"]]),
    ],
    "tests_intact": [
        lambda s, c, p, r: r.update(weakenings=[{"path": "t.py", "line": 1, "kind": "skipped"}]),
        lambda s, c, p, r: r.pop("weakenings"),
    ],
    "generated_files": [lambda s, c, p, r: r["files"].append(_file("src/gen/a.py"))],
    "special_files": [
        lambda s, c, p, r: r.update(special=[{"path": "src/l", "kind": "symlink"}]),
        lambda s, c, p, r: r.pop("special"),
    ],
    "invisible_characters": [
        lambda s, c, p, r: r.update(invisible=[{"path": "src/app.py", "line": 1, "codepoint": "U+202E"}]),
        lambda s, c, p, r: r.pop("invisible"),
    ],
    "budget": [lambda s, c, p, r: s.used.update(cost_usd="10.01")],
    "base": [
        lambda s, c, p, r: r["base"].update(applies=None),
        lambda s, c, p, r: r["base"].update(applies=False),
        lambda s, c, p, r: r["base"].update(applies_to_head=False),
        lambda s, c, p, r: r["base"].update(applies_to_head=None),
    ],
}


def _failing(evidence: Evidence) -> list[str]:
    return [result.name for result in evaluate(evidence) if result.passed is not True]


def _turned(turn: Turn) -> Evidence:
    good = _good()
    contract, policy, reading = dict(good.contract), dict(good.policy), deepcopy(good.reading) or {}
    turn(good.state, contract, policy, reading)
    return Evidence(good.state, contract, policy, reading)


def test_good_evidence_passes_every_guard():
    assert _failing(_good()) == []
    assert all_passed(evaluate(_good()))


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        pytest.param(name, turn, id=f"{name}-{number}")
        for name, turns in TURNS.items()
        for number, turn in enumerate(turns)
    ],
)
def test_one_turned_fact_fails_exactly_its_guard(name: str, turn: Turn):
    assert _failing(_turned(turn)) == [name]


def test_binary_content_is_neither_scanned_nor_welcome():
    def binary(s: RunState, c: Json, p: Json, r: Json) -> None:
        r["files"][0].update(binary=True)

    assert _failing(_turned(binary)) == ["secret_scan", "binary_files"]

    def welcome(s: RunState, c: Json, p: Json, r: Json) -> None:
        r["files"][0].update(binary=True)
        p.update(allow_binary=True)

    assert _failing(_turned(welcome)) == ["secret_scan"]


def test_every_guard_of_the_contract_is_turned_and_named():
    assert set(TURNS) | {"binary_files"} == set(GUARDS) == set(LABELS)
    assert BLOCKING <= WAIVABLE <= set(GUARDS)


def test_without_a_patch_nothing_that_reads_it_passes():
    good = _good()
    good.state.patch = None
    unknown = {
        r.name for r in evaluate(Evidence(good.state, good.contract, good.policy, None)) if r.passed is None
    }
    assert unknown >= {
        "secret_scan",
        "paths",
        "tests_intact",
        "special_files",
        "base",
        "verification",
        "judge",
    }


@pytest.mark.parametrize("name", sorted(WAIVABLE - {"binary_files"}))
def test_a_waiver_counts_for_its_guard_alone_and_says_by_whom(name: str):
    evidence = _turned(TURNS[name][0])
    assert [r["name"] for r in blocking([g.to_json() for g in evaluate(evidence)])] == [
        n for n in (name,) if name in BLOCKING
    ]
    evidence.state.waivers[name] = {"by": "Ada", "reason": "agreed"}
    assert _failing(evidence) == []
    waived = next(result for result in evaluate(evidence) if result.name == name)
    assert "waived by Ada: agreed" in waived.evidence


def test_a_claim_in_a_payload_has_no_effect():
    evidence = _turned(TURNS["secret_scan"][0])
    evidence.state.judgement = {**(evidence.state.judgement or {}), "secret_scan_passed": True}
    assert _failing(evidence) == ["secret_scan"]


@pytest.mark.parametrize("result", evaluate(_turned(TURNS["base"][0])), ids=lambda result: result.name)
def test_a_failing_guard_says_what_would_make_it_pass(result):
    assert bool(result.would_pass_if) == (result.passed is not True)
