"""The queue as its templates take it: ready strings, no decisions."""

from __future__ import annotations

from typing import Any, Final

from django.urls import reverse

from approvals.models import ApprovalRequest
from approvals.notices.words import moment_words
from approvals.selectors import Entry, Queue
from runs.domain.facts import Json
from runs.domain.said import listed
from runs.domain.vocabulary import Gate, Risk
from runs.selectors.words import risk_badge, when

_EMPTY: Final = {
    "yours": ("Nothing waits for you", "New requests appear here by themselves, the oldest first."),
    "others": ("Nothing waits for others", "Requests that somebody else has to decide are listed here."),
    "agent": ("Nothing was sent back", "Work that you or others asked to be changed is listed here."),
}
_TITLES: Final = {"yours": "Your turn", "others": "Waiting for others", "agent": "Waiting for the agent"}


def queue_context(queue: Queue) -> Json:
    """``{buckets: [{name, title, count, rows, empty}], more, bulk}`` for approvals/queue.html."""
    buckets: list[Json] = []
    for name, entries in (("yours", queue.yours), ("others", queue.others), ("agent", queue.agent)):
        title, hint = _EMPTY[name]
        buckets.append(
            {
                "name": name,
                "title": _TITLES[name],
                "count": queue.counts.get(name, len(entries)),
                "rows": [row(entry, in_turn=name == "yours") for entry in entries],
                "empty": {"title": title, "hint": hint},
            }
        )
    bulk = any(item.get("bulk") for item in buckets[0]["rows"])
    return {"buckets": buckets, "more": queue.more, "bulk": bulk}


def row(entry: Entry, *, in_turn: bool) -> dict[str, Any]:
    """One line of the queue, as approvals/_row.html takes it."""
    request = entry.request
    found: dict[str, Any] = {
        "id": request.pk,
        "href": reverse("approval", args=[request.pk]),
        "title": request.task.title,
        "display": entry.display,
        "gate": gate_name(request),
        "meta": _meta(request),
        "risk": risk_badge(request.effective_risk),
        "requested": when(request.requested_at),
        "sentence": _sentence(entry, in_turn=in_turn),
    }
    if request.status == "open" and request.due_at:
        found["due"] = when(request.due_at)
    if in_turn and may_bulk(entry):
        value = f"{request.pk}:{request.version}:{request.subject_sha256}"
        found["bulk"] = {"value": value, "label": f"Choose {request.task.title}"}
    return found


def may_bulk(entry: Entry) -> bool:
    """Only what policy calls low risk, at its patch gate, with nothing in the way."""
    low = entry.request.effective_risk == Risk.LOW and entry.request.gate == Gate.PATCH
    return low and entry.rights.approve and not entry.rights.needs_override


def gate_name(request: ApprovalRequest) -> str:
    """``Patch gate``."""
    return f"{Gate(request.gate).label} gate"


def _meta(request: ApprovalRequest) -> str:
    parts = [request.repository.name]
    if request.gate == Gate.PATCH and (patch := request.run.state.get("patch")):
        files = "1 file" if patch["files"] == 1 else f"{patch['files']} files"
        parts.append(f"{files}, +{patch['added']} −{patch['deleted']}")
    parts.append(f"asked by {request.task.created_by.get_username()}")
    return " · ".join(parts)


def _sentence(entry: Entry, *, in_turn: bool) -> str:
    request = entry.request
    if entry.stuck:
        return "Nobody is left who may decide this; give somebody the role of a reviewer, or cancel the run."
    if request.status != "open":
        return f"{request.closed_by} asked for: {request.close_reason[:200]}"
    parts = []
    if entry.missing > 1 or (request.needed > 1 and entry.missing):
        parts.append(f"{request.needed - entry.missing} of {request.needed} have approved.")
    if request.assigned:
        parts.append(f"Assigned to {request.assigned.get_username()}.")
    elif entry.asked and not in_turn:
        parts.append(f"Asked of {listed(list(entry.asked))}.")
    if entry.is_snoozed and request.snoozed_until:
        parts.append(f"{request.snoozed_by} put it off until {moment_words(request.snoozed_until)}.")
    if request.escalated_at:
        parts.append("Escalated: everybody who may decide was asked.")
    if not in_turn:
        parts.append(entry.rights.because)
    return " ".join(parts)
