"""Assign and snooze: who looks at an open request, and when. Neither gives rights or stops a clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from agentplatform.clock import database_now
from approvals.asking.ask import turn_to
from approvals.asking.clock import next_tick
from approvals.asking.eligible import eligible_people
from approvals.asking.owners import kept_owners
from approvals.desk import check_open, sit_down
from approvals.models import ApprovalRequest
from approvals.notices.tell import settle
from approvals.notices.words import moment_words
from runs.auth import Action, Principal, may, require
from runs.domain.errors import Invalid
from runs.models import Person

LONGEST: Final = timedelta(days=31)


@transaction.atomic
def approval_assign(*, approval_id: str, to: str, by: Principal) -> ApprovalRequest:
    """Make it one person's turn, named by their name here; "" gives it back to those who were asked first.

    Raises ``Invalid`` for somebody who may not decide it, ``PermissionDenied`` for those who neither review
    nor operate there, ``ApprovalDecided`` and ``ApprovalClosed``.
    """
    request = _open(approval_id, by)
    person = _find(request, to)
    if request.assigned == person:
        return request
    request.assigned = person
    request.save(update_fields=["assigned"])
    # Each assignment is a cause of its own: somebody who gets it back hears of it again.
    cause = f"assigned:{database_now():%Y%m%d%H%M%S%f}"
    if person is None:
        settle(request.pk, f"{by.name} gave it back.")
        turn_to(request, kept_owners(request), cause=cause)
    else:
        settle(request.pk, f"{by.name} assigned it to {person}.")
        turn_to(request, [(person, _why(person, by))], cause=cause)
    return request


def _why(person: Person, by: Principal) -> str:
    return "You took it." if by.id == person.pk else f"{by.name} assigned it to you."


def _find(request: ApprovalRequest, name: str) -> Person | None:
    if not name:
        return None
    for person in eligible_people(request).people.values():
        if person.get_username() == name:
            return person
    # The same words for a name that is unknown: who has an account is nobody's to find out here.
    may_not = "must name somebody who may decide this: a reviewer here who did not bring the work about"
    raise Invalid({"to": [may_not]})


@transaction.atomic
def approval_snooze(*, approval_id: str, until: datetime | None, by: Principal) -> ApprovalRequest:
    """Put an open request to the end of the queue, and its reminder off, until then; None ends it.

    Its clock goes on: it escalates and runs out as if nothing had been put off. Raises as ``approval_assign``
    does.
    """
    request = _open(approval_id, by)
    if until is not None:
        _check_until(request, until, database_now())
    request.snoozed_until, request.snoozed_by = until, by.name if until else ""
    request.clock_at = next_tick(request)
    request.save(update_fields=["snoozed_until", "snoozed_by", "clock_at"])
    return request


def _check_until(request: ApprovalRequest, until: datetime, now: datetime) -> None:
    if until <= now:
        raise Invalid({"until": ["must be in the future"]})
    if until > now + LONGEST:
        raise Invalid({"until": [f"must be within {LONGEST.days} days"]})
    if request.due_at is not None and until >= request.due_at:
        due = moment_words(request.due_at)
        raise Invalid({"until": [f"must be before {due}, when it is due: it would run out in its sleep"]})


def require_turner(request: ApprovalRequest, by: Principal) -> None:
    """``PermissionDenied`` for those who neither review nor operate there."""
    if not may(by, Action.WAIVE, request.repository_id):
        require(by, Action.APPROVE, request.repository_id)


def _open(approval_id: str, by: Principal) -> ApprovalRequest:
    desk = sit_down(approval_id, by)
    require_turner(desk.request, by)
    check_open(desk)
    return desk.request
