"""Whose turn a request is: those who were asked and are here, or those who stand in for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from approvals.asking.away import absences_of
from approvals.models import ApprovalRequest, AskedPerson


def turns_of(requests: Collection[ApprovalRequest], now: datetime) -> dict[str, dict[str, str]]:
    """Request id → those whose turn it is, by person's key with their names. Two queries.

    A request that is left out is everybody's who may decide it: nobody in particular was asked, all of them
    are away, or it has escalated.
    """
    rows = AskedPerson.objects.filter(
        request_id__in=[request.pk for request in requests if request.escalated_at is None]
    ).select_related("person", "stands_in_for")
    asked: dict[str, list[AskedPerson]] = defaultdict(list)
    for row in rows:
        asked[row.request_id].append(row)
    if not asked:
        return {}
    people = [person for row in rows for person in (row.person, row.stands_in_for) if person]
    away = absences_of({person.person_key for person in people}, now)
    found = {}
    for request_id, mine in asked.items():
        here = {row.person.person_key: row.person.get_username() for row in mine if _counts(row, away)}
        if here:
            found[request_id] = here
    return found


def asked_rows(request: ApprovalRequest) -> list[AskedPerson]:
    """Everybody who was asked about it, and why, in order. One query."""
    rows = AskedPerson.objects.filter(request=request).select_related("person", "stands_in_for")
    return list(rows.order_by("pk"))


def _counts(row: AskedPerson, away: Collection[str]) -> bool:
    """Who stands in counts while the other is away, and nobody counts while they are."""
    stands_in_for_nobody = row.stands_in_for is None or row.stands_in_for.person_key in away
    return stands_in_for_nobody and row.person.person_key not in away
