"""What is new since the request before: instructions asked for then, and how what the two show differs."""

from __future__ import annotations

from typing import Final

from django.urls import reverse

from approvals.pages.review import Review
from runs.domain.facts import Json
from runs.domain.patch import PatchRefused
from runs.domain.vocabulary import ApprovalStatus, Gate
from runs.selectors.diff import patch_since, visible
from runs.selectors.words import when

_PLAN: Final = (
    ("summary", "Summary"),
    ("files", "Files"),
    ("verifiers", "Checks"),
    ("risks", "Risks"),
    ("must_not_change", "Leaves alone"),
    ("stop_condition", "Stops when"),
)


def since_of(review: Review) -> Json | None:
    """``{href, at, by, lead, files, more, plan}`` for approvals/_since.html; None where this is the first."""
    before = review.before
    if before is None:
        return None
    asked = before.closed_by if before.status == ApprovalStatus.CHANGES_REQUESTED else ""
    found = {
        "href": reverse("approval", args=[before.pk]),
        "at": when(before.closed_at or before.requested_at),
        "by": asked,
    }
    if before.subject_sha256 == review.request.subject_sha256:
        return {**found, "lead": f"It is the same {review.gate.label.lower()}, byte for byte."}
    return {**found, **(_plans(review) if review.gate is Gate.PLAN else _patches(review))}


def _patches(review: Review) -> Json:
    if not review.before_subject or not review.subject:
        return {"lead": "What was shown before is not kept any more."}
    try:
        found: Json = patch_since(review.before_subject, review.subject)
    except (OSError, PatchRefused):
        return {"lead": "The two patches cannot be compared: their bytes are not readable."}
    count = len(found["files"]) + len(found["more"])
    files = f"{count} file{'' if count == 1 else 's'} differ{'s' if count == 1 else ''} from the patch before"
    kept = f", {found['same']} {'is' if found['same'] == 1 else 'are'} as before" if found["same"] else ""
    return {**found, "lead": f"{files}{kept}."}


def _plans(review: Review) -> Json:
    if not review.before_subject or not review.subject:
        return {"lead": "The plan before is not kept any more."}
    before, after = review.before_subject.document or {}, review.subject.document or {}
    rows: list[Json] = [
        {"term": term, "before": _lines(before.get(name)), "after": _lines(after.get(name))}
        for name, term in _PLAN
        if before.get(name) != after.get(name)
    ]
    what = ", ".join(row["term"].lower() for row in rows) or "nothing that is shown"
    return {"lead": f"The plan changed in: {what}.", "plan": rows}


def _lines(value: object) -> list[str]:
    return [visible(str(item)) for item in (value if isinstance(value, list) else [value or ""])]
