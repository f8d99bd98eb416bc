"""Tell people and rooms: one notice each, once per cause. It only writes rows; letters go out later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from agentplatform.clock import database_now
from approvals.notices.models import Notice, Preference, Room
from approvals.notices.words import ALIKE, Kind, Pace, goes_out_at, one_line
from runs.models import Person


@dataclass(frozen=True, slots=True)
class News:
    """What is told. ``cause`` makes it once per receiver; ``likeness`` lets many be shown as one."""

    cause: str
    kind: Kind
    subject: str
    title: str
    sentence: str
    href: str
    repository_id: str | None
    likeness: str = ""


def tell(news: News, whom: Mapping[Person, str], *, rooms: bool = True, letters: bool = True) -> None:
    """Tell each person why they are told, and the rooms that want to know; who knows already is not told
    again. Without ``letters`` it stands in the inbox alone. Five queries, in the caller's transaction."""
    now = database_now()
    paces = dict(
        Preference.objects.filter(person__in=list(whom)).values_list("person_id", str(news.kind.value))
    )
    leads = _leads(news, [person.pk for person in whom], now)
    rows = [
        _notice(news, why, now, person=person, lead_id=leads.get(person.pk),
                send_at=_mail_at(person, Pace(paces.get(person.pk, Pace.NOW)), now) if letters else None)
        for person, why in whom.items()
    ]  # fmt: skip
    if rooms:
        rows += [
            _notice(news, f"The room {room.name} wants to know.", now, room=room, send_at=now)
            for room in _rooms(news)
        ]
    Notice.objects.bulk_create(rows, ignore_conflicts=True)


def settle(subject: str, because: str, *, people: Collection[Person] | None = None) -> None:
    """What waited for somebody, or for these people, waits no longer: it leaves the unread, and letters that
    did not go out yet."""
    live = Notice.objects.filter(
        subject=subject, kind__in=[Kind.NEEDS_REVIEW, Kind.BLOCKED], settled_at__isnull=True
    )
    if people is not None:
        live = live.filter(person__in=list(people))
    live.update(settled_at=database_now(), settled_because=because)
    _lead_anew(subject)


def _lead_anew(subject: str) -> None:
    """Those that joined a notice which is settled now, and still wait, are shown as one of themselves."""
    still = Notice.objects.filter(settled_at__isnull=True)
    left = still.filter(lead__subject=subject, lead__settled_at__isnull=False).only("pk", "lead_id")
    leads: dict[str | None, Notice] = {}
    followers = list(left.order_by("created_at", "pk"))
    for notice in followers:
        first = leads.setdefault(notice.lead_id, notice)
        notice.lead = None if first is notice else first
    Notice.objects.bulk_update(followers, ["lead"])


def _notice(news: News, why: str, now: datetime, **more: object) -> Notice:
    return Notice(
        cause=news.cause,
        kind=news.kind,
        subject=news.subject,
        repository_id=news.repository_id,
        title=one_line(news.title),
        sentence=news.sentence,
        why=why,
        href=news.href,
        likeness=news.likeness,
        created_at=now,
        **more,
    )


def _mail_at(person: Person, pace: Pace, now: datetime) -> datetime | None:
    return goes_out_at(pace, now) if person.email else None


def _leads(news: News, people: list[str], now: datetime) -> dict[str, str]:
    """Person → their unread notice of the same likeness, which this one joins in the inbox."""
    if not news.likeness:
        return {}
    alike = Notice.objects.filter(
        person__in=people, likeness=news.likeness, kind=news.kind, lead__isnull=True,
        read_at__isnull=True, settled_at__isnull=True, created_at__gt=now - ALIKE,
    )  # fmt: skip
    return dict(alike.order_by("created_at").values_list("person_id", "pk"))


def _rooms(news: News) -> list[Room]:
    anywhere = Q(repositories__isnull=True)
    here = anywhere if news.repository_id is None else anywhere | Q(repositories=news.repository_id)
    return list(Room.objects.filter(here, is_active=True, kinds__contains=[news.kind]).distinct())
