"""The file of an archive: JSON Lines, compressed with gzip; text that `zgrep` and `jq` read.

For each run a line that says how its log ends, then a line for each of its events, whole; after the last run
one line that says how many there were, closed with the key that lies outside the database.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from runs import store
from runs.domain.facts import Actor, Event, Json
from runs.models import Run


@dataclass(slots=True)
class Whole:
    """What was written or read: counts, and a digest over the ends of all logs, in order."""

    name: str
    runs: int = 0
    events: int = 0
    heads: Any = field(default_factory=hashlib.sha256)

    def add(self, run_id: str, events: int, head: str) -> None:
        """One more run."""
        self.runs, self.events = self.runs + 1, self.events + events
        self.heads.update(f"{run_id}:{events}:{head}\n".encode())

    def line(self) -> Json:
        """The last line of the file."""
        heads = self.heads.hexdigest()
        mac = store.mac(f"archive {self.name} of {self.runs} runs", self.events, heads)
        return {"archive": self.name, "runs": self.runs, "events": self.events, "heads": heads, "mac": mac}


def write_archive(path: Path, name: str, runs: Iterable[Run]) -> Whole:
    """Write the logs of these runs; when this returns, the bytes are on the disk."""
    whole = Whole(name)
    with path.open("wb") as raw, gzip.open(raw, "wt", encoding="utf-8", compresslevel=6) as file:
        for run in runs:
            _write_run(file, run)
            whole.add(run.pk, run.version, run.chain_hash)
        _write(file, whole.line())
    settle(path)
    settle(path.parent)
    return whole


def _write_run(file: TextIO, run: Run) -> None:
    _write(
        file,
        {
            "run": run.pk,
            "task": run.task_id,
            "repository": run.repository_id,
            "events": run.version,
            "chain_hash": run.chain_hash,
            "chain_mac": run.chain_mac,
        },
    )
    for event in store.events_of(run.pk):
        _write(file, asdict(event))


def _write(file: TextIO, line: Json) -> None:
    file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def settle(path: Path) -> None:
    """Return when the disk has what was written of this file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_archive(path: Path) -> Iterator[tuple[Json, list[Event]]]:
    """Each run's first line with its events; at the end the file's last line, with none.

    Raises ``OSError``, ``EOFError`` or ``ValueError`` for a file that is cut off or not an archive.
    """
    head: Json | None = None
    events: list[Event] = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            if "sequence" in line:
                events.append(Event(**{**line, "actor": Actor(**line["actor"])}))
                continue
            if head is not None:
                yield head, events
            head, events = line, []
    if head is not None:
        yield head, events


def digest_of(path: Path) -> str:
    """SHA-256 of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
