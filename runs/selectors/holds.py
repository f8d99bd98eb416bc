"""Holds as pages and answers show them: those in force, and those that were."""

from __future__ import annotations

from typing import Final

from django.db.models import Q, QuerySet
from django.urls import reverse

from agentplatform.clock import database_now
from runs.auth import Action, Principal, may, may_hold, visible_campaigns, visible_repositories
from runs.domain.facts import Json, stamp
from runs.domain.holds import SET_BY_PEOPLE
from runs.models import Hold, Repository
from runs.models.holds import HoldQuerySet, hold_stands
from runs.selectors.spending import day_spending
from runs.selectors.words import joined, when

#: Banners on every page; more are told as a number.
MOST_BANNERS: Final = 2
MOST_ENDED: Final = 50


def visible_holds(principal: Principal) -> HoldQuerySet:
    """Holds over repositories and campaigns that this person may see, and those over more. No query
    by itself."""
    rows: HoldQuerySet = Hold.objects.select_related("repository", "campaign")
    ids = visible_repositories(principal)
    if ids is None:
        return rows
    known = Q(campaign__in=visible_campaigns(principal))
    return rows.filter(Q(repository__isnull=True, campaign__isnull=True) | Q(repository_id__in=ids) | known)


def hold_banners(*, principal: Principal) -> list[Json]:
    """``[{sentence, href}]`` of the holds in force, for the top of every page. One query, or three."""
    if not hold_stands():
        return []
    # A paused campaign is told of on its own page: it stops nobody else.
    rows = list(visible_holds(principal).in_force().filter(campaign__isnull=True))
    if not rows:
        return []
    now, href = stamp(database_now()), reverse("holds")
    banners = [{"sentence": row.as_fact().sentence(now=now), "href": href} for row in rows[:MOST_BANNERS]]
    if more := len(rows) - MOST_BANNERS:
        more_holds = "1 more hold is" if more == 1 else f"{more} more holds are"
        banners += [{"sentence": f"{more_holds} in force.", "href": href}] if more > 0 else []
    return banners


def hold_page(*, principal: Principal) -> Json:
    """``{standing, ended, spending, may_set}`` of /holds/. Seven queries."""
    now = database_now()
    rows = visible_holds(principal).order_by("-created_at", "-pk")
    standing = list(visible_holds(principal).in_force())
    ended = rows.filter(Q(lifted_at__isnull=False) | Q(expires_at__lte=now))[:MOST_ENDED]
    return {
        "standing": [_row(row, principal, stamp(now)) for row in standing],
        "ended": [_row(row, principal, stamp(now)) for row in ended],
        "spending": day_spending(_visible_repositories(principal)),
        "may_set": any(may(principal, Action.HOLD, where) for _, where in principal.grants),
    }


def _visible_repositories(principal: Principal) -> QuerySet[Repository]:
    ids = visible_repositories(principal)
    return Repository.objects.all() if ids is None else Repository.objects.filter(pk__in=ids)


def _row(row: Hold, principal: Principal, now: str) -> Json:
    hold = row.as_fact()
    ended = row.lifted_at or row.expires_at
    return {
        "id": row.pk,
        "subject": hold.subject,
        "reason": row.reason,
        "meta": joined(f"by {row.set_by}", "cancels what runs" if row.cancels_running else ""),
        "since": when(row.created_at),
        "until": when(row.expires_at),
        "ended": when(ended),
        "how": f"lifted by {row.lifted_by}" if row.lifted_at else "ended by itself",
        "runs_href": f"{reverse('runs')}?waiting_reason=hold",
        "actions": _ways_out(row, principal),
    }


def _ways_out(row: Hold, principal: Principal) -> list[Json]:
    if row.campaign_id:
        href = reverse("campaign", args=[row.campaign_id])
        return [{"name": "campaign", "label": "See the campaign", "href": href, "method": "get"}]
    return [_lift(row)] if may_hold(principal, row.repository_id or "") else []


def _lift(row: Hold) -> Json:
    return {
        "name": f"lift-{row.pk}",
        "label": "Lift",
        "href": reverse("hold_lift", args=[row.pk]),
        "method": "post",
        "confirm": f"{row.as_fact().subject}: what it covers is claimed again at once.",
    }


def hold_shape(row: Hold) -> Json:
    """The API's ``hold``; its repository is loaded. No query."""
    fact, now = row.as_fact(), database_now()
    over = row.expires_at is not None and row.expires_at <= now
    return {
        "id": row.pk,
        "scope": row.scope,
        "value": fact.name or None,
        "reason": row.reason,
        "cancel_running": row.cancels_running,
        "in_force": row.lifted_at is None and not over,
        "sentence": fact.sentence(now=stamp(now)),
        "set_by": row.set_by,
        "created_at": stamp(row.created_at),
        "expires_at": stamp(row.expires_at) if row.expires_at else None,
        "lifted_at": stamp(row.lifted_at) if row.lifted_at else None,
        "lifted_by": row.lifted_by or None,
    }


def scopes() -> list[tuple[str, str]]:
    """What a hold may be over, for forms."""
    return [(scope.value, scope.label) for scope in SET_BY_PEOPLE]
