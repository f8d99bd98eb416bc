"""What every provider with pull requests promises, tried against each fake forge with the same tests."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runs.credentials import credential_for
from runs.credentials.access import RepositoryAccess
from runs.domain.vocabulary import PullRequestState
from runs.forges import rest
from runs.pull_requests.base import (
    Author,
    BranchTaken,
    Change,
    Opened,
    Proposal,
    Provider,
    Pushed,
    PushFailed,
)
from runs.pull_requests.providers import provider_at as provider_for
from runs.pull_requests.text import commit_message
from tests.forges.faults import Fault
from tests.forges.kinds import FORGES
from tests.forges.serving import serving
from tests.git.repos import Remote, mirror_of
from tests.unit.patch_cases_guard import GUARD_CASES

CASE = GUARD_CASES["moved"]
RUN = "run_01J8Z3K4M5N6P7Q8R9S0T1V2W3"
S = PullRequestState


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    remote = Remote(tmp_path / "remote.git")
    remote.commit([*CASE.base, ("other", "100644", b"o\n")])
    return remote


@pytest.fixture(params=sorted(FORGES))
def forge(request: pytest.FixtureRequest, remote: Remote) -> Iterator[Any]:
    with serving(FORGES[request.param], remote.path) as forge:
        yield forge


@pytest.fixture
def provider(forge: Any, remote: Remote, tmp_path: Path) -> Provider:
    return provider_at(forge, remote, tmp_path)


def provider_at(forge: Any, remote: Remote, folder: Path, **fields: str) -> Provider:
    source = folder / "credentials.toml"
    source.write_text(f"[clock]\n{forge.credentials(**fields)}")
    access = RepositoryAccess(url=remote.url, credential=credential_for("clock", source), provider=forge.name)
    return provider_for(mirror_of(remote, folder), access)


@pytest.fixture
def change(remote: Remote) -> Change:
    return change_of(remote, RUN)


def change_of(remote: Remote, run: str, **fields: Any) -> Change:
    return Change(
        base_commit=remote.branches()["main"],
        patch=CASE.patch,
        approved_paths=["f.txt"],
        branch=f"agent/{run.lower()}",
        message=commit_message("Say two in words", "", {"Requested-by": "ada", "Agent-Run": run}),
        author=Author("Agent Platform", "agents@example.invalid"),
        timestamp=datetime(2026, 7, 3, 10, 20, 30, tzinfo=UTC),
        base_branch="main",
        proposal=Proposal(title="Say two in words", body="What was checked.", operation=run, **fields),
    )


def opened(pushed: Pushed) -> Opened:
    return Opened(
        branch=pushed.branch, base_branch="main", commit_sha=pushed.commit_sha, number=pushed.number
    )


# --- creation -------------------------------------------------------------------------------------


def test_a_change_becomes_one_pull_request_that_says_what_was_checked(forge, provider, remote, change):
    draft = replace(change, proposal=replace(change.proposal, draft=True, labels=("agent", "utc")))
    pushed = provider.create(draft)
    (pull,) = forge.pulls
    assert (pushed.created, pushed.number, pushed.url) == (True, 1, pull["url"])
    assert (pull["title"], pull["draft"], pull["base"]) == ("Say two in words", True, "main")
    assert pull["body"].startswith("What was checked.")
    assert pull["labels"] == ["agent", "utc"]
    commit = remote.show(remote.branches()[change.branch]).decode()
    assert commit.endswith(f"\n\nRequested-by: ada\nAgent-Run: {RUN}\n")


def test_asking_again_finds_it_in_whatever_state_it_is(forge, provider, remote, change):
    first = provider.create(change)
    assert provider.find(change) == replace(first, created=False)
    forge.end(1, merged=True)
    remote.git("update-ref", "-d", f"refs/heads/{change.branch}")
    assert provider.create(change) == replace(first, created=False)
    assert (len(forge.pulls), change.branch in remote.branches()) == (1, False)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_a_creation_that_is_not_answered_plainly_ends_as_one_pull_request(forge, provider, change, fault):
    forge.plan("POST", forge.opening, fault, times=2)
    pushed = until_done(provider, change)
    assert [pull["number"] for pull in forge.pulls] == [pushed.number]


@pytest.mark.parametrize("fault", [Fault.REFUSED_CONNECTION, Fault.ERROR_BEFORE, Fault.RATE_LIMITED])
def test_a_look_that_is_not_answered_makes_nothing_and_may_be_repeated(forge, provider, change, fault):
    for path in forge.looks:
        forge.plan("GET", path, fault)
        with pytest.raises(PushFailed) as refused:
            provider.create(change)
        assert (refused.value.retryable, refused.value.cause, forge.pulls) == (True, "unreachable", []), path
    assert provider.create(change).created is True


def until_done(provider: Provider, change: Change) -> Pushed:
    """Repeat as the integration does."""
    for _ in range(10):
        try:
            return provider.create(change)
        except PushFailed as refused:
            if not refused.retryable:
                raise
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("count", [20, pytest.param(1_000, marks=pytest.mark.long)])
def test_creations_under_any_faults_are_one_pull_request_each(forge, provider, remote, count):
    seed = 20_260_703
    dice = random.Random(seed)
    for number in range(count):
        for _ in range(dice.randint(0, 3)):
            verb, path = dice.choice([("POST", forge.opening), (forge.label_verb, forge.labels)])
            forge.plan(verb, path, dice.choice(list(Fault)))
        silence = dice.choice([Fault.LOST_ANSWER, Fault.ERROR_BEFORE])
        forge.plan("GET", forge.lookup, silence, dice.randint(0, 1))
        pushed = until_done(provider, change_of(remote, f"run_{number:04}", labels=("agent",)))
        forge.planned.clear()
        mine = [p for p in forge.pulls if p["head"] == pushed.branch]
        assert [p["number"] for p in mine] == [pushed.number], f"seed {seed}, creation {number}"
    assert len(forge.pulls) == count


def test_a_pull_request_without_its_labels_is_still_one(forge, provider, change):
    forge.plan(forge.label_verb, forge.labels, Fault.ERROR_BEFORE)
    labelled = replace(change, proposal=replace(change.proposal, labels=("agent",)))
    assert provider.create(labelled).created is True
    assert forge.pulls[0]["labels"] == []
    provider.create(labelled)
    assert forge.pulls[0]["labels"] == ["agent"], "the next call mends it"


# --- what is not ours -----------------------------------------------------------------------------


def test_somebody_elses_branch_and_pull_request_are_left_alone(forge, provider, remote, change):
    theirs = remote.commit([("f.txt", "100644", b"x\n")], branch=change.branch, on=change.base_commit)
    with pytest.raises(BranchTaken):
        provider.create(change)
    forge.open_by_somebody(change.branch)
    with pytest.raises(BranchTaken, match="somebody else's pull request, #1"):
        provider.create(change)
    assert (remote.branches()[change.branch], len(forge.pulls)) == (theirs, 1)


def test_a_token_that_is_not_taken_is_said_and_not_tried_again(forge, remote, change, tmp_path):
    forge.tokens.clear()
    with pytest.raises(PushFailed, match=re.escape(forge.denied)) as refused:
        provider_at(forge, remote, tmp_path).create(change)
    assert (refused.value.retryable, refused.value.cause) == (False, "access")
    assert change.branch not in remote.branches()


def test_an_unsigned_commit_is_refused_before_the_push_where_signatures_are_asked_for(
    forge, provider, remote, change
):
    for way in forge.ways:
        forge.signing = (way, change.branch if way.endswith("head") else "main")
        with pytest.raises(PushFailed, match="signing_key_file") as refused:
            provider.create(change)
        assert (refused.value.cause, change.branch in remote.branches()) == ("rejected", False), way
    forge.signing = None
    assert provider.create(change).created is True


def test_what_was_pushed_before_a_cancel_is_taken_back(forge, provider, remote, change):
    forge.plan("POST", forge.opening, Fault.ERROR_BEFORE)
    with pytest.raises(PushFailed):
        provider.create(change)
    assert change.branch in remote.branches()
    assert provider.find(change) is None
    provider.withdraw(change)
    assert change.branch not in remote.branches()


# --- its later life -------------------------------------------------------------------------------


def test_its_life_is_read_from_state_and_reviews(forge, provider, remote, change):
    ours = opened(provider.create(change))
    assert provider.look(ours).state == S.OPEN
    forge.ask(1, "rita")
    assert provider.look(ours).state == S.REVIEW_REQUESTED
    forge.review(1, "changes", "Name it now().")
    life = provider.look(ours)
    assert (life.state, life.said) == (S.CHANGES_REQUESTED, "rita requests changes:\nName it now().")
    forge.review(1, "comment", "still so")
    assert provider.look(ours).state == S.CHANGES_REQUESTED
    forge.review(1, "approved")
    assert provider.look(ours).state == S.APPROVED
    forge.review(1, "taken back")
    assert provider.look(ours).state == S.REVIEW_REQUESTED
    forge.end(1, merged=True)
    assert provider.look(ours).state == S.MERGED


def test_others_commits_on_it_are_an_update(forge, provider, remote, change):
    ours = opened(provider.create(change))
    more = remote.commit([("f.txt", "100644", b"x\n")], branch=change.branch, on=ours.commit_sha)
    life = provider.look(ours)
    assert (life.state, life.head_sha) == (S.UPDATED, more)
    with pytest.raises(BranchTaken):
        provider.close(ours, "stale")


#: What jobs and other checks say, and what it comes to.
CHECKS: list[tuple[list[str], list[str], str]] = [
    ([], [], ""),
    (["passed"], ["passed"], "passed"),
    (["skipped"], [], "passed"),
    (["pending"], ["passed"], "pending"),
    (["passed"], ["pending"], "pending"),
    (["failed"], ["pending"], "failed"),
    ([], ["failed"], "failed"),
]


def test_its_checks_are_red_as_soon_as_one_is(forge, provider, change):
    ours = opened(provider.create(change))
    for jobs, others, word in CHECKS:
        forge.checks = [("job", state, "2 failed") for state in jobs]
        forge.checks += [("old-ci", state, "broke") for state in others]
        life = provider.look(ours)
        assert (life.checks, bool(life.said)) == (word, word == "failed"), (jobs, others)
    assert life.said == "Check old-ci failed:\nbroke"


def test_closing_it_says_why_and_may_be_repeated(forge, provider, change):
    ours = opened(provider.create(change))
    provider.close(ours, "Nothing happened for 30 days.")
    provider.close(ours, "Nothing happened for 30 days.")
    assert (forge.pulls[0]["state"], forge.comments[1]) == ("closed", ["Nothing happened for 30 days."])
    assert provider.look(ours).state == S.CLOSED


def test_a_silent_forge_is_not_waited_for_without_end(forge, provider, change, monkeypatch):
    monkeypatch.setattr(rest, "TIMEOUT", 0.2)
    with forge.lock, pytest.raises(PushFailed, match="gave no answer") as refused:
        provider.create(change)
    assert refused.value.retryable is True
