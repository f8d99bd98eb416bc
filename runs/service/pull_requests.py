"""The life of a pull request after it was opened, as the git integration reports it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import F, Q
from django.db.models.functions import Coalesce

from agentplatform.clock import database_now
from runs.domain.campaigns.words import CAMPAIGN_FINAL
from runs.domain.facts import Json
from runs.domain.outgoing import OVER, PACE, Full, Outgoing, campaign_full
from runs.domain.vocabulary import PullRequestState, RunStatus
from runs.models import Campaign, PullRequest, Run

_OVER = [status.value for status in CAMPAIGN_FINAL]
#: What a forge says of a pull request's checks; "" while nothing is known.
CHECKS = ("pending", "passed", "failed")


def outgoing_of(repository_ids: Iterable[str]) -> dict[str, Outgoing]:
    """What each of these repositories has out. Two queries."""
    ids = list(repository_ids)
    since = database_now() - PACE
    # Those being opened first: one that is opened meanwhile is counted twice, and never not at all.
    creating = Run.objects.filter(repository_id__in=ids, status=RunStatus.PR_CREATING, state__pr_begun=True)
    begun = Counter(creating.values_list("repository_id", flat=True))
    opened: Counter[str] = Counter()
    recent: defaultdict[str, list[datetime]] = defaultdict(list)
    rows = PullRequest.objects.filter(repository_id__in=ids)
    for where, state, at in rows.exclude(state__in=OVER, created_at__lt=since).values_list(
        "repository_id", "state", "created_at"
    ):
        opened[where] += state not in OVER
        if at >= since:
            recent[where].append(at)
    return {where: Outgoing(opened[where], begun[where], tuple(recent[where])) for where in ids}


def is_any_campaign_paced() -> bool:
    """Whether an unfinished campaign limits its pull requests. One query."""
    return Campaign.objects.filter(pull_requests_per_hour__isnull=False).exclude(status__in=_OVER).exists()


def campaigns_full() -> dict[str, Full]:
    """Campaign id → why it may begin no further pull request now. One query, or three where one is paced."""
    paces = Campaign.objects.filter(pull_requests_per_hour__isnull=False).exclude(status__in=_OVER)
    paced = {pk: pace for pk, pace in paces.values_list("pk", "pull_requests_per_hour") if pace}
    if not paced:
        return {}
    # In this order, as above: a claim counts the pull request that is being recorded at this moment.
    creating = Run.objects.filter(
        task__campaign__in=paced, status=RunStatus.PR_CREATING, state__pr_begun=True
    )
    begun = Counter(creating.values_list("task__campaign_id", flat=True))
    recent: defaultdict[str, list[datetime]] = defaultdict(list)
    opened = PullRequest.objects.filter(run__task__campaign__in=paced, created_at__gte=database_now() - PACE)
    for campaign_id, at in opened.values_list("run__task__campaign_id", "created_at"):
        recent[campaign_id].append(at)
    found = {pk: campaign_full(pace, Outgoing(0, begun[pk], tuple(recent[pk]))) for pk, pace in paced.items()}
    return {pk: why for pk, why in found.items() if why is not None}


def pull_request_report(
    *,
    pull_request_id: str,
    state: PullRequestState | None = None,
    checks: str | None = None,
    head_sha: str | None = None,
    said: str | None = None,
) -> bool:
    """Record what the provider says now; None leaves a value as it is. The run does not depend on it.

    Returns whether anything changed; ``updated_at`` is when something did.
    """
    given = {"state": state.value if state else None, "checks": checks, "head_sha": head_sha, "said": said}
    now = {name: value for name, value in given.items() if value is not None}
    row = PullRequest.objects.filter(pk=pull_request_id)
    seen_at = database_now()
    later = _later(state, checks, seen_at)
    changed = row.exclude(**now).update(**now, **later, updated_at=seen_at, seen_at=seen_at) if now else 0
    if not changed:
        row.update(seen_at=seen_at)
    return bool(changed)


def _later(state: PullRequestState | None, checks: str | None, at: datetime) -> Json:
    """What outcomes are counted by: when it ended, whether it was red, when to look for a revert."""
    found: Json = {"was_red": True} if checks == "failed" else {}
    if state in OVER:
        found["ended_at"] = Coalesce(F("ended_at"), at)
    elif state is not None:  # opened again
        found["ended_at"] = None
    if state == PullRequestState.MERGED:
        found["next_history_look_at"] = Coalesce(F("next_history_look_at"), at)
    return found


def history_looked(*, pull_request_ids: Collection[str], next_look_at: datetime | None) -> None:
    """The base branch was searched for reverts of these, and will be again then; None: not any more."""
    PullRequest.objects.filter(pk__in=pull_request_ids).update(next_history_look_at=next_look_at)


def pull_request_reverted(*, pull_request_id: str, by: str, at: datetime) -> bool:
    """A commit took the change back. Returns whether that is news; what is known already stands."""
    row = PullRequest.objects.filter(pk=pull_request_id, reverted_at__isnull=True)
    return bool(row.update(reverted_at=at, reverted_by=by, next_history_look_at=None))


def pull_request_nudge(
    *, repository_id: str, numbers: Collection[int] = (), heads: Collection[str] = ()
) -> int:
    """Somebody says that something happened to these: they are looked at next. Saying it twice is no more."""
    meant = Q(number__in=numbers) | Q(head_sha__in=heads) | Q(commit_sha__in=heads)
    rows = PullRequest.objects.filter(meant, repository_id=repository_id)
    return rows.update(next_look_at=database_now())


def pull_request_rest(*, pull_request_id: str) -> None:
    """It is over, or another reports its life: it is not looked at by itself any more."""
    PullRequest.objects.filter(pk=pull_request_id).update(next_look_at=None)
