"""Who may decide a request, as people to turn to: one account of each person."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q

from approvals.models import ApprovalRequest
from approvals.people import Surroundings, surroundings
from approvals.policy import Viewer, missing_votes, rights
from runs.domain.vocabulary import Gate, PersonRole
from runs.models import Person, RoleGrant

_DECIDE = (PersonRole.REVIEWER, PersonRole.ADMIN)
_ANSWER = (PersonRole.SUBMITTER, PersonRole.REVIEWER, PersonRole.OPERATOR, PersonRole.ADMIN)


def people_with(roles: Collection[PersonRole], repository_id: str | None) -> list[Person]:
    """Active people with one of these roles in a repository (None: everywhere), by name; of several accounts
    of one person the first that has a role. One query."""
    where = Q(repository__isnull=True)
    if repository_id is not None:
        where |= Q(repository_id=repository_id)
    granted = Exists(RoleGrant.objects.filter(where, person_id=OuterRef("pk"), role__in=roles))
    entitled = granted | Q(is_superuser=True) if PersonRole.ADMIN in roles else granted
    found: dict[str, Person] = {}
    for person in Person.objects.filter(entitled, is_active=True).order_by("username"):
        found.setdefault(person.person_key, person)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Eligible:
    """Who may decide a request now, by person's key, and how many of them still must."""

    people: dict[str, Person]
    missing: int

    @property
    def lacks(self) -> int:
        """How many more must decide than may."""
        return max(self.missing - len(self.people), 0)


def eligible_people(request: ApprovalRequest, around: Surroundings | None = None) -> Eligible:
    """Those with the role, by four-eyes, who have not approved it yet. At most nine queries; one where
    ``around`` is read already."""
    asks = request.gate == Gate.QUESTION
    standing = (around or surroundings([request])).standing(request)
    found = {}
    for person in people_with(_ANSWER if asks else _DECIDE, request.repository_id):
        viewer = Viewer(person.person_key, may_review=not asks, may_answer=asks)
        if rights(viewer, standing).may_decide:
            found[person.person_key] = person
    return Eligible(found, missing_votes(standing))
