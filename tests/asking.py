"""People, owners and what they were told, for tests of who is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from agentplatform.clock import database_now
from approvals.models import Absence, ApprovalRequest, AskedPerson, Notice, RepositoryOwner
from runs import outbox
from runs.domain.vocabulary import PersonRole
from runs.models import Person, Repository
from tests import factories as make
from tests.deciding import waiting


def asked_request(where: Repository, **fields: Any) -> ApprovalRequest:
    """A request at its patch gate, after the relay has told of it."""
    _, request = waiting(where=where, **fields)
    outbox.relay()
    return fresh(request)


def fresh(request: ApprovalRequest) -> ApprovalRequest:
    return ApprovalRequest.objects.select_related("run", "task__created_by", "repository", "assigned").get(
        pk=request.pk
    )


def reviewers(where: Repository, *names: str, **fields: Any) -> list[Person]:
    made = [make.person(PersonRole.REVIEWER, name=f"{name}-{where.name}", repository=where) for name in names]
    for person in made:
        Person.objects.filter(pk=person.pk).update(email=f"{person.username}@example.org", **fields)
    return list(Person.objects.filter(pk__in=[person.pk for person in made]).order_by("username"))


def own(where: Repository, *people: Person) -> None:
    for person in people:
        RepositoryOwner.objects.create(repository=where, person=person)


def away(person: Person, stand_in: Person | None = None) -> Absence:
    starts = database_now() - timedelta(hours=1)
    return Absence.objects.create(
        person=person, stand_in=stand_in, starts_at=starts, ends_at=starts + timedelta(days=7)
    )


def asked(request: ApprovalRequest) -> set[str]:
    return set(AskedPerson.objects.filter(request=request).values_list("person__username", flat=True))


def told(subject: str, **more: Any) -> set[str]:
    """Names of those who were told of it."""
    found = Notice.objects.filter(subject=subject, person__isnull=False, **more)
    return set(found.values_list("person__username", flat=True))


def causes(subject: str, person: Person) -> list[str]:
    rows = Notice.objects.filter(subject=subject, person=person).order_by("pk")
    return [cause.removeprefix(f"{subject}:") for cause in rows.values_list("cause", flat=True)]


@contextmanager
def later(request: ApprovalRequest, share: float) -> Iterator[None]:
    """As the clock sees it when this share of the request's time has gone by."""
    assert request.due_at
    at = request.requested_at + (request.due_at - request.requested_at) * share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("approvals.asking.clock.database_now", lambda: at)
        yield
