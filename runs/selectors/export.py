"""Runs as a table for spreadsheets (CSV, RFC 4180), read in pieces however many there are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from django.db.models import F

from runs.auth import Principal
from runs.domain.state import RunState
from runs.models import Run
from runs.selectors.display import shown_run
from runs.selectors.run_filters import filtered_runs
from runs.selectors.runs import visible_runs, visible_surroundings
from runs.selectors.surroundings import Surroundings

PIECE: Final = 500
HEADINGS: Final = (
    "run", "task", "title", "repository", "agent", "labels", "state", "status", "failure_category", "reason",
    "created_at", "started_at", "ended_at", "seconds", "cost_usd", "verifier_repairs", "judge_repairs",
    "branch", "pull_request", "pull_request_ended_at", "reverted_at",
)  # fmt: skip
#: Of the pull request, without the long texts in its row.
_LIFE: Final = {"life_state": "state", "life_ended_at": "ended_at", "life_reverted_at": "reverted_at"}
#: A spreadsheet takes a cell that begins so for a formula; an apostrophe makes it text.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def runs_csv(*, principal: Principal, params: Mapping[str, str]) -> tuple[int, Iterator[bytes]]:
    """How many rows there will be, and the file in pieces; filters as in the list of runs."""
    surroundings = visible_surroundings(principal)
    rows = filtered_runs(visible_runs(principal), params, principal=principal, surroundings=surroundings)
    rows = rows.annotate(**{name: F(f"pull_request__{column}") for name, column in _LIFE.items()})
    found = rows.select_related("outcome").order_by("-created_at", "-pk").iterator(chunk_size=PIECE)
    cells = (_cells(run, principal, surroundings) for run in found)
    return rows.order_by().count(), _pieces(cells)


def _pieces(rows: Iterable[Iterable[Any]]) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(HEADINGS)
    for number, row in enumerate(rows, start=1):
        writer.writerow([safe_cell(value) for value in row])
        if number % PIECE == 0:
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()


def safe_cell(value: Any) -> str:
    """The value as text that no spreadsheet runs."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cells(run: Run, principal: Principal, surroundings: Surroundings) -> tuple[Any, ...]:
    state, task = RunState.from_json(run.state), run.task
    shown = shown_run(run, principal=principal, surroundings=surroundings)["display"]
    outcome = getattr(run, "outcome", None)
    seconds = round((run.completed_at - run.created_at).total_seconds()) if run.completed_at else None
    return (
        run.pk, task.pk, task.title, run.repository.name, task.contract["agent"]["kind"],
        ", ".join(task.labels), shown["title"], run.status, run.failure_category, run.status_reason,
        state.created_at, state.started_at, state.completed_at, seconds, f"{run.cost_usd.normalize():f}",
        outcome and outcome.verifier_repairs, outcome and outcome.judge_repairs,
        (state.pull_request or {}).get("branch"), *(getattr(run, name) for name in _LIFE),
    )  # fmt: skip
