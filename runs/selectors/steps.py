"""Attempts and steps of a run, as a table of ready strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db.models import Exists, OuterRef
from django.urls import reverse

from runs.domain.facts import Json
from runs.domain.said import failure_words, short
from runs.domain.vocabulary import AttemptState, StepState
from runs.models import Attempt, LiveLog, Run, Step
from runs.selectors.words import joined, money, when

PAGE: Final = 200
_TONES: Final = {
    StepState.PENDING: ("quiet", "ring"),
    StepState.RUNNING: ("busy", "dot"),
    StepState.SUCCEEDED: ("ok", "check"),
    StepState.FAILED: ("bad", "cross"),
    StepState.TIMED_OUT: ("bad", "clock"),
    StepState.SKIPPED: ("quiet", "slash"),
}
_ATTEMPT_TONES: Final = {
    AttemptState.STARTED: "busy",
    AttemptState.SUCCEEDED: "ok",
    AttemptState.FAILED: "bad",
}


def run_steps(*, run: Run, params: Mapping[str, str]) -> Json:
    """``{attempts, all, steps, earlier, later}``, newest window last. Two queries.

    ``params``: ``attempt``, a number; ``before``, the sequence of the event that requested a step.
    """
    logs = LiveLog.objects.filter(run=OuterRef("run"), operation_id=OuterRef("operation_id"))
    rows = Step.objects.filter(run=run).annotate(is_logged=Exists(logs))
    attempts = [_attempt(row, params) for row in Attempt.objects.filter(run=run).order_by("number")]
    chosen = next((attempt["number"] for attempt in attempts if attempt["current"]), None)
    if chosen:
        rows = rows.filter(attempt=chosen)
    kept = f"&attempt={chosen}" if chosen else ""
    text = params.get("before", "")
    before = int(text) if text.isdigit() and len(text) < 12 else None  # noqa: PLR2004
    if before:
        rows = rows.filter(requested_sequence__lt=before)
    found = list(rows.order_by("-requested_sequence", "-pk")[: PAGE + 1])
    more, found = len(found) > PAGE, found[:PAGE][::-1]
    earlier = f"?tab=steps&before={found[0].requested_sequence}{kept}" if more else ""
    return {
        "attempts": attempts,
        "all": {"href": "?tab=steps", "current": chosen is None},
        "steps": [_step(row, is_logged=row.is_logged) for row in found],
        "earlier": earlier,
        "later": f"?tab=steps{kept}" if before else "",
    }


def _attempt(row: Attempt, params: Mapping[str, str]) -> Json:
    used = row.used or {}
    repairs = f"{used['repairs']} repairs" if used.get("repairs") else ""
    return {
        "number": row.number,
        "text": f"Attempt {row.number}",
        "href": f"?tab=steps&attempt={row.number}",
        "current": params.get("attempt") == str(row.number),
        "state": AttemptState(row.state).label,
        "tone": _ATTEMPT_TONES.get(AttemptState(row.state), "quiet"),
        "meta": joined(row.strategy, f"{used.get('tool_calls', 0)} tool calls", repairs),
        "failure": failure_words(row.failure) if row.failure else "",
        "started": when(row.started_at),
    }


def _step(row: Step, *, is_logged: bool) -> Json:
    state = StepState(row.state)
    tone, icon = _TONES[state]
    return {
        "anchor": f"s{row.requested_sequence}",
        "label": short(row.label, 300) or row.tool or "Decision",
        "tool": row.tool if row.kind == "tool" else joined("model", row.tool),
        "attempt": row.attempt or "",
        "state": state.label,
        "tone": tone,
        "icon": icon,
        "effect": "" if row.effect == "workspace" else row.effect,
        "exit_code": "" if row.exit_code is None else f"exit {row.exit_code}",
        "duration": _duration(row.duration_ms),
        "cost": money(row.cost_usd) if row.cost_usd is not None else "",
        "summary": short(row.summary) if row.summary != row.label else "",
        "log": reverse("step_log", args=[row.run_id, row.operation_id])
        if is_logged or row.output_artifact_id
        else "",
        "started": when(row.started_at),
    }


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 1_000:  # noqa: PLR2004
        return f"{milliseconds} ms"
    return f"{milliseconds / 1_000:.1f} s" if milliseconds < 60_000 else f"{milliseconds // 60_000} min"  # noqa: PLR2004
