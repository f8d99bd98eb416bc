"""Ask people about an open request: choose whose turn it is, write it down, tell them once.

Each writes under the run's lock (lock order: repository, run, task, approval), so that nobody is told of a
request that was decided meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.urls import reverse

from agentplatform.clock import database_now
from approvals.asking.away import absences_of
from approvals.asking.eligible import eligible_people, people_with
from approvals.asking.owners import find_owners
from approvals.models import Absence, ApprovalRequest, AskedPerson
from approvals.notices.tell import News, settle, tell
from approvals.notices.words import KIND_OF_GATE, Kind, gate_sentence, moment_words
from approvals.people import RELATED
from runs import service
from runs.domain.vocabulary import ApprovalStatus, Gate, PersonRole
from runs.models import Person

Reasons = list[tuple[Person, str]]


@dataclass(slots=True)
class Turn:
    """``asked``: to be written down, with whom each stands in for. ``told``: who is here, and why them.
    ``lacks``: how many more must decide than may, whoever is here."""

    asked: list[tuple[Person, str, Person | None]] = field(default_factory=list)
    told: dict[Person, str] = field(default_factory=dict)
    lacks: int = 0


def ask(approval_id: str) -> None:
    """Ask the owners of what it is about; nobody, when it is decided already. Reads git: not in a request."""
    request = ApprovalRequest.objects.select_related(*RELATED).get(pk=approval_id)
    if request.status != ApprovalStatus.OPEN:
        return
    owners = find_owners(request)
    with transaction.atomic():
        held = open_request(approval_id)
        if held is None:
            return
        held.owners = owners.to_json()
        held.save(update_fields=["owners"])
        if held.assigned is None and not held.asked.exists():  # somebody was quicker: their word stands
            turn_to(held, owners.people, cause="asked")


def open_request(approval_id: str) -> ApprovalRequest | None:
    """The request with its run held, in a transaction; None when it is open no more."""
    run_id = ApprovalRequest.objects.values_list("run_id", flat=True).get(pk=approval_id)
    service.run_lock(run_id)
    found = ApprovalRequest.objects.select_related(*RELATED).get(pk=approval_id)
    return found if found.status == ApprovalStatus.OPEN else None


def turn_to(request: ApprovalRequest, candidates: Reasons, *, cause: str) -> None:
    """Make it the turn of those candidates who may decide, in place of whoever's it was, and tell them."""
    now = database_now()
    turn = choose(request, candidates, now)
    request.asked.all().delete()
    AskedPerson.objects.bulk_create(
        AskedPerson(request=request, person=person, why=why, stands_in_for=other, asked_at=now)
        for person, why, other in turn.asked
    )
    tell_turn(request, turn.told, cause=cause, lacks=turn.lacks)


def choose(request: ApprovalRequest, candidates: Reasons, now: datetime) -> Turn:
    """Who is asked of these candidates. Nobody gets a right by it: whoever may not decide is left out, and a
    stand-in decides as who they are."""
    found = eligible_people(request)
    eligible = found.people
    asked = {p.person_key: why for p, why in reversed(candidates) if p.person_key in eligible}
    base = [(eligible[key], why) for key, why in reversed(asked.items())]
    away = absences_of(set(eligible), now)
    turn = Turn([(person, why, None) for person, why in base], lacks=found.lacks)
    for person, why in base:
        absence = away.get(person.person_key)
        if absence is None:
            turn.told[person] = why
        elif (other := _stand_in(absence, eligible, away)) and other not in {who for who, _, _ in turn.asked}:
            said = stand_in_words(absence)
            turn.asked.append((other, said, person))
            turn.told.setdefault(other, said)
    if len(turn.told) < max(found.missing, 1):
        why = _everybody(request, base, found.missing)
        here = [person for key, person in eligible.items() if key not in away]
        turn.told = {**dict.fromkeys(here or eligible.values(), why), **turn.told}
    return turn


def _stand_in(absence: Absence, eligible: dict[str, Person], away: dict[str, Absence]) -> Person | None:
    """Who stands in, through others who are away themselves; None when nobody who may decide is here."""
    seen: set[str] = set()
    while absence.stand_in is not None:
        key = absence.stand_in.person_key
        if key in seen or key not in eligible:
            return None
        seen.add(key)
        if key not in away:
            return eligible[key]
        absence = away[key]
    return None


def stand_in_words(absence: Absence) -> str:
    """Why a stand-in is asked."""
    return f"You stand in for {absence.person}, who is away until {moment_words(absence.ends_at)}."


def _everybody(request: ApprovalRequest, base: Reasons, missing: int) -> str:
    if missing > 1:
        return f"You may decide in {request.repository.name}, and {missing} people must."
    if request.gate == Gate.QUESTION:
        return f"You may answer in {request.repository.name}, and who asked for the task may not."
    if base:
        names = ", ".join(person.get_username() for person, _ in base)
        return (
            f"You may decide in {request.repository.name}, and {names}, whom it would be asked of, is away."
        )
    return f"You may decide in {request.repository.name}, and nobody in particular owns this."


def tell_turn(
    request: ApprovalRequest,
    whom: dict[Person, str],
    *,
    cause: str,
    lead: str = "",
    rooms: bool = True,
    lacks: int = 0,
) -> None:
    """Tell those whose turn it is; and where that is nobody, or too few by ``lacks``, who can change it."""
    if lacks or not whom:
        _tell_stuck(request, cause, nobody=not whom)
    if whom:
        gate = Gate(request.gate)
        said = gate_sentence(gate, request.due_at)
        news = _news(request, f"{request.pk}:{cause}", KIND_OF_GATE[gate], f"{lead} {said}".strip())
        tell(news, whom, rooms=rooms)


def _tell_stuck(request: ApprovalRequest, cause: str, *, nobody: bool) -> None:
    admins = people_with((PersonRole.ADMIN,), request.repository_id)
    left = "Nobody is left" if nobody else "Fewer people than it needs are left"
    said = f"{left} who may decide this. Give somebody else the role of a reviewer, or cancel the run."
    why = f"You administer {request.repository.name}."
    settle(request.pk, "Told again since.", people=admins)
    tell(_news(request, f"{request.pk}:stuck:{cause}", Kind.BLOCKED, said), dict.fromkeys(admins, why))


def _news(request: ApprovalRequest, cause: str, kind: Kind, sentence: str) -> News:
    return News(
        cause=cause,
        kind=kind,
        subject=request.pk,
        title=request.task.title,
        sentence=sentence,
        href=reverse("approval", args=[request.pk]),
        repository_id=request.repository_id,
    )
