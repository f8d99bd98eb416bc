"""Limits on pull requests keep approved patches in, say so, and lose none."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentplatform.clock import database_now
from runs import auth, leases
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import PersonRole, PullRequestState, RunStatus
from runs.models import PullRequest, Repository, Run
from runs.pull_requests.run import integration_account
from runs.selectors.display import shown_run
from runs.selectors.standing import runs_waiting_for
from runs.selectors.surroundings import read_surroundings
from runs.service import pull_request_report
from tests import factories

pytestmark = pytest.mark.django_db

S = RunStatus


def waiting_run(where: Repository) -> factories.Holder:
    run = factories.queued_run(where, auto_pr=True)
    return factories.drive(factories.claim(run=run), S.PR_CREATING)


def opened(where: Repository) -> PullRequest:
    """A pull request that went out."""
    waiting_run(where)
    claim = integrate()
    assert claim is not None
    machine = factories.Machine(integration_account(), "")
    factories.Holder(machine, claim.run.pk, claim.token).open_pull_request()
    return PullRequest.objects.get(run=claim.run)


def integrate() -> leases.Claim | None:
    return leases.lease_claim(principal=auth.of_worker(integration_account()))


def waits(run_id: str) -> Json | None:
    """``waiting_for`` of a run, which its filter must agree with."""
    run = Run.objects.select_related("task").get(pk=run_id)
    around = read_surroundings(repository_ids=[run.repository_id])
    principal = auth.of_person(factories.person(PersonRole.VIEWER))
    found: Json | None = shown_run(run, principal=principal, surroundings=around)["waiting_for"]
    by_filter = Run.objects.filter(runs_waiting_for("pull_requests", around), pk=run_id).exists()
    assert by_filter == bool(found and found["reason"] == "pull_requests")
    return found


def test_as_many_are_open_as_policy_allows_and_the_next_says_what_it_waits_for():
    where = factories.repository(policy={"max_open_pull_requests": 1})
    first = opened(where)
    second = waiting_run(where)
    assert integrate() is None
    said = waits(second.run_id)
    assert said is not None
    assert (said["reason"], said["until"]) == ("pull_requests", None)
    assert said["sentence"] == "The limit of 1 open pull requests is reached; merge or close one."
    pull_request_report(pull_request_id=first.pk, state=PullRequestState.MERGED)
    claim = integrate()
    assert claim is not None
    assert claim.run.pk == second.run_id


def test_a_creation_under_way_counts_and_is_taken_over_all_the_same():
    where = factories.repository(policy={"max_open_pull_requests": 1})
    begun = waiting_run(where)
    claim = integrate()
    assert claim is not None
    waiting_run(where)
    assert integrate() is None
    principal = auth.of_worker(integration_account())
    leases.lease_release(
        principal=principal, run_id=begun.run_id, token=claim.token, reason="restart", key="1"
    )
    again = integrate()
    assert again is not None
    assert again.run.pk == begun.run_id


def test_creations_keep_the_pace_and_say_until_when_they_wait():
    where = factories.repository(policy={"max_pull_requests_per_hour": 1})
    first = opened(where)
    second = waiting_run(where)
    assert integrate() is None
    said = waits(second.run_id)
    assert said is not None
    assert said["reason"] == "pull_requests"
    assert said["until"].startswith(f"{first.created_at + timedelta(hours=1):%Y-%m-%dT%H:%M:%S}")
    PullRequest.objects.filter(pk=first.pk).update(created_at=database_now() - timedelta(minutes=61))
    assert integrate() is not None


def test_a_patch_that_policy_keeps_in_does_not_expire_of_it():
    where = factories.repository(policy={"max_open_pull_requests": 1, "timeouts": {"queue": 60}})
    opened(where)
    kept = waiting_run(where)
    run = Run.objects.get(pk=kept.run_id)
    assert run.expires_at is None
    assert RunState.from_json(run.state).status == S.PR_CREATING


def test_another_repository_is_not_kept_in():
    full = factories.repository(policy={"max_open_pull_requests": 1})
    opened(full)
    waiting_run(full)
    other = waiting_run(factories.repository())
    claim = integrate()
    assert claim is not None
    assert claim.run.pk == other.run_id
