"""Absences: who is away now, and who stands in for them. They hand on questions, never rights."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from approvals.models import Absence
from runs.domain.errors import Invalid
from runs.models import Person

LONGEST: Final = timedelta(days=366)


def absences_of(keys: Collection[str], now: datetime) -> dict[str, Absence]:
    """Who of these persons (keys) is away now, by key: the absence that ends last. One query."""
    found: dict[str, Absence] = {}
    current = Absence.objects.filter(
        Q(person_id__in=keys) | Q(person__same_person_as_id__in=keys), starts_at__lte=now, ends_at__gt=now
    )
    for absence in current.select_related("person", "stand_in").order_by("ends_at"):
        found[absence.person.person_key] = absence
    return found


def absence_add(
    *, person: Person, starts_at: datetime, ends_at: datetime, stand_in: Person | None, now: datetime
) -> Absence:
    """Say that somebody is away. Raises ``Invalid`` with each field that is wrong."""
    wrong: dict[str, list[str]] = {}
    if ends_at <= max(starts_at, now):
        wrong["ends_at"] = ["must be later than the start, and than now"]
    elif ends_at - starts_at > LONGEST:
        wrong["ends_at"] = ["must be within a year of the start; leave for good by losing the role"]
    if stand_in is not None and stand_in.person_key == person.person_key:
        wrong["stand_in"] = ["must be another person"]
    if stand_in is not None and not stand_in.is_active:
        wrong["stand_in"] = ["has left"]
    if wrong:
        raise Invalid(wrong)
    return Absence.objects.create(person=person, starts_at=starts_at, ends_at=ends_at, stand_in=stand_in)
