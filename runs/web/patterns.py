"""Every component in every state, from the fragments that the pages use (staff).

The samples show what a fragment takes: each is a dict of ready strings, as a selector would prepare it.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from runs.actions import BULK
from runs.domain.display import Display
from runs.web.pattern_figures import BARS, CHART, LOGS
from runs.web.pattern_review import DIFF, GUARDS, SHA256, TIMELINE, VERDICT

Sample = dict[str, Any]


@login_required
def patterns(request: HttpRequest) -> HttpResponse:
    """The page; staff only, since it is for those who build pages."""
    if not getattr(request.user, "is_staff", False):
        raise PermissionDenied
    return render(request, "patterns.html", samples())


def samples() -> Sample:
    """The whole context of the page."""
    return {
        "states": STATES,
        "rows": RUN_ROWS,
        "task_rows": TASK_ROWS,
        "queue": QUEUE,
        "actions": ACTIONS,
        "filters": FILTERS,
        "pager": {"previous": "?before=1", "next": "?after=50", "note": "50 shown"},
        "empty": EMPTY,
        "empty_filtered": EMPTY_FILTERED,
        "form": bound_form(),
        "untrusted": UNTRUSTED,
        "untrusted_log": UNTRUSTED_LOG,
        "artifact": ARTIFACT,
        "budget": BUDGET,
        "dl": FACTS,
        "timeline": TIMELINE,
        "guards": GUARDS,
        "diff": DIFF,
        "verdict": VERDICT,
        "notices": NOTICES,
        "bulk": BULK,
        "chart": CHART,
        "bars": BARS,
        "logs": LOGS,
    }


class SampleForm(forms.Form):
    """One field of each kind, one with an error."""

    title = forms.CharField(help_text="One line; it names the pull request.")
    risk = forms.ChoiceField(choices=[("low", "Low"), ("high", "High")])
    instruction = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    auto_pr = forms.BooleanField(label="Open the pull request without a review", required=False)


def bound_form() -> SampleForm:
    """Bound and invalid: the title is missing."""
    return SampleForm({"title": "", "risk": "low", "auto_pr": "on"})


def display(state: Display) -> Sample:
    """One display state as a selector gives it."""
    step = {Display.THINKING: "planning", Display.RUNNING: "running checks"}.get(state, "")
    return {
        "state": state.value,
        "title": state.label,
        "icon": state.icon,
        "tone": state.tone,
        "step": step,
    }


#: The fourteen of the lifecycle contract, section 15; each with an icon of its own.
STATES: list[Sample] = [display(state) for state in Display]
BY_NAME = {state["state"]: state for state in STATES}

UPDATED = {"iso": "2026-07-03T10:52:10Z", "exact": "2026-07-03 10:52:10 UTC"}
LOW = {"text": "low risk", "tone": "quiet"}
HIGH = {"text": "high risk", "tone": "warn"}


def row(state: str, title: str, meta: str, **more: Any) -> Sample:
    """One line of a list."""
    return {
        "id": f"sample-{state}",
        "href": "#",
        "title": title,
        "display": BY_NAME[state],
        "meta": meta,
        "updated": UPDATED,
        **more,
    }


RUN_ROWS: list[Sample] = [
    row(
        "running",
        "Replace datetime.utcnow() in clock",
        "clock · run 2 · worker eu-3 · $0.41",
        risk=LOW,
    ),
    row(
        "waiting",
        "Type the billing package",
        "billing · run 1",
        sentence="Waiting 4 min for a worker with role verifier: none has asked since 10:02 UTC.",
    ),
    row(
        "failed",
        "Move the settings to environment variables, " * 8,
        "shop · run 3 · $4.10",
        sentence="Checks failed: pytest, 3 of 212, the same three as in run 2.",
        sentence_tone="bad",
        risk=HIGH,
    ),
    row("completed", "إزالة الشيفرة غير المستخدمة 🧹", "shop · run 1 · branch agent/shop-41"),
]
TASK_ROWS: list[Sample] = [
    row(
        "needs_review",
        "Drop the column users.legacy_id",
        "shop",
        id="sample-task",
        run={"href": "#", "text": "run 1"},
        labels=["migration", "database"],
        pick="Choose Drop the column users.legacy_id",
        risk=HIGH,
    ),
    row("draft", "Try the new linter", "clock · by alice", id="sample-task-draft"),
]
QUEUE: list[Sample] = [
    {
        "id": "sample-approval",
        "href": "#",
        "title": "Replace datetime.utcnow() in clock",
        "display": BY_NAME["needs_review"],
        "gate": "Patch gate",
        "meta": "clock · 6 files, +31 −29 · asked by bob",
        "risk": LOW,
        "requested": UPDATED,
        "due": {"iso": "2026-07-06T14:00:00Z", "exact": "2026-07-06 14:00:00 UTC"},
        "bulk": {"value": "apr_1", "label": "Choose Replace datetime.utcnow() in clock"},
    },
    {
        "id": "sample-approval-late",
        "href": "#",
        "title": "Drop the column users.legacy_id",
        "display": BY_NAME["needs_review"],
        "gate": "Plan gate",
        "meta": "shop · 2 files planned · asked by dana",
        "sentence": "Your review, requested 3 d ago; it has escalated to the leads.",
        "risk": HIGH,
        "requested": UPDATED,
        "due": {**UPDATED, "tone": "bad"},
    },
]
ACTIONS: list[Sample] = [
    {"name": "logs", "label": "Open logs", "href": "#", "method": "get"},
    {"name": "pause", "label": "Pause", "href": "#", "method": "post", "key": "sample-pause"},
    {
        "name": "stop",
        "label": "Stop",
        "href": "#",
        "method": "post",
        "tone": "danger",
        "confirm": "Stops run 2 of “Replace datetime.utcnow() in clock”. "
        "Its partial patch and logs are kept; the task is cancelled with it.",
        "reason_required": True,
    },
    {"name": "queue", "label": "Queue", "href": "#", "method": "post", "tone": "primary"},
]
FILTERS: Sample = {
    "fields": [
        {"name": "q", "label": "Search", "kind": "search", "value": "clock"},
        {
            "name": "display",
            "label": "State",
            "kind": "select",
            "options": [
                {"value": "", "label": "Any", "selected": False},
                {"value": "running", "label": Display.RUNNING.label, "selected": True},
            ],
        },
    ],
    "active": True,
    "clear_url": "?",
    "summary": "2 runs",
}
EMPTY: Sample = {
    "title": "No task yet",
    "hint": "A task says what to change, where, and how it is checked. An agent does the rest.",
    "action": {"label": "New task", "href": "#"},
}
EMPTY_FILTERED: Sample = {
    "title": "No run matches",
    "hint": "2 filters are set.",
    "action": {"label": "Clear the filters", "href": "#"},
}
NOTICES: list[Sample] = [
    {"tone": "ok", "icon": "seal", "text": "Approved. The branch is being pushed."},
    {"tone": "warn", "icon": "warning", "text": "This patch changed while you were reading it."},
    {"tone": "bad", "icon": "fail", "text": "Nothing was decided: carol approved it at 10:41 UTC."},
    {"tone": "busy", "icon": "bolt", "text": "Rebuilding 12 of 40 runs."},
    {"tone": "quiet", "icon": "info", "text": "Demonstration data is in use."},
]
UNTRUSTED: Sample = {
    "by": "Written by the agent. Not checked, not part of the evidence.",
    "text": "Replaced utcnow() with now(timezone.utc) in five modules and pinned the test job to 3.12. "
    "<script>alert(1)</script>",
}
UNTRUSTED_LOG: Sample = {
    "by": "Output of pytest -q",
    "pre": True,
    "text": "E   NameError: name 'timezone' is not defined\nclock/cli.py:12: NameError\n3 failed, 209 passed",
}
ARTIFACT: Sample = {
    "label": "Verification report",
    "href": "#",
    "size": "4.2 KiB",
    "sha256": SHA256,
    "short": "9c1e4b0d…",
}
BUDGET: Sample = {
    "rows": [
        {"label": "Cost", "text": "$0.41 of $2.00", "value": 41, "max": 200},
        {"label": "Steps", "text": "97 of 100", "value": 97, "max": 100, "tone": "warn"},
        {"label": "Active time", "text": "9 min of 2 h"},
        {"label": "Repairs", "text": "1 of 2"},
    ]
}
FACTS: list[Sample] = [
    {"term": "Task", "text": "Replace datetime.utcnow()", "href": "#"},
    {"term": "Repository", "text": "clock"},
    {"term": "Started", "text": "2026-07-03 10:00:04 UTC", "time": "2026-07-03T10:00:04Z"},
    {"term": "Id", "text": "run_01JZ8…K4", "mono": True, "copy_text": "run_01JZ8QK4"},
]
