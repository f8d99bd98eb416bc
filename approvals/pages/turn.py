"""Whose turn the request is, why theirs, and what can be changed about that."""

from __future__ import annotations

from datetime import timedelta

from django.urls import reverse

from approvals.asking.eligible import eligible_people
from approvals.asking.turns import asked_rows
from approvals.forms import SNOOZES
from approvals.notices.words import moment_words
from approvals.pages.review import Review
from runs.auth import Action, may
from runs.domain.facts import Json
from runs.domain.said import listed
from runs.selectors.words import when

#: People whom the page offers to assign to; a longer list is for the API.
OFFERED = 200


def turn_of(review: Review) -> Json | None:
    """``{sentence, people: [{name, why, is_here}], unknown, snoozed?, assign?, snooze?}``; None when closed.
    Two queries."""
    request = review.request
    if review.entry.closed:
        return None
    names = review.around.asked_of(request)
    found: Json = {
        "sentence": _sentence(review),
        "people": [
            {"name": row.person.get_username(), "why": row.why, "is_here": row.person.person_key in names}
            for row in asked_rows(request)
        ],
        "unknown": listed(list(request.owners.get("unknown", [])[:10])),
        "source": request.owners.get("source", ""),
        "snoozed": review.entry.is_snoozed
        and {"by": request.snoozed_by, "until": when(request.snoozed_until)},
    }
    return {**found, **_forms(review)}


def _sentence(review: Review) -> str:
    request, asked = review.request, review.entry.asked
    if review.entry.stuck:
        return "Nobody's: nobody is left who may decide."
    if request.escalated_at:
        return f"Everybody's who may decide: it was escalated at {moment_words(request.escalated_at)}."
    if not asked:
        return "Everybody's who may decide here."
    whose = listed(list(asked))
    return f"Assigned to {whose}." if request.assigned else f"{whose}."


def _forms(review: Review) -> Json:
    request, by = review.request, review.principal
    if not any(may(by, action, request.repository_id) for action in (Action.APPROVE, Action.WAIVE)):
        return {}
    people = sorted(p.get_username() for p in eligible_people(request, review.around).people.values())
    left = request.due_at - review.around.now if request.due_at else None
    return {
        "assign": {
            "href": reverse("approval-assign", args=[request.pk]),
            "people": people[:OFFERED],
            "assigned": request.assigned.get_username() if request.assigned else "",
        },
        "snooze": {
            "href": reverse("approval-snooze", args=[request.pk]),
            "choices": [
                {"hours": hours, "label": label}
                for hours, label in SNOOZES.items()
                if left is None or timedelta(hours=hours) < left
            ],
        },
    }
