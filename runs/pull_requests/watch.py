"""The later life of pull requests: looked at from time to time, sooner when a webhook says so.

What holds is what the provider answers when it is asked; no transaction is open meanwhile. Of two processes
that look at once, one takes the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from agentplatform.clock import database_now
from agentplatform.stopping import until_asked
from runs import service
from runs.domain.outgoing import OVER
from runs.domain.vocabulary import PullRequestState
from runs.mirrors import GitFailed
from runs.models import PullRequest
from runs.pull_requests.base import Life, Opened, Provider, PushRefused
from runs.pull_requests.providers import ProviderUnknown, provider_of
from runs.selectors.policies import effective_policies

log = structlog.get_logger(__name__)

YOUNG: Final = timedelta(hours=1)
SOON, LATER = timedelta(minutes=1), timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Watched:
    """What one look found: the state and checks now, or why nobody answered."""

    pull_request_id: str
    state: str = ""
    checks: str = ""
    error: str = ""


def watch_pull_requests(limit: int = 50) -> list[Watched]:
    """Look at the pull requests that are due, at most ``limit``, the longest overdue first."""
    due = PullRequest.objects.filter(next_look_at__lte=database_now()).order_by("next_look_at", "pk")
    ids = list(due.values_list("pk", flat=True)[:limit])
    return [watched for pk in until_asked(ids) if (watched := _watch(pk))]


def _watch(pull_request_id: str) -> Watched | None:
    rows = PullRequest.objects.select_related("repository", "run__task__created_by")
    row = rows.get(pk=pull_request_id)
    now = database_now()
    after = SOON if now - row.created_at < YOUNG else LATER
    mine = PullRequest.objects.filter(pk=row.pk, next_look_at__lte=now).update(next_look_at=now + after)
    if not mine:
        return None
    try:
        return _looked(row, provider_of(row.repository))
    except ProviderUnknown as error:
        service.pull_request_rest(pull_request_id=row.pk)  # whoever opened it reports its life
        return Watched(row.pk, error=str(error))
    except (PushRefused, GitFailed) as error:
        log.warning("pull_request_not_seen", pull_request_id=row.pk, why=str(error))
        return Watched(row.pk, error=str(error))
    except Exception as error:
        log.exception("pull_request_look_failed", pull_request_id=row.pk)
        return Watched(row.pk, error=f"{type(error).__name__}: {error}")


def _looked(row: PullRequest, provider: Provider) -> Watched:
    life = provider.look(_opened(row))
    changed = service.pull_request_report(
        pull_request_id=row.pk,
        state=life.state,
        checks=life.checks or None,
        head_sha=life.head_sha,
        said=life.said,
    )
    if life.state in OVER:
        service.pull_request_rest(pull_request_id=row.pk)
        return Watched(row.pk, life.state.value, life.checks)
    policy = effective_policies(repository_ids=[row.repository_id])[row.repository_id].values
    days = policy["close_pull_requests_after_days"]
    if days is not None and not changed and database_now() - row.updated_at > timedelta(days=days):
        return _closed(row, provider, days)
    row.head_sha, row.said = life.head_sha, life.said
    service.follow_up(row, life_is_red=_is_red(life), rule=policy["follow_up_tasks"])
    return Watched(row.pk, life.state.value, life.checks)


def _closed(row: PullRequest, provider: Provider, days: float) -> Watched:
    provider.close(_opened(row), f"Closed by policy: nothing changed here for {days:g} days.")
    service.pull_request_report(pull_request_id=row.pk, state=PullRequestState.CLOSED)
    service.pull_request_rest(pull_request_id=row.pk)
    return Watched(row.pk, PullRequestState.CLOSED.value, row.checks)


def _is_red(life: Life) -> bool:
    return life.checks == "failed" or life.state == PullRequestState.CHANGES_REQUESTED


def _opened(row: PullRequest) -> Opened:
    return Opened(
        branch=row.branch,
        base_branch=row.run.task.contract["base_branch"],
        commit_sha=row.commit_sha,
        number=row.number,
    )
