"""A merged change that was taken back is found in the history of its base branch, in the background."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command

from agentplatform.clock import database_now
from runs import service
from runs.domain.vocabulary import PullRequestState, RunStatus
from runs.models import PullRequest
from runs.pull_requests.history import OFTEN, SELDOM, WATCHED, Reverted, find_reverts
from runs.pull_requests.run import create_pull_requests
from runs.pull_requests.watch import watch_pull_requests
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def origin(tmp_path: Path) -> factories.Origin:
    return factories.make_origin(tmp_path / "origin")


@pytest.fixture
def row(origin: factories.Origin) -> PullRequest:
    """A pull request of plain git, opened and not merged."""
    where = factories.repository(url=origin.url)
    holder = factories.claim(run=factories.queued_run(where, auto_pr=True))
    holder.patch, holder.base_commit = origin.patch, origin.commit
    factories.drive(holder, RunStatus.PR_CREATING)
    create_pull_requests()
    return PullRequest.objects.get(run=holder.run)


def now(row: PullRequest) -> PullRequest:
    return PullRequest.objects.get(pk=row.pk)


def git(origin: factories.Origin, *args: str) -> str:
    return factories._git(*args, at=origin.path).decode().strip()


def commit(origin: factories.Origin, tree: str, *parents: str, message: str) -> str:
    """A commit of this tree at the tip of main."""
    flags = [word for parent in parents for word in ("-p", parent)]
    made = git(origin, "commit-tree", git(origin, "rev-parse", f"{tree}^{{tree}}"), *flags, "-m", message)
    git(origin, "update-ref", "refs/heads/main", made)
    return made


def merged(row: PullRequest, origin: factories.Origin, how: str) -> str:
    """Bring the change to main; returns the commit that a revert would name."""
    if how == "fast forward":
        git(origin, "update-ref", "refs/heads/main", row.commit_sha)
        tip = row.commit_sha
    elif how == "merge":
        tip = commit(origin, row.commit_sha, origin.commit, row.commit_sha, message="Merge the change")
    else:
        tip = commit(origin, row.commit_sha, origin.commit, message="Replace utcnow (#1)")
    service.pull_request_report(pull_request_id=row.pk, state=PullRequestState.MERGED)
    return tip


@pytest.mark.parametrize("how", ["fast forward", "merge", "squash"])
@pytest.mark.parametrize("says", ["names it", "is its inverse"])
def test_a_revert_is_found_however_the_change_came_in(row, origin, how, says):
    tip = merged(row, origin, how)
    assert find_reverts() == []
    words = (
        f'Revert "Replace utcnow"\n\nThis reverts commit {tip}.' if says == "names it" else "Not like this"
    )
    by = commit(origin, origin.commit, tip, message=words)
    assert find_reverts() == [], "it was looked at just now"
    PullRequest.objects.update(next_history_look_at=database_now())
    out = io.StringIO()
    call_command("find_reverts", stdout=out)
    assert out.getvalue() == f"{row.pk}: reverted by {by}\n"
    found = now(row)
    assert (found.reverted_by, found.next_history_look_at) == (by, None)
    assert found.reverted_at is not None
    assert found.state == PullRequestState.MERGED
    assert find_reverts() == []


def test_a_look_that_finds_nothing_is_repeated_ever_more_seldom_and_then_no_more(row, origin):
    merged(row, origin, "fast forward")
    for age, after in ((timedelta(hours=2), OFTEN), (timedelta(days=10), SELDOM), (WATCHED * 2, None)):
        PullRequest.objects.update(next_history_look_at=database_now(), ended_at=database_now() - age)
        assert find_reverts() == []
        due = now(row).next_history_look_at
        assert (due is None) == (after is None)
        if due and after:
            assert abs(due - database_now() - after) < timedelta(minutes=5)


def test_a_repository_that_is_away_is_asked_again(row, origin, tmp_path):
    merged(row, origin, "fast forward")
    origin.path.rename(tmp_path / "away")
    assert find_reverts() == []
    next_look = now(row).next_history_look_at
    assert next_look is not None
    assert next_look > database_now()
    (tmp_path / "away").rename(origin.path)
    by = commit(origin, origin.commit, row.commit_sha, message="Not like this")
    PullRequest.objects.update(next_history_look_at=database_now())
    assert find_reverts() == [Reverted(row.pk, by)]


def test_what_is_open_or_closed_is_not_searched_for(row, origin):
    assert now(row).next_history_look_at is None
    service.pull_request_report(pull_request_id=row.pk, state=PullRequestState.CLOSED)
    assert now(row).next_history_look_at is None
    assert now(row).ended_at is not None
    service.pull_request_report(pull_request_id=row.pk, state=PullRequestState.OPEN)
    assert now(row).ended_at is None


def test_red_checks_are_remembered_and_the_end_is_when_it_was_first_seen(row, origin):
    service.pull_request_report(pull_request_id=row.pk, checks="failed")
    service.pull_request_report(pull_request_id=row.pk, checks="passed")
    git(origin, "update-ref", "refs/heads/main", row.commit_sha)
    PullRequest.objects.update(next_look_at=database_now())
    watch_pull_requests()
    seen = now(row)
    assert (seen.state, seen.checks, seen.was_red) == (PullRequestState.MERGED, "passed", True)
    service.pull_request_report(pull_request_id=row.pk, state=PullRequestState.MERGED, checks="failed")
    assert now(row).ended_at == seen.ended_at
    assert seen.next_history_look_at == seen.ended_at
