"""The context of the review page: its head, its place in the queue, its parts, and what one may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from approvals import rows
from approvals.pages.asked import asked, done
from approvals.pages.difference import UNREADABLE, diff_of, try_it
from approvals.pages.evidence import decision_of, guard_of, guards_lead, untrusted
from approvals.pages.review import Review
from approvals.pages.since import since_of
from approvals.pages.subjects import subject_of
from approvals.pages.turn import turn_of
from approvals.policy import CHANGEABLE
from approvals.remarks import Draft
from approvals.selectors import ids_in_turn
from runs.domain.facts import Json
from runs.domain.payloads import MAX_TEXT
from runs.domain.vocabulary import Gate, Risk
from runs.selectors.diff import USUAL, Look
from runs.selectors.words import named, risk_badge, when

_APPROVE = {Gate.QUESTION: "Answer", Gate.BUDGET: "Raise the budget", Gate.TOOL_CALL: "Allow the call"}
_REJECT = {Gate.QUESTION: "Give no answer", Gate.BUDGET: "End the run", Gate.TOOL_CALL: "Refuse the call"}


@dataclass(frozen=True, slots=True)
class Asked:
    """How the page is asked for: ``error`` and what follows it come back after a refusal."""

    look: Look = USUAL
    site: str = ""  #: the address of this installation
    error: str = ""
    comment: str = ""
    seen: tuple[str, ...] = ()  #: digests of files that were opened
    remarks: Sequence[Draft] = ()  #: beside lines of what is shown


def review_context(review: Review, posed: Asked) -> Json:
    """The whole context of approvals/review.html."""
    request, closed = review.request, review.entry.closed
    diff = diff_of(review, posed.look, posed.remarks)
    away = diff is None and review.gate is Gate.PATCH and review.subject is not None
    return {
        "request_id": request.pk,
        "head": _head(review),
        "closed": closed,
        "successor": reverse("approval", args=[review.successor]) if review.successor else "",
        "error": posed.error,
        "comment": posed.comment,
        "turn": turn_of(review),
        "asked": asked(review),
        "done": done(review) if review.gate is Gate.PATCH else None,
        "subject": subject_of(review),
        "since": since_of(review),
        "guards": [guard_of(review, guard, is_open=not closed) for guard in request.guards],
        "guards_lead": guards_lead(request.guards),
        "decisions": [decision_of(decision) for decision in review.around.decisions.get(request.pk, ())],
        "stuck": review.entry.stuck,
        "rights": review.entry.rights,
        "untrusted": untrusted(review),
        "diff": diff,
        "unreadable": f"The patch {UNREADABLE}." if away else "",
        "try_it": try_it(review, posed.site),
        "remarks": bool(diff) and not closed and review.gate is Gate.PATCH,
        "verdict": None if closed else _verdict(review, posed, diff),
    }


# --- head -----------------------------------------------------------------------------------------


def _head(review: Review) -> Json:
    request = review.request
    return {
        "display": review.entry.display,
        "title": request.task.title,
        "gate": rows.gate_name(request),
        "risk": _risk_sentence(review),
        "risk_tone": risk_badge(request.effective_risk)["tone"],
        "requested": when(request.requested_at),
        "due": None if review.entry.closed else when(request.due_at),
        "run": {"id": request.run_id, "number": request.run.attempt_no},
        "task_id": request.task_id,
        "repository": request.repository.name,
        "place": _place(review),
    }


def _risk_sentence(review: Review) -> str:
    own, effective = Risk(review.state.risk_level), Risk(review.request.effective_risk)
    if effective is own:
        return f"{own.label.lower()} risk"
    by = f" by {named(review.risky)}" if review.risky else ""
    return f"{own.label.lower()} risk, raised to {effective.label.lower()}{by}"


def _place(review: Review) -> Json | None:
    """Where this stands in the viewer's own queue, and the way to the next."""
    mine = ids_in_turn(review.principal)
    others = [pk for pk in mine if pk != review.request.pk]
    if not mine:
        return None
    after = next((pk for pk in others if pk in mine[_index(mine, review.request.pk) :]), (others or [""])[0])
    return {
        "number": _index(mine, review.request.pk) if review.request.pk in mine else None,
        "of": len(mine),
        "next": reverse("approval", args=[after]) if after else "",
    }


def _index(ids: Sequence[str], wanted: str) -> int:
    """Counted from 1; 0 where it is not among them."""
    return ids.index(wanted) + 1 if wanted in ids else 0


# --- verdict --------------------------------------------------------------------------------------


def _verdict(review: Review, posed: Asked, diff: Json | None) -> Json:
    request, rights = review.request, review.entry.rights
    unread = diff["unread"] if diff and review.gate is Gate.PATCH else 0
    return {
        "href": reverse("approval-decision", args=[request.pk]),
        "version": request.version,
        "subject_sha256": request.subject_sha256,
        "may": {
            "approve": rights.approve,
            "request_changes": rights.request_changes,
            "reject": rights.reject,
        },
        "why_not": rights.why_not,
        "hint": rights.warning,
        "error": posed.error,
        "comment": posed.comment,
        "draft": request.task_id,
        "longest": MAX_TEXT,
        "approve_label": _APPROVE.get(review.gate, ""),
        "reject_label": _REJECT.get(review.gate, ""),
        "request_changes_offered": review.gate in CHANGEABLE,
        "viewed_total": len(review.reading.get("files", ())),
        "unread": unread,
        "seen": posed.seen,
        "alarm": _alarm(review),
    }


def _alarm(review: Review) -> str:
    """What nobody should overlook on the way to the button."""
    hidden = {(found["path"], found["line"]) for found in review.reading.get("invisible", ())}
    return f"Hidden characters in {len(hidden)} line{'' if len(hidden) == 1 else 's'}." if hidden else ""
