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
from django.utils.safestring import mark_safe

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


def display(state: str, title: str, icon: str, tone: str, step: str = "") -> Sample:
    """One display state, as the lifecycle's vocabulary gives it."""
    return {"state": state, "title": title, "icon": icon, "tone": tone, "step": step}


#: The fourteen of the lifecycle contract, section 15; each with an icon of its own.
STATES: list[Sample] = [
    display("draft", "Draft", "pencil", "quiet"),
    display("queued", "Queued", "queue", "quiet"),
    display("starting", "Starting", "play", "busy"),
    display("thinking", "Thinking", "thought", "busy", "planning"),
    display("running", "Running", "bolt", "busy", "running checks"),
    display("waiting", "Waiting", "clock", "quiet"),
    display("needs_review", "Needs review", "eye", "warn"),
    display("blocked", "Blocked", "blocked", "warn"),
    display("paused", "Paused", "pause", "quiet"),
    display("cancelling", "Cancelling", "stop", "busy"),
    display("cancelled", "Cancelled", "slash", "quiet"),
    display("failed", "Failed", "fail", "bad"),
    display("completed", "Completed", "seal", "ok"),
    display("archived", "Archived", "box", "quiet"),
]
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
        "clock · run 2 of 3 · worker eu-3 · $0.41",
        risk=LOW,
    ),
    row(
        "waiting",
        "Type the billing package",
        "billing · run 1 of 3",
        sentence="Waiting 4 min for a worker with role verifier: none has asked since 10:02.",
    ),
    row(
        "failed",
        "Move the settings to environment variables, " * 8,
        "shop · run 3 of 3 · $4.10",
        sentence="Checks failed: pytest, 3 of 212, the same three as in run 2.",
        sentence_tone="bad",
        risk=HIGH,
    ),
    row("completed", "إزالة الشيفرة غير المستخدمة 🧹", "shop · run 1 of 3 · branch agent/shop-41"),
]
TASK_ROWS: list[Sample] = [
    row(
        "needs_review",
        "Drop the column users.legacy_id",
        "shop",
        id="sample-task",
        run={"href": "#", "text": "run 1 of 3"},
        labels=["migration", "database"],
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
                {"value": "running", "label": "Running", "selected": True},
            ],
        },
    ],
    "active": True,
    "clear": "?",
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
    {"tone": "bad", "icon": "fail", "text": "Nothing was decided: carol approved it at 10:41."},
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
    "text": "E   NameError: name 'timezone' is not defined\nclock/cli.py:12: NameError\n3 failed, 209 passed in 4.10s",
}
ARTIFACT: Sample = {
    "label": "Verification report",
    "href": "#",
    "size": "4.2 KiB",
    "sha256": "9c1e4b0d5f1a7e5f3c2b8a9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b",
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
    {"term": "Id", "text": "run_01JZ8…K4", "mono": True, "copy": "run_01JZ8QK4"},
]


def item(seq: int, time: str, sentence: str, **more: Any) -> Sample:
    """One sentence of the timeline."""
    return {
        "seq_from": seq,
        "seq_to": seq,
        "anchor": f"e{seq}",
        "time_exact": f"2026-07-03T{time}:00Z",
        "time_text": time,
        "tone": "quiet",
        "icon": "dot",
        "sentence": sentence,
        "events": [],
        "gap": False,
        **more,
    }


FAILED_CHECK: Sample = {
    "seq": 61,
    "type": "verification_failed_retryable",
    "actor": "verifier eu-3",
    "payload_json": '{\n  "verification_report_id": "art_01JZ8Q"\n}',
}
TIMELINE: Sample = {
    "phases": [
        {
            "title": "Starting",
            "items": [
                item(4, "10:00", "Worker eu-3 took the run", detail="with fence 3"),
                item(6, "10:01", "Sandbox ready; main@4f2c1ab checked out, 214 files read"),
            ],
        },
        {
            "title": "Thinking",
            "items": [
                item(
                    9,
                    "10:03",
                    "Plan made: 5 files, 2 checks, 1 risk",
                    link={"href": "#", "text": "read it"},
                ),
                {"gap": True, "sentence": "42 min waiting for bob to approve the plan"},
            ],
        },
        {
            "title": "Running",
            "items": [
                item(14, "10:48", "Edited 6 files", detail="in 14 steps, $0.31"),
                item(
                    61,
                    "10:50",
                    "pytest failed: 3 of 212, NameError: timezone in clock/cli.py:12",
                    tone="bad",
                    icon="cross",
                    events=[FAILED_CHECK],
                    link={"href": "#", "text": "log"},
                ),
                item(63, "10:51", "Agent repaired a missing import", icon="wrench"),
                item(66, "10:52", "ruff passed", tone="ok", icon="check"),
                item(67, "10:52", "pytest is running, 48 s of at most 10 min", tone="busy"),
            ],
        },
    ]
}


def guard(name: str, label: str, passed: bool | None, value: str, **more: Any) -> Sample:
    """One guard, judged."""
    return {"name": name, "label": label, "passed": passed, "value": value, **more}


GUARDS: list[Sample] = [
    guard("verification", "Verification", True, "pytest 212 passed, ruff clean, on this patch"),
    guard("judge", "Judge", True, "pass, 0.93 of 0.80 needed"),
    guard(
        "paths",
        "Paths",
        False,
        ".github/workflows/ci.yml is risky here.",
        would_pass_if="Passes when the file is left out, or an operator waives it.",
        waivable=True,
        waive={"href": "#", "version": 3},
        link={"href": "#f1", "text": "see line"},
    ),
    guard("base", "Base", None, "The mirror did not answer; main may have moved."),
    guard("secret_scan", "Secrets", True, "nothing found in 31 added lines"),
    guard("tests_intact", "Tests intact", True, "no test weakened"),
    guard("budget", "Budget", True, "$0.41 of $2.00"),
]


def line(kind: str, old: int | None, new: int | None, html: str) -> Sample:
    """One line of a hunk; its markup is safe here, as it is after highlighting."""
    return {"kind": kind, "old": old, "new": new, "html": mark_safe(html)}  # noqa: S308 - literals below


DIFF: Sample = {
    "files": [
        {
            "path": ".github/workflows/ci.yml",
            "anchor": "f1",
            "badge": {"tone": "warn", "text": "risky path, not in the plan"},
            "added": 1,
            "deleted": 1,
            "digest": "sample-1",
            "hunks": [
                {
                    "header": "@@ -14,3 +14,3 @@ jobs: test",
                    "lines": [
                        line("ctx", 14, 14, "      - uses: actions/setup-python@v5"),
                        line("del", 16, None, '          python-version: <mark>"3.11"</mark>'),
                        line("add", None, 16, '          python-version: <mark>"3.12"</mark>'),
                        line("note", None, None, "No newline at end of file"),
                    ],
                }
            ],
        },
        {
            "path": "clock/stamps.py",
            "old_path": "clock/stamp.py",
            "anchor": "f2",
            "added": 3,
            "deleted": 1,
            "digest": "sample-2",
            "truncated": True,
            "load_url": "#f2",
            "hunks": [
                {
                    "header": "@@ -8,2 +8,4 @@",
                    "lines": [
                        line("ctx", 8, 8, '<span class="k">def</span> stamp() -&gt; <span class="nb">str</span>:'),
                        line("del", 9, None, "    <span class=\"k\">return</span> datetime.<mark>utcnow()</mark>.isoformat()"),
                        line("add", None, 9, '    <span class="c1"># aware, and never <span class="mark-char">U+202E</span> reversed</span>'),
                        line("add", None, 10, '    zone = <span class="s">"UTC"</span>, <span class="mi">0</span>' + " " * 90 + "far"),
                        line("add", None, 11, "    <span class=\"k\">return</span> datetime.<mark>now(timezone.utc)</mark>.isoformat()"),
                    ],
                }
            ],
        },
        {
            "path": "docs/logo.png",
            "anchor": "f3",
            "added": 0,
            "deleted": 0,
            "digest": "sample-3",
            "note": "Binary file, 4.2 KiB. The mode changed: now executable.",
            "hunks": [],
        },
    ]
}
VERDICT: Sample = {
    "href": "#",
    "version": 3,
    "subject_sha256": ARTIFACT["sha256"],
    "may": {"approve": False, "request_changes": True, "reject": True},
    "why_not": "Approve is off: a path guard fails and nobody has waived it.",
    "viewed_total": 3,
}
