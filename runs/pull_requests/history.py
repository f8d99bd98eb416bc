"""Finds out of git history which merged changes were taken back.

In the background, some repositories at a time, each within a bound: a base branch is fetched once and read
once for all of its pull requests that are due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from agentplatform.clock import database_now
from runs import service
from runs.artifacts import artifact_read, mirror_of
from runs.domain.reverts import Commit, Landed, find_revert, may_concern
from runs.domain.vocabulary import ArtifactKind
from runs.mirrors import GitFailed, Mirror
from runs.mirrors.history import commit_difference_id, difference_id, entries
from runs.models import Artifact, PullRequest, Repository

log = structlog.get_logger(__name__)

#: One pass: repositories, pull requests of each, commits read, commits whose difference is asked for.
MOST_REPOSITORIES: Final = 20
MOST_EACH: Final = 200
MOST_COMMITS: Final = 2_000
MOST_DIFFERENCES: Final = 200
SECONDS: Final = 60.0
#: A revert comes soon or hardly ever: often in the first days, daily later, and then no more.
YOUNG, OFTEN, SELDOM = timedelta(days=3), timedelta(hours=1), timedelta(days=1)
WATCHED: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Reverted:
    """A change that was found to be taken back, and by which commit."""

    pull_request_id: str
    by: str


def find_reverts() -> list[Reverted]:
    """Search the base branches of merged pull requests that are due; returns what is news.

    A repository that cannot be reached is logged and asked again an hour later.
    """
    now = database_now()
    due = PullRequest.objects.filter(next_history_look_at__lte=now)
    where = due.order_by("next_history_look_at").values_list("repository_id", flat=True)
    repositories = list(dict.fromkeys(where[: MOST_REPOSITORIES * MOST_EACH]))[:MOST_REPOSITORIES]
    found: list[Reverted] = []
    for repository in Repository.objects.filter(pk__in=repositories).order_by("pk"):
        rows = due.filter(repository=repository).select_related("run__task")
        found += _search(repository, list(rows.order_by("next_history_look_at", "pk")[:MOST_EACH]), now)
    return found


def _search(repository: Repository, rows: Sequence[PullRequest], now: datetime) -> list[Reverted]:
    by_branch: dict[str, list[PullRequest]] = defaultdict(list)
    for row in rows:
        by_branch[row.run.task.contract["base_branch"]].append(row)
    found: list[Reverted] = []
    for branch, meant in by_branch.items():
        try:
            found += _searched(mirror_of(repository), branch, meant)
        except GitFailed as error:
            log.warning("history_not_read", repository=repository.name, branch=branch, why=error.message)
            service.history_looked(pull_request_ids=[row.pk for row in meant], next_look_at=now + OFTEN)
            continue
        _put_off(meant, now)
    return found


def _put_off(rows: Sequence[PullRequest], now: datetime) -> None:
    """When each is looked at again; what was found to be taken back has no next time."""
    later: dict[datetime | None, list[str]] = defaultdict(list)
    for row in rows:
        age = now - (row.ended_at or now)
        after = None if age > WATCHED else now + (OFTEN if age < YOUNG else SELDOM)
        later[after].append(row.pk)
    for after, ids in later.items():
        still = PullRequest.objects.filter(pk__in=ids, reverted_at__isnull=True).values_list("pk", flat=True)
        service.history_looked(pull_request_ids=list(still), next_look_at=after)


def _searched(mirror: Mirror, branch: str, rows: Sequence[PullRequest]) -> list[Reverted]:
    mirror.fetch(branch=branch, timeout=SECONDS)
    since = min(row.created_at for row in rows) - timedelta(days=1)  # clocks of committers differ
    history = [
        Commit(entry.sha, entry.parents, entry.at, entry.message, entry.paths)
        for entry in entries(mirror.path, branch, since=since, most=MOST_COMMITS, timeout=SECONDS)
    ]
    landed = {row.pk: change for row in rows if (change := _landed(row))}
    history = _with_differences(mirror, history, list(landed.values()))
    found = []
    for row in rows:
        by = find_revert(landed[row.pk], history) if row.pk in landed else None
        if by and service.pull_request_reverted(pull_request_id=row.pk, by=by.sha, at=by.at):
            found.append(Reverted(row.pk, by.sha))
    return found


def _landed(row: PullRequest) -> Landed:
    """The change as it was approved. Where its bytes are gone it is known by its commits alone."""
    commits = frozenset(sha for sha in (row.commit_sha, row.head_sha) if sha)
    patch_id = (row.run.state.get("patch") or {}).get("id", "")
    patch = Artifact.objects.filter(pk=patch_id, kind=ArtifactKind.PATCH).first()
    if patch is None:
        return Landed(commits, frozenset())
    files = patch.facts.get("files") or ()
    paths = frozenset(name for file in files for name in (file["path"], file.get("old_path")) if name)
    try:
        content = artifact_read(patch)
    except OSError:
        return Landed(commits, frozenset())
    return Landed(commits, paths, difference_id(content, timeout=SECONDS))


def _with_differences(mirror: Mirror, history: Sequence[Commit], landed: Sequence[Landed]) -> list[Commit]:
    """Git is asked for the differences of those commits alone that touch exactly what a change touches."""
    left, found = MOST_DIFFERENCES, []
    for commit in history:
        if left and len(commit.parents) == 1 and any(may_concern(commit, change) for change in landed):
            left -= 1
            changes = commit_difference_id(mirror.path, commit.sha, timeout=SECONDS)
            undoes = commit_difference_id(mirror.path, commit.sha, reverse=True, timeout=SECONDS)
            found.append(replace(commit, changes=changes, undoes=undoes))
        else:
            found.append(commit)
    return found
