"""Guards, decisions so far, and the agent's own words, as the review page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.urls import reverse

from approvals.pages.difference import heads_of
from approvals.pages.review import Review
from approvals.pages.subjects import pretty
from runs.auth import Action, may
from runs.domain.facts import Json
from runs.domain.guards import blocking
from runs.domain.patch import shown
from runs.domain.sentences import guard_label
from runs.domain.vocabulary import DecisionWord, Gate
from runs.selectors.words import named

_SAID = {
    DecisionWord.APPROVE: "approved",
    DecisionWord.EDIT: "approved with other values",
    DecisionWord.REQUEST_CHANGES: "requested changes",
    DecisionWord.REJECT: "rejected",
}


def guard_of(review: Review, guard: Json, *, is_open: bool) -> Json:
    found = {**guard, "label": guard_label(guard["name"])}
    waivable = is_open and guard["waivable"] and guard["passed"] is not True
    if waivable and may(review.principal, Action.WAIVE, review.request.repository_id):
        href = reverse("approval-waiver", args=[review.request.pk])
        found["waive"] = {"href": href, "version": review.request.version}
    if place := _place(review, guard):
        found["link"] = {"href": place, "text": "see line"}
    elif report := _report(review, guard["name"]):
        found["link"] = {"href": reverse("artifact", args=[report]), "text": "report"}
    return found


#: Where the reading of a patch says what a guard found, line by line.
_FINDINGS = {
    "secret_scan": "secrets",
    "tests_intact": "weakenings",
    "invisible_characters": "invisible",
    "special_files": "special",
}


def _place(review: Review, guard: Json) -> str:
    """The first line that a failed guard speaks of, as a place on this page; "" where it names none."""
    if guard["passed"] is True or review.subject is None:
        return ""
    found = next(iter(review.reading.get(_FINDINGS.get(guard["name"], ""), ())), None)
    path = found["path"] if found else next(iter(review.risky), "") if guard["name"] == "risk" else ""
    anchor = next((f"f{h.index + 1}" for h in heads_of(review.subject) if shown(h.path) == path), "")
    # A weakened test's line may be the old file's; its file is sure.
    line = (found or {}).get("line") if guard["name"] != "tests_intact" else None
    return f"#{anchor}{f'R{line}' if line else ''}" if anchor else ""


def guards_lead(guards: Sequence[Json]) -> str:
    """What the failing guards mean for whoever decides; "" where all passed."""
    stopping = [guard_label(guard["name"]) for guard in blocking(list(guards))]
    if stopping:
        return f"{named(stopping)} must pass or be waived before anybody may approve"
    failing = sum(guard["passed"] is not True for guard in guards)
    told = f"{failing} of {len(guards)} did not pass, so a person decides; none of them stops an approval"
    return told if failing else ""


def _report(review: Review, guard: str) -> str:
    """The report behind a guard, while the run still stands on the patch that is shown."""
    reports = {"verification": review.state.verification, "judge": review.state.judgement}
    current = (review.state.patch or {}).get("id") == review.request.subject.get("id")
    found = reports.get(guard) if current else None
    return str(found["id"]) if found else ""


def decision_of(decision: Any) -> Json:
    return {
        "by": decision.by.get_username(),
        "said": _SAID[DecisionWord(decision.decision)],
        "comment": decision.comment,
        "override": decision.override,
        "unread": decision.unread,
        "values": pretty(decision.arguments) if decision.arguments is not None else "",
        "at": decision.at,
    }


def untrusted(review: Review) -> Json | None:
    text = review.state.output_summary if review.gate is Gate.PATCH else ""
    by = "Written by the agent. Not checked, not part of the evidence."
    return {"by": by, "text": text} if text else None
