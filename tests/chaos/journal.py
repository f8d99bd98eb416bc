"""What was acknowledged: one line for each answer that promised something, written the moment it arrived."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """A file that many processes append to; a line is one write, so a kill leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, kind: str, **said: Any) -> None:
        os.write(self._file, json.dumps({"kind": kind, **said}).encode() + b"\n")

    def answered(self, method: str, path: str, status: int, headers: Any) -> None:
        """Only what should not be: a fault of ours, or an answer that says to come back and not when."""
        if status >= 500 and (status != 503 or "retry-after" not in headers):
            self.note("fault", call=f"{method} {path}", status=status)

    def event(self, answer: dict[str, Any]) -> None:
        """An event as an answer showed it."""
        names = ("id", "run_id", "sequence", "type", "hash")
        self.note("event", **{name: answer[name] for name in names})

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> list[dict[str, Any]]:
    """All lines, oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()]
