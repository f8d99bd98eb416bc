"""Contracts to begin with: the kinds of work that people ask for again and again."""

from __future__ import annotations

from typing import Final, NamedTuple

from runs.domain.facts import Json

_TESTS: Final = {"name": "tests", "command": "python3 -m pytest -q", "timeout_seconds": 600}


class Start(NamedTuple):
    """A name for the address, what it is called, and the fields that it sets."""

    name: str
    label: str
    fields: Json


STARTS: Final = (
    Start(
        "codemod",
        "A script changes the code",
        {
            "title": "Apply the codemod",
            "instruction": "Apply the script to the whole package. What the code does stays as it is.",
            "agent": {"kind": "script", "command": "python3 codemods/change.py"},
            "verifiers": [_TESTS],
            "allowed_paths": ["src/**", "tests/**"],
        },
    ),
    Start(
        "linter",
        "A linter mends what it can",
        {
            "title": "Mend what the linter finds",
            "instruction": "Apply the linter’s safe fixes. Do not change what the code does.",
            "agent": {"kind": "script", "command": "ruff check --fix --exit-zero ."},
            "verifiers": [_TESTS, {"name": "lint", "command": "ruff check .", "timeout_seconds": 120}],
            "auto_pr": True,
        },
    ),
    Start(
        "agent",
        "A coding agent follows an instruction",
        {
            "instruction": "What should be different afterwards, and what must stay.",
            "agent": {"kind": "command", "command": "claude -p --permission-mode acceptEdits"},
            "verifiers": [_TESTS],
            "risk_level": "medium",
        },
    ),
    Start(
        "report",
        "A report, without any change",
        {
            "title": "Find out …",
            "instruction": "What to look for, and how the report should list it.",
            "completion_mode": "analysis_report_created",
            "agent": {"kind": "command", "command": "claude -p"},
        },
    ),
)
