"""The circuit breaker: where runs keep failing of what is not the work's own fault, it holds the repository
(lifecycle contract, section 9). Called by the sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import F

from agentplatform.clock import database_now
from runs.domain.holds import BREAKER, Hold, HoldScope
from runs.domain.times import spell
from runs.domain.vocabulary import FailureCategory, RunStatus
from runs.models import Hold as HoldRow
from runs.models import RunOutcome
from runs.service.holds import hold_set

#: Nobody came: a hold would only make it worse.
_NOT_COUNTED: Final = "queue_timeout"


def trip_breakers() -> list[Hold]:
    """Hold each repository whose runs ended with equal INFRASTRUCTURE failures too often in a short time.

    What failed before its last such hold ended is not counted again, so that a hold which ended, or was
    lifted, gives the next runs their chance. One query while nothing fails.
    """
    limit = settings.CIRCUIT_BREAKER_FAILURES
    if not limit:
        return []
    now = database_now()
    window = timedelta(seconds=settings.CIRCUIT_BREAKER_WINDOW_SECONDS)
    failures = Counter[tuple[str, str]]()
    last: dict[str, datetime | None] = {}
    for repository_id, reason, ended_at in _failures(now - window):
        if repository_id not in last:
            last[repository_id] = _last_end(repository_id, now)
        since = last[repository_id]
        failures[repository_id, reason] += since is None or ended_at > since
    return [_hold(*found, count, window, now) for found, count in failures.items() if count >= limit]


def _failures(since: datetime) -> Iterator[tuple[str, str, datetime]]:
    """(repository, reason, when) of runs that ended so."""
    saw = {"category": F("run__state__retry__saw__category"), "reason": F("run__state__retry__saw__reason")}
    ended = RunOutcome.objects.filter(ended_at__gt=since, status__in=[RunStatus.FAILED, RunStatus.EXPIRED])
    rows = ended.values_list("repository_id", saw["reason"], "ended_at", saw["category"])
    for repository_id, reason, ended_at, category in rows:
        if category == FailureCategory.INFRASTRUCTURE and reason != _NOT_COUNTED:
            yield repository_id, reason, ended_at


def _last_end(repository_id: str, now: datetime) -> datetime | None:
    """When the breaker's last hold of this repository ended; now, while one is in force."""
    row = HoldRow.objects.filter(repository_id=repository_id, set_by=BREAKER).order_by("-created_at").first()
    if row is None:
        return None
    return min(row.lifted_at or row.expires_at or now, now)


def _hold(repository_id: str, reason: str, count: int, window: timedelta, now: datetime) -> Hold:
    words = f"{count} runs failed alike within {spell(window)} ({reason.replace('_', ' ')})"
    return hold_set(
        scope=HoldScope.REPOSITORY.value,
        value=repository_id,
        reason=words,
        by=BREAKER,
        expires_at=now + timedelta(seconds=settings.CIRCUIT_BREAKER_HOLD_SECONDS),
    )
