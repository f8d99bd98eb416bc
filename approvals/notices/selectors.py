"""Reads of the inbox. Somebody who may no longer see a repository no longer sees what was told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Count, Q, QuerySet

from agentplatform.clock import database_now
from approvals.models import Absence, Notice, Preference
from approvals.notices.words import Kind
from runs.auth import Principal, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.models import Person
from runs.selectors.paging import keyset_page
from runs.selectors.words import when

#: A larger number is shown as this many and a plus: counting on is of no use to anybody.
COUNTED: Final = 99
_DISPLAY: Final = {
    Kind.NEEDS_REVIEW: Display.NEEDS_REVIEW,
    Kind.BLOCKED: Display.BLOCKED,
    Kind.FAILED: Display.FAILED,
    Kind.COMPLETED: Display.COMPLETED,
}
_WAY_OUT: Final = {
    Kind.NEEDS_REVIEW: "Review",
    Kind.BLOCKED: "Resolve",
    Kind.FAILED: "See what went wrong",
    Kind.COMPLETED: "Review result",
}


def visible_notices(principal: Principal) -> QuerySet[Notice]:
    """What this person was told, of what they may still see; of alike ones the first."""
    mine = Notice.objects.filter(person_id=principal.id, lead__isnull=True)
    where = visible_repositories(principal)
    return mine if where is None else mine.filter(Q(repository=None) | Q(repository_id__in=where))


def unread_count(principal: Principal) -> int:
    """How many wait to be read, counted no further than needed. One query."""
    return visible_notices(principal).filter(_UNREAD)[: COUNTED + 1].count()


_UNREAD: Final = Q(read_at__isnull=True, settled_at__isnull=True)


def inbox(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{rows, pager, empty, unread, kind, kinds}``, newest first. Two queries, however many there are."""
    kind = params.get("kind", "")
    found = visible_notices(principal)
    if kind in list(Kind):
        found = found.filter(kind=kind)
    if params.get("show") == "unread":
        found = found.filter(_UNREAD)
    filtered = kind in list(Kind) or params.get("show") == "unread"
    counted = found.select_related("repository").annotate(others=Count("followers"))
    notices, pager = keyset_page(counted, params)
    return {
        "rows": [_row(notice) for notice in notices],
        "pager": pager,
        "empty": _FILTERED if filtered else _EMPTY,
        "unread": unread_count(principal),
        "kind": kind,
        "show": params.get("show", ""),
        "kinds": [{"value": one.value, "label": one.label} for one in Kind],
    }


_EMPTY: Final = {
    "title": "Nothing to tell you",
    "hint": "What completes, fails or is blocked of yours, and reviews that are yours, are told here, once.",
}
_FILTERED: Final = {
    "title": "Nothing of this kind",
    "hint": "Other notices are there.",
    "action": {"label": "Show all", "href": "?"},
}


def _row(notice: Any) -> Json:
    kind = Kind(notice.kind)
    display, others = _DISPLAY[kind], notice.others
    title = f"{notice.title} and {others} more" if others else notice.title
    return {
        "id": notice.pk,
        "display": {"state": display.value, "title": kind.label, "icon": display.icon, "tone": display.tone},
        "title": title,
        "sentence": notice.sentence,
        "why": notice.why,
        "href": notice.href,
        "way_out": _WAY_OUT[kind],
        "repository": notice.repository.name if notice.repository else "",
        "at": when(notice.created_at),
        "is_unread": notice.read_at is None and notice.settled_at is None,
        "settled": notice.settled_because if notice.settled_at else "",
    }


def settings_of(person: Person) -> Json:
    """``{preference, absences}``: when they get mail, and when they are or will be away. Two queries."""
    absences = Absence.objects.filter(person=person, ends_at__gt=database_now()).select_related("stand_in")
    return {
        "preference": Preference.objects.filter(person=person).first() or Preference(person=person),
        "absences": [
            {
                "id": absence.pk,
                "starts": when(absence.starts_at),
                "ends": when(absence.ends_at),
                "stand_in": absence.stand_in.get_username() if absence.stand_in else "",
            }
            for absence in absences.order_by("starts_at")
        ],
    }
