"""Keeps the mirrors of repositories that are worked on up to date, so that no request waits for a repository.

A patch is read at its upload against the run's base commit and today's tip; both lie in the mirror by then.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog
from django.conf import settings

from agentplatform.stopping import until_asked
from runs.artifacts import FETCH_SECONDS, mirror_of
from runs.domain.vocabulary import RunStatus
from runs.mirrors import GitFailed
from runs.models import Repository, Run

log = structlog.get_logger(__name__)

S = RunStatus
#: While a run is in one of these, its next patch is still to come.
_BEFORE_A_PATCH: Final = (
    S.QUEUED, S.LEASED, S.PREPARING, S.CONTEXT_BUILDING, S.PLANNING, S.EXECUTING, S.PATCH_READY, S.VERIFYING,
    S.JUDGING,
)  # fmt: skip


def fetch_mirrors() -> int:
    """Fetch the base branches of runs whose patch is still to come, and say how many were had.

    One process does it at a time: where one is at it, the answer is 0. A repository that cannot be reached
    is logged and holds up nothing but its own time limit.
    """
    with _alone() as ours:
        return sum(_fetch(where, branch) for where, branch in until_asked(_wanted())) if ours else 0


def _wanted() -> list[tuple[Repository, str]]:
    runs = Run.objects.filter(status__in=[status.value for status in _BEFORE_A_PATCH])
    # Told apart by the database: a backlog is thousands of runs of a few repositories.
    pairs = sorted(runs.order_by().values_list("repository_id", "task__contract__base_branch").distinct())
    repositories = Repository.objects.in_bulk({repository_id for repository_id, _ in pairs})
    return [(repositories[repository_id], branch) for repository_id, branch in pairs]


def _fetch(repository: Repository, branch: str) -> bool:
    try:
        mirror_of(repository).fetch(branch=branch, timeout=FETCH_SECONDS)
    except GitFailed as error:
        log.warning("mirror_not_fetched", repository=repository.name, branch=branch, why=error.message)
        return False
    return True


@contextmanager
def _alone() -> Iterator[bool]:
    folder = Path(settings.MIRROR_DIR)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetching.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
