"""Samples of the review and the story of a run, for the patterns page."""

from __future__ import annotations

from typing import Any

from django.utils.safestring import mark_safe

from runs.domain.display import Display

Sample = dict[str, Any]
SHA256 = "9c1e4b0d5f1a7e5f3c2b8a9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b"


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
            "title": Display.STARTING.label,
            "items": [
                item(4, "10:00", "Worker eu-3 took the run", detail="with fence 3"),
                item(6, "10:01", "Sandbox ready; main@4f2c1ab checked out, 214 files read"),
            ],
        },
        {
            "title": Display.THINKING.label,
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
            "title": Display.RUNNING.label,
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


def guard(name: str, label: str, value: str, **more: Any) -> Sample:
    """One guard; it passed unless more says otherwise."""
    return {"name": name, "label": label, "passed": True, "value": value, **more}


GUARDS: list[Sample] = [
    guard("verification", "Verification", "pytest 212 passed, ruff clean, on this patch"),
    guard("judge", "Judge", "pass, 0.93 of 0.80 needed"),
    guard(
        "paths",
        "Paths",
        ".github/workflows/ci.yml is risky here.",
        passed=False,
        would_pass_if="Passes when the file is left out, or an operator waives it.",  # noqa: S106 - a sentence
        waivable=True,
        waive={"href": "#", "version": 3},
        link={"href": "#f1", "text": "see line"},
    ),
    guard("base", "Base", "The mirror did not answer; main may have moved.", passed=None),
    guard("secret_scan", "Secrets", "nothing found in 31 added lines"),
    guard("tests_intact", "Tests intact", "no test weakened"),
    guard("budget", "Budget", "$0.41 of $2.00"),
]


def lines(*texts: tuple[str, int | None, int | None, str]) -> list[Sample]:
    """Lines of a hunk; their markup is a literal here, as safe as a highlighter's."""
    return [
        {"kind": kind, "old": old, "new": new, "html": mark_safe(html)}  # noqa: S308
        for kind, old, new, html in texts
    ]


CI_LINES = lines(
    ("ctx", 14, 14, "      - uses: actions/setup-python@v5"),
    ("del", 16, None, '          python-version: <mark>"3.11"</mark>'),
    ("add", None, 16, '          python-version: <mark>"3.12"</mark>'),
    ("note", None, None, "No newline at end of file"),
)
STAMP_LINES = lines(
    ("ctx", 8, 8, '<span class="k">def</span> stamp() -&gt; <span class="nb">str</span>:'),
    ("del", 9, None, '    <span class="k">return</span> datetime.<mark>utcnow()</mark>.isoformat()'),
    (
        "add",
        None,
        9,
        '    <span class="c1"># <span class="mark-char"><i>U+202E</i><bdi>\u202e</bdi></span> back</span>',
    ),
    (
        "add",
        None,
        10,
        '    zone = <span class="s">"UTC"</span>, <span class="mi">0</span>' + " " * 120 + "far",
    ),
    ("add", None, 11, '    <span class="k">return</span> datetime.<mark>now(UTC)</mark>.isoformat()'),
)
DIFF: Sample = {
    "files": [
        {
            "path": ".github/workflows/ci.yml",
            "name": ".github/workflows/ci.yml",
            "anchor": "f1",
            "badge": {"tone": "warn", "text": "risky path, not in the plan"},
            "added": 1,
            "deleted": 1,
            "digest": "sample-1",
            "hunks": [
                {
                    "header": "@@ -14,3 +14,3 @@ jobs: test",
                    "gap": {"said": "13 unchanged lines", "ways": [{"text": "Show", "href": "#f1"}]},
                    "rows": CI_LINES,
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
            "hunks": [{"header": "@@ -8,2 +8,4 @@", "rows": STAMP_LINES}],
            "rest": "The first 400 lines are shown, the rest is not yet.",
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
    "subject_sha256": SHA256,
    "may": {"approve": False, "request_changes": True, "reject": True},
    "why_not": "Approve is off: a path guard fails and nobody has waived it.",
    "viewed_total": 3,
}
