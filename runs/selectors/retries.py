"""What was decided after a run had ended badly, and on what: for the run's page."""

from __future__ import annotations

from typing import Any, Final

from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import FailureCategory, RunStatus
from runs.selectors.words import money, when

_THEN: Final = {
    "new_run": "A new run",
    "block": "It waits for somebody to renew access",
    "person": "It waits for a person to decide",
    "none": "No further run",
}
_KNOWN: Final = {True: "yes", False: "no", None: "nobody looked"}


def retry_rows(state: RunState) -> list[Json] | None:
    """Rows for components/dl.html: the decision, its rule, and what it saw. None where none was made."""
    retry = state.retry
    if not retry:
        return None
    saw = retry["saw"]
    then = str(retry["then"])
    rows = [_row("Decision", _THEN.get(then, then)), _row("Because", retry["reason"])]
    if at := when(retry.get("not_before")):
        rows.append({"term": "Starts", "text": at["exact"], "time": at["iso"]})
    failed = f"{FailureCategory(saw['category']).label}: {saw['reason']}"
    return [
        *rows,
        _row("Rule", retry["rule"], mono=True),
        _row("Failed in", f"{RunStatus(saw['failed_in']).label}, {failed}"),
        _row("Runs made", f"{saw['runs_made']} of {saw['max_runs']}"),
        _row("Spent by the task", f"{money(saw['cost_usd'])} of {money(saw['max_cost_usd'])}"),
        _row("Risk", saw.get("risk") or "unknown"),
        _row("Base branch moved", _said(saw.get("base_moved"))),
        _row("Instruction changed", _said(saw.get("instruction_changed"))),
    ]


def _said(value: Any) -> str:
    return _KNOWN.get(value, str(value))


def _row(term: str, text: str, *, mono: bool = False) -> Json:
    return {"term": term, "text": text, "mono": mono}
