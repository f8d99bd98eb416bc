"""The report of the long proofs says what held, by which seed, and tells failures whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report import written


def report(outcome: str, **more: Any) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid="tests/x.py::test_it[a|b]",
        location=("tests/x.py", 1, "test_it"),
        keywords={},
        outcome=outcome,  # type: ignore[arg-type]
        when="call",
        duration=12.3,
        **{"longrepr": None, **more},
    )


def test_a_proof_that_held_is_a_row_with_its_seed():
    text = written([report("passed", user_properties=[("seed", 7), ("events", 1_000)])])
    assert "1 of 1 held." in text
    assert r"| tests/x.py::test_it[a\|b] | passed | 12 | seed: 7; events: 1000 |" in text


def test_a_failure_is_told_whole():
    text = written([report("failed", longrepr="seed 7\n  1.0 s  kill_web\nlost: evt_1"), report("passed")])
    assert "1 of 2 held." in text
    assert "lost: evt_1" in text
