"""The demonstration repository: a small package with real tests, as a bare remote with a history."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runs.domain.facts import Json
from runs.mirrors.process import checked, run_git

NAME: Final = "clock"
#: A short lease: whoever kills the worker sees another take over within seconds.
POLICY: Final[Json] = {"lease_seconds": 15, "heartbeat_interval_seconds": 5}
#: Each file as it lies in the repository, with ``.txt`` behind its name: it is data of ours, not code.
FILES: Final = Path(__file__).parent / "clock"


@dataclass(frozen=True, slots=True)
class _Commit:
    message: str
    by: str
    date: str
    paths: tuple[str, ...]


_HISTORY: Final = (
    _Commit("Tell the time", "Ina Weber", "2026-02-02T09:00:00Z", ("README.md", "clock/__init__.py",
            "clock/now.py", "tests/__init__.py", "tests/test_now.py")),
    _Commit("Count seconds", "Ina Weber", "2026-02-03T10:30:00Z", ("clock/formats.py",
            "clock/stopwatch.py", "tests/test_stopwatch.py")),
    _Commit("Keep an agenda", "Jonas Adeyemi", "2026-02-09T14:10:00Z", ("clock/agenda.py", "clock/report.py",
            "schema/0001_entries.sql", "tests/test_agenda.py", "tests/test_schema.py")),
    _Commit("Say what is late", "Ina Weber", "2026-02-17T11:20:00Z", ("clock/reminders.py", "clock/tones.py",
            "tests/test_reminders.py")),
    _Commit("Collect the scripts that change code", "Jonas Adeyemi", "2026-02-20T16:45:00Z", ("codemods",)),
)  # fmt: skip


def make_remote(place: Path) -> str:
    """A bare repository at ``place`` with the history above on ``main``; returns its address."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = ("init", "--quiet", "--initial-branch=main", "--template=")  # no hooks, nothing of this machine
    _git(*new, "--bare", "--", str(place), at=place.parent)
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        _git(*new, at=checkout)
        for commit in _HISTORY:
            _write(checkout, commit)
        _git("push", "--quiet", "--", str(place), "main", at=checkout)
    return place.as_uri()


def _write(checkout: Path, commit: _Commit) -> None:
    for source in sorted(FILES.rglob("*.txt")):
        path = source.relative_to(FILES).as_posix().removesuffix(".txt")
        if path.startswith(commit.paths):
            target = checkout / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    _git("add", "--all", at=checkout)
    mail = f"{commit.by.split()[0].lower()}@example.com"
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", commit.by), ("EMAIL", mail), ("DATE", commit.date))
    }
    _git("commit", "--quiet", "--no-verify", f"--message={commit.message}", at=checkout, env=who)


def _git(*words: str, at: Path, env: dict[str, str] | None = None) -> None:
    checked(run_git(*words, cwd=at, env=env))
