"""Letters: what was told goes out by mail and to chat rooms, together where it happened together.

At least once: a letter is marked sent after the mail server took it, and a repeat has the same Message-ID.
One that cannot go out is tried again on the outbox's schedule, then parked; nobody is told of that by letter.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parseaddr
from typing import Any, Final

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import IntegrityError, transaction
from django.db.models import F, Min, Q
from django.urls import reverse

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from agentplatform.stopping import until_asked
from approvals.notices.models import Letter, Notice, Room
from approvals.notices.words import GATHER, QUIET, Kind, Line, body_of, subject_of
from runs.auth import of_person, visible_repositories
from runs.models import Person
from runs.outbox import MAX_TRIES, Relayed, wait_after

log = structlog.get_logger(__name__)

CLAIM: Final = timedelta(seconds=60)
BATCH: Final = 200
#: Notices that one letter reads, newest last; what is beyond is counted in the inbox.
MOST: Final = 1_000


def send_letters(done: Relayed) -> None:
    """Make letters of what is due and send those whose time has come; adds to the numbers of ``done``."""
    gather()
    now = database_now()
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    due = Letter.objects.filter(free, state=Letter.PENDING, next_try_at__lte=now)
    for letter in until_asked(due.select_related("person", "room").order_by("next_try_at", "pk")[:BATCH]):
        if _claim(letter):
            counted = _send(letter, done)
            name = "mail" if letter.person_id else "chat"
            counted[name] = counted.get(name, 0) + 1


# --- gather -----------------------------------------------------------------------------------------


def gather() -> int:
    """Put what is due into one letter for each receiver, who had none a moment ago; how many were made."""
    now = database_now()
    waiting = Notice.objects.filter(send_at__lte=now, letter=None, settled_at=None)
    receivers = waiting.values_list("person_id", "room_id").annotate(first=Min("send_at"))
    ready = receivers.filter(first__lte=now - GATHER).order_by("first")[:BATCH]
    recent = Letter.objects.filter(Q(state=Letter.PENDING) | Q(sent_at__gt=now - QUIET))
    busy = set(recent.values_list("person_id", "room_id"))
    return sum(_make(person, room, now) for person, room, _ in ready if (person, room) not in busy)


def _make(person_id: str | None, room_id: str | None, now: datetime) -> int:
    mine = Notice.objects.filter(
        person=person_id, room=room_id, letter=None, settled_at=None, send_at__lte=now
    )
    try:
        with transaction.atomic():
            letter = Letter.objects.create(
                person_id=person_id, room_id=room_id, next_try_at=now, created_at=now
            )
            mine.update(letter=letter)
    except IntegrityError:
        return 0  # another sender makes it at this moment
    return 1


# --- send -------------------------------------------------------------------------------------------


def _claim(letter: Letter) -> bool:
    """Keep it from other senders for a while; the condition makes one of them win."""
    mine = Letter.objects.filter(pk=letter.pk, state=Letter.PENDING, claim=letter.claim)
    letter.claim, letter.tries = new_id("claim"), letter.tries + 1
    until = database_now() + CLAIM
    return bool(mine.update(claim=letter.claim, claimed_until=until, tries=F("tries") + 1))


def _send(letter: Letter, done: Relayed) -> dict[str, int]:
    try:
        lines = _lines(letter)
        if lines:
            _transport(letter)(letter, lines)
    except Exception as error:
        log.warning("letter_failed", letter=letter.pk, tries=letter.tries, exc_info=True)
        return _postpone(letter, f"{type(error).__name__}: {error}"[:2_000], done)
    said = "" if lines else "Nothing was left to say."
    return (
        done.delivered
        if _settle(letter, state=Letter.SENT, sent_at=database_now(), error=said)
        else done.lost
    )


def _postpone(letter: Letter, error: str, done: Relayed) -> dict[str, int]:
    if letter.tries < MAX_TRIES:
        again_at = database_now() + wait_after(letter.tries)
        return done.failed if _settle(letter, next_try_at=again_at, error=error) else done.lost
    log.error("letter_parked", letter=letter.pk)
    return done.parked if _settle(letter, state=Letter.PARKED, error=error) else done.lost


def _settle(letter: Letter, **columns: Any) -> bool:
    mine = Letter.objects.filter(pk=letter.pk, claim=letter.claim, state=Letter.PENDING)
    return bool(mine.update(claim="", claimed_until=None, **columns))


def _lines(letter: Letter) -> list[Line]:
    """What still holds, of what this person may still see."""
    notices = Notice.objects.filter(letter=letter, settled_at=None)
    if letter.person is not None:
        where = visible_repositories(of_person(letter.person))
        if not letter.person.is_active or not letter.person.email:
            return []
        if where is not None:
            notices = notices.filter(Q(repository=None) | Q(repository_id__in=where))
    return [
        Line(Kind(row.kind), row.title, row.sentence, row.why, address(row.href), row.likeness)
        for row in notices.order_by("created_at", "pk")[:MOST]
    ]


def address(path: str) -> str:
    """The whole address of one of our pages."""
    return f"{settings.PUBLIC_URL or 'http://localhost:8000'}{path}"


# --- the ways out -------------------------------------------------------------------------------------


def _transport(letter: Letter) -> Callable[[Letter, list[Line]], None]:
    return _mail if letter.person_id else _chat


def _mail(letter: Letter, lines: list[Line]) -> None:
    """Plain text: there is nothing in it that a mail program could run or load."""
    person: Person | None = letter.person
    if person is None:
        return
    body = body_of(
        lines, inbox=address(reverse("notifications")), settings=address(reverse("notice-settings"))
    )
    host = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    headers = {"Message-ID": f"<{letter.pk}@{host}>", "Auto-Submitted": "auto-generated"}
    EmailMessage(subject_of(lines), body, to=[person.email], headers=headers).send()


def _chat(letter: Letter, lines: list[Line]) -> None:
    room: Room | None = letter.room
    if room is None or not room.is_active:
        return
    from approvals.notices.chat import say

    say(room.address, title=subject_of(lines), body=body_of(lines, inbox=address(reverse("approvals"))))
