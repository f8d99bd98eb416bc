"""The receipt of a stop: what was asked, heard, cleaned up and kept, each with its time or "unconfirmed"
(lifecycle contract, section 9)."""

from __future__ import annotations

from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import Directive, RunStatus
from runs.selectors.words import when

UNCONFIRMED = "unconfirmed"


def receipt(state: RunState) -> list[Json] | None:
    """Rows for components/dl.html; None where nobody asked the run to stop. No query."""
    info = state.directive_info or {}
    stopped = state.directive in (Directive.CANCEL, Directive.WIND_DOWN)
    if not stopped and state.status != RunStatus.CANCELLED:
        return None
    cleanup = state.cleanup or {}
    unheard = UNCONFIRMED if state.worker_id else "no worker held it"
    return [
        _asked(info, state),
        _at("Heard by the worker", info.get("seen_at"), unheard),
        _said("Processes gone", "process_group_gone", cleanup, state),
        _said("Artifacts saved", "artifacts_saved", cleanup, state),
        # The provider's answer is what ends the run, whichever way.
        _row("Pull request", _pull_request(state), state.completed_at if state.pr_begun else ""),
    ]


def _row(term: str, text: str, at: str | None) -> Json:
    """What happened, and when where that is known."""
    times = when(at)
    return {"term": term, "text": f"{text}, {times['exact']}" if times else text}


def _asked(info: Json, state: RunState) -> Json:
    by, reason = info.get("by") or "the control plane", info.get("reason") or state.cancel_reason
    return _row("Asked", f"by {by}" + (f": {reason}" if reason else ""), info.get("at"))


def _at(term: str, stamp: str | None, otherwise: str) -> Json:
    if times := when(stamp):
        return {"term": term, "text": times["exact"], "time": times["iso"]}
    return {"term": term, "text": otherwise}


def _said(term: str, name: str, cleanup: Json, state: RunState) -> Json:
    if not state.worker_id:
        return _row(term, "nothing was begun", "")
    if not isinstance(said := cleanup.get(name), bool):
        return _row(term, UNCONFIRMED, "")
    return _row(term, "yes" if said else "no", cleanup.get("at"))


def _pull_request(state: RunState) -> str:
    if state.pull_request:
        return f"branch {state.pull_request['branch']} exists"
    if state.pr_begun:
        return "looked for, none found" if state.status == RunStatus.CANCELLED else UNCONFIRMED
    return "none was begun"
