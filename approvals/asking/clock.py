"""The clock of open requests: it reminds, then escalates; what the policy does at the end is the sweep's
(``runs.timeouts``). Nothing here decides anything.

Half of the time gone: those whose turn it is are reminded. Four fifths gone: it is everybody's who may
decide. A policy that lets a request wait on at its end tells those who run the repository.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from agentplatform.clock import database_now
from approvals.asking.ask import Reasons, choose, open_request, tell_turn, turn_to
from approvals.asking.eligible import eligible_people, people_with
from approvals.asking.owners import kept_owners
from approvals.models import Absence, ApprovalRequest, AskedPerson
from approvals.notices.tell import settle
from approvals.notices.words import moment_words
from runs.domain.vocabulary import ApprovalStatus, PersonRole
from runs.timeouts import Swept

log = structlog.get_logger(__name__)

REMIND_AFTER: Final = 0.5
ESCALATE_AFTER: Final = 0.8
BATCH: Final = 500


def next_tick(request: ApprovalRequest) -> datetime | None:
    """When the clock acts next; None where nothing is left for it to do."""
    if request.due_at is None:
        return None
    span = request.due_at - request.requested_at
    escalates_at = request.requested_at + span * ESCALATE_AFTER
    if request.reminded_at is None:
        reminds_at = request.requested_at + span * REMIND_AFTER
        asleep = request.snoozed_until or reminds_at
        return min(max(reminds_at, asleep), escalates_at)
    return escalates_at if request.escalated_at is None else None


def tick() -> list[Swept]:
    """Act on what is due, each in a transaction of its own; twice at once, or again, does nothing twice."""
    now = database_now()
    absences = Absence.objects.filter(handed_over_at=None, starts_at__lte=now, ends_at__gt=now)
    requests = ApprovalRequest.objects.filter(status=ApprovalStatus.OPEN, clock_at__lte=now)
    done: list[Swept] = [_safely(pk, "leaver", _leave_to_others) for pk in left_behind()[:BATCH]]
    done += [_safely(pk, "absence", _hand_over) for pk in absences.values_list("pk", flat=True)[:BATCH]]
    done += [
        _safely(pk, "request", _act)
        for pk in requests.order_by("clock_at").values_list("pk", flat=True)[:BATCH]
    ]
    return [swept for swept in done if swept.event or swept.error]


def _safely(subject: str, scope: str, act: Callable[[str], str]) -> Swept:
    """One that cannot be acted on stops no other."""
    try:
        return Swept(subject, scope, act(subject))
    except Exception as error:
        log.exception("approval_clock_failed", subject=subject)
        return Swept(subject, scope, error=f"{type(error).__name__}: {error}"[:500])


@transaction.atomic
def _act(approval_id: str) -> str:
    request, now = open_request(approval_id), database_now()
    # Read after the run's lock: another tick may have been first.
    if request is None or request.clock_at is None or request.clock_at > now:
        return ""
    did = _remind_or_escalate(request, now)
    request.clock_at = next_tick(request)
    request.save(update_fields=["clock_at", "reminded_at", "escalated_at"])
    return did


def _remind_or_escalate(request: ApprovalRequest, now: datetime) -> str:
    if request.due_at is None:
        return _hand_up(request)
    span = request.due_at - request.requested_at
    if now >= request.requested_at + span * ESCALATE_AFTER:
        return _escalate(request, now)
    _remind(request, now)
    return "reminded"


def _remind(request: ApprovalRequest, now: datetime) -> None:
    request.reminded_at = now
    turn = choose(request, asked_of(request), now)
    settle(request.pk, "Reminded since.", people=turn.told)
    tell_turn(request, turn.told, cause="reminder", lead="A reminder.", rooms=False, lacks=turn.lacks)


def _escalate(request: ApprovalRequest, now: datetime) -> str:
    request.reminded_at = request.reminded_at or now
    request.escalated_at = now
    since = moment_words(request.requested_at)
    why = f"You may decide in {request.repository.name}; nobody has since {since}."
    found = eligible_people(request)
    told = dict.fromkeys(found.people.values(), why)
    settle(request.pk, "Escalated since.", people=told)
    tell_turn(request, told, cause="escalated", lead="Escalated.", lacks=found.lacks)
    return "escalated"


def _hand_up(request: ApprovalRequest) -> str:
    """The policy's outcome was to wait on: those who run the repository hear of it, beside who may decide."""
    here = request.repository
    roles = (PersonRole.OPERATOR, PersonRole.ADMIN)
    told = dict.fromkeys(people_with(roles, here.pk), f"You run {here.name}.")
    settle(request.pk, "Overdue since.", people=told)
    tell_turn(request, told, cause="overdue", lead="Overdue, and by policy it waits on.")
    return "handed up"


def asked_of(request: ApprovalRequest) -> Reasons:
    """Who was asked for their own sake, and why."""
    rows = AskedPerson.objects.filter(request=request, stands_in_for=None).select_related("person")
    return [(row.person, row.why) for row in rows.order_by("pk")]


def _hand_over(absence_id: str) -> str:
    """Somebody's absence has begun: what was asked of them is asked of who stands in. Each request in a
    transaction of its own; done again after a crash, nobody is told twice."""
    person = Absence.objects.select_related("person").get(pk=absence_id).person
    rows = AskedPerson.objects.filter(person=person, request__status=ApprovalStatus.OPEN)
    for approval_id in rows.order_by("request_id").values_list("request_id", flat=True):
        _ask_again(approval_id)
    # The condition makes one of several say so.
    mine = Absence.objects.filter(pk=absence_id, handed_over_at=None)
    return "handed over" if mine.update(handed_over_at=database_now()) else ""


def left_behind() -> QuerySet:
    """Ids of open requests that are still asked of, or assigned to, somebody who has left. One query."""
    gone = Q(assigned__is_active=False) | Q(asked__person__is_active=False)
    open_ones = ApprovalRequest.objects.filter(gone, status=ApprovalStatus.OPEN)
    return open_ones.order_by("pk").values_list("pk", flat=True).distinct()


@transaction.atomic
def _leave_to_others(approval_id: str) -> str:
    """Whoever is inactive is asked no more: the others who own it are, or everybody who may decide."""
    request = open_request(approval_id)
    if request is None:
        return ""
    if request.assigned is not None and not request.assigned.is_active:
        request.assigned = None
        request.save(update_fields=["assigned"])
    settle(request.pk, "Who was asked has left.")
    # Once for each time that somebody leaves: what was told before is settled just now.
    turn_to(request, kept_owners(request), cause=f"left:{database_now():%Y%m%d%H%M%S%f}")
    return "left to others"


@transaction.atomic
def _ask_again(approval_id: str) -> None:
    request = open_request(approval_id)
    if request is not None and request.escalated_at is None:
        turn_to(request, asked_of(request), cause="asked")
