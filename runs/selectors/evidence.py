"""Evidence of a run: guards, reports, artifacts; and its patch as a difference."""

from __future__ import annotations

from typing import Final

from django.urls import reverse

from runs.artifacts import artifact_read
from runs.auth import Principal
from runs.domain.documents import passed, red_before
from runs.domain.errors import NotFound
from runs.domain.facts import Json
from runs.domain.patch import PatchRefused
from runs.domain.secrets import mask
from runs.domain.sentences import guard_label
from runs.domain.state import RunState
from runs.domain.vocabulary import ArtifactKind, CompletionMode
from runs.models import Artifact, Run
from runs.selectors.diff import USUAL, Look, patch_diff, visible
from runs.selectors.runs import visible_runs
from runs.selectors.words import size, when

MOST: Final = 500
#: What a page shows of a report.
REPORT_BYTES: Final = 200_000
_AGENT: Final = "Written by the agent. Not checked, not part of the evidence."


def run_evidence(*, run: Run) -> Json:
    """``{guards, checks, judgement, plan, untrusted, artifacts}``. One query."""
    state = RunState.from_json(run.state)
    rows = Artifact.objects.filter(run=run).order_by("-created_at", "-pk").defer("document", "facts")[:MOST]
    summary = state.output_summary
    return {
        "guards": [_guard(guard) for guard in state.guards],
        "checks": _checks(state),
        "judgement": _judgement(state),
        "plan": _plan(state),
        "untrusted": {"by": _AGENT, "text": summary} if summary else None,
        "artifacts": [artifact_link(row) for row in rows],
    }


def artifact_link(row: Artifact) -> Json:
    """One artifact for components/artifact_link.html."""
    return {
        "label": ArtifactKind(row.kind).label,
        "href": reverse("artifact", args=[row.pk]),
        "size": size(row.size),
        "sha256": row.sha256,
        "short": f"{row.sha256[:10]}…",
        "at": when(row.created_at),
    }


def _guard(guard: Json) -> Json:
    return {**guard, "label": guard_label(guard["name"])}


def _checks(state: RunState) -> list[Json]:
    found = []
    red = red_before(state.verification)
    for command in (state.verification or {}).get("commands", ()):
        good = passed(command)
        words = (
            "passed"
            if good
            else "ran out of time"
            if command.get("timed_out")
            else f"exit {command['exit_code']}"
        )
        words += ", flaky: only on a second try" if command.get("flaky") else ""
        words += ", failed before the change" if command["name"] in red else ""
        output = command.get("output_artifact_id")
        found.append(
            {
                "name": command["name"],
                "tone": "ok" if good else "bad",
                "icon": "check" if good else "cross",
                "said": words,
                "took": f"{float(command['duration_ms']) / 1000:.1f} s",
                "href": reverse("artifact", args=[output]) if output else "",
            }
        )
    return found


def _judgement(state: RunState) -> Json | None:
    judged = state.judgement
    if not judged:
        return None
    good = judged["verdict"] == "pass"
    return {
        "tone": "ok" if good else "bad",
        "icon": "check" if good else "cross",
        "said": f"{'Pass' if good else 'Asks for a fix'}, confidence {judged['confidence']}",
        "reasons": judged["reasons"],
        "href": reverse("artifact", args=[judged["id"]]),
    }


def _plan(state: RunState) -> Json | None:
    if not state.plan:
        return None
    names = (
        ("files", "Will touch"),
        ("verifiers", "Will run"),
        ("risks", "Risks"),
        ("must_not_change", "Leaves alone"),
    )
    return {
        "summary": state.plan["summary"],
        "stop": state.plan["stop_condition"],
        "lists": [{"term": term, "items": state.plan[name]} for name, term in names if state.plan[name]],
        "href": reverse("artifact", args=[state.plan["id"]]),
    }


def run_patch(*, run: Run, look: Look = USUAL) -> Json:
    """``{diff, artifact, note}``: the current patch, or why there is none. One query."""
    state = RunState.from_json(run.state)
    row = Artifact.objects.filter(run=run, pk=(state.patch or {}).get("id", "")).first()
    if row is None:
        analysis = state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED
        words = "An analysis changes nothing; what it leaves is its report." if analysis else "No patch yet."
        return {"diff": None, "artifact": None, "note": words}
    try:
        diff = patch_diff(row, look=look)
    except (OSError, PatchRefused):
        words = "The patch cannot be shown: its bytes are not readable. Download it, or ask an admin."
        return {"diff": None, "artifact": artifact_link(row), "note": words}
    return {"diff": diff, "artifact": artifact_link(row), "note": ""}


def run_report(*, run: Run) -> Json:
    """``{report, artifact, note}``: the report of an analysis as plain text, or why there is none. One query.

    Markup in it is shown as it was written; of a long one the first ``REPORT_BYTES`` are shown.
    """
    state = RunState.from_json(run.state)
    row = Artifact.objects.filter(run=run, pk=(state.report or {}).get("id", "")).first()
    if row is None:
        analysis = state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED
        words = "No report yet." if analysis else "This run makes a patch, not a report."
        return {"report": None, "artifact": None, "note": words}
    try:
        data = artifact_read(row, 0, REPORT_BYTES + 1)
    except OSError:
        words = "The report cannot be shown: its bytes are not readable. Download it, or ask an admin."
        return {"report": None, "artifact": artifact_link(row), "note": words}
    cut = f" Its first {size(REPORT_BYTES)}; download it to read on." if len(data) > REPORT_BYTES else ""
    text = data[:REPORT_BYTES].decode(errors="replace")
    by = f"Written by the agent, shown as text.{cut}"
    report = {"by": by, "text": visible(mask(text)), "pre": True}
    return {"report": report, "artifact": artifact_link(row), "note": ""}


def find_artifact(*, principal: Principal, artifact_id: str) -> Artifact:
    """The artifact, if its run is theirs to know. ``NotFound`` else. One query."""
    rows = Artifact.objects.select_related("run").filter(run__in=visible_runs(principal).values("pk"))
    row = rows.filter(pk=artifact_id).first()
    if row is None:
        raise NotFound
    return row
