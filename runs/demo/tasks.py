"""The demonstration's requests: each shows one way that a run can go. All of it is real work."""

from __future__ import annotations

from typing import Final

from runs.domain.facts import Json

_TESTS: Final = [{"name": "tests", "command": "python3 -m unittest -q", "timeout_seconds": 120}]


def _script(command: str) -> Json:
    return {"kind": "script", "command": command}


TASKS: Final[tuple[Json, ...]] = (
    {  # goes all the way by itself
        "title": "Give every moment its offset",
        "instruction": (
            "datetime.utcnow() returns a moment without an offset, which compares wrongly with all others."
            " Replace it by the present moment in UTC with its offset, everywhere in the package."
        ),
        "agent": _script("python3 codemods/aware_time.py"),
        "verifiers": _TESTS,
        "allowed_paths": ["clock/**"],
        "auto_pr": True,
        "labels": ["migration"],
    },
    {  # waits for a review: nobody allowed it to go out by itself
        "title": "Write headings with f-strings",
        "instruction": "Use an f-string instead of the % operator in clock/report.py. Nothing else changes.",
        "agent": _script("""sed -i 's/"%s: %s" % (name, value)/f"{name}: {value}"/' clock/report.py"""),
        "verifiers": _TESTS,
        "allowed_paths": ["clock/report.py"],
        "labels": ["style"],
    },
    {  # its first pass misses a file; the tests say so, the second pass repairs what they point to
        "title": "Rename pad to zero_padded",
        "instruction": (
            "The name pad says neither with what nor on which side. Rename the function to zero_padded"
            " everywhere in the package; what it returns stays the same."
        ),
        "agent": _script("python3 codemods/rename.py pad zero_padded"),
        "verifiers": _TESTS,
        "allowed_paths": ["clock/**"],
        "auto_pr": True,
        "labels": ["rename"],
    },
    {  # a model in the worker's own loop; its first pass mends one call, the checks show the next one
        "title": "Follow the deprecation of Logger.warn",
        "instruction": (
            "The standard library calls Logger.warn deprecated and says what to use instead. Move the package"
            " over to that; the checks turn the warning into an error. What is logged stays the same."
        ),
        # Scripted means free of charge: it asks nobody, and knows no more than what the checks tell it.
        "agent": {"kind": "model", "model": "scripted", "script": {"follows": "deprecations"}},
        "verifiers": [
            {
                "name": "tests",
                "command": """python3 -W "error:The 'warn' method:DeprecationWarning" -m unittest -q""",
                "timeout_seconds": 120,
            }
        ],
        "allowed_paths": ["clock/**"],
        "labels": ["migration"],
    },
    {  # a report instead of a patch
        "title": "Which functions lack a docstring?",
        "instruction": "List the public functions of the package that have no docstring, by file and line.",
        "completion_mode": "analysis_report_created",
        "agent": _script("python3 codemods/inventory.py"),
        "allowed_paths": ["clock/**"],
        "labels": ["docs"],
    },
    {  # high risk: its plan waits for a person before anything is changed
        "title": "Index the agenda by start time",
        "instruction": (
            "Looking up a day reads the whole table. Add a migration that indexes entries by starts_at."
        ),
        "agent": _script(
            "python3 codemods/add_migration.py index_starts_at"
            " 'CREATE INDEX entries_starts_at ON entries (starts_at)'"
        ),
        "verifiers": _TESTS,
        "allowed_paths": ["schema/**"],
        "risk_level": "high",
        "labels": ["schema"],
    },
)
