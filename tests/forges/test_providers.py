"""What every provider with pull requests promises, tried against each fake forge with the same tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runs.credentials import credential_for
from runs.credentials.access import RepositoryAccess
from runs.domain.vocabulary import PullRequestState
from runs.pull_requests import github_api
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
from runs.pull_requests.github import GitHubProvider
from runs.pull_requests.text import commit_message
from tests.forges import github
from tests.forges.faults import Fault
from tests.git.repos import Remote, mirror_of
from tests.unit.patch_cases_guard import GUARD_CASES

CASE = GUARD_CASES["moved"]
RUN = "run_01J8Z3K4M5N6P7Q8R9S0T1V2W3"
S = PullRequestState

Serve = Callable[[Path], AbstractContextManager[Any]]
FORGES: dict[str, tuple[Serve, Callable[..., Provider]]] = {"github": (github.serving, GitHubProvider)}


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    remote = Remote(tmp_path / "remote.git")
    remote.commit([*CASE.base, ("other", "100644", b"o\n")])
    return remote


@pytest.fixture(params=sorted(FORGES))
def forge(request: pytest.FixtureRequest, remote: Remote) -> Iterator[Any]:
    serve, make = FORGES[request.param]
    with serve(remote.path) as forge:
        forge.make = make
        yield forge


@pytest.fixture
def provider(forge: Any, remote: Remote, tmp_path: Path) -> Provider:
    return provider_at(forge, remote, tmp_path)


def provider_at(forge: Any, remote: Remote, folder: Path, **fields: str) -> Provider:
    source = folder / "credentials.toml"
    source.write_text(f"[clock]\n{forge.credentials(**fields)}")
    access = RepositoryAccess(url=remote.url, credential=credential_for("clock", source))
    made: Provider = forge.make(mirror_of(remote, folder), access)
    return made


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
    assert (pushed.created, pushed.number, pushed.url) == (True, 1, pull["html_url"])
    assert (pull["title"], pull["draft"], pull["base"]["ref"]) == ("Say two in words", True, "main")
    assert pull["body"].startswith("What was checked.")
    assert [label["name"] for label in pull["labels"]] == ["agent", "utc"]
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
    forge.plan("POST", "/pulls", fault, times=2)
    pushed = until_done(provider, change)
    assert [pull["number"] for pull in forge.pulls] == [pushed.number]


@pytest.mark.parametrize("path", ["/pulls", "/rules/branches/main", "/required_signatures"])
@pytest.mark.parametrize("fault", [Fault.REFUSED_CONNECTION, Fault.ERROR_BEFORE, Fault.RATE_LIMITED])
def test_a_look_that_is_not_answered_makes_nothing_and_may_be_repeated(forge, provider, change, path, fault):
    forge.plan("GET", path, fault)
    with pytest.raises(PushFailed) as refused:
        provider.create(change)
    assert (refused.value.retryable, refused.value.cause, forge.pulls) == (True, "unreachable", [])
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


@pytest.mark.parametrize("count", [50, pytest.param(1_000, marks=pytest.mark.long)])
def test_creations_under_any_faults_are_one_pull_request_each(forge, provider, remote, count):
    seed = 20_260_703
    dice = random.Random(seed)
    for number in range(count):
        for _ in range(dice.randint(0, 3)):
            forge.plan("POST", dice.choice(["/pulls", "/labels"]), dice.choice(list(Fault)))
        forge.plan("GET", "/pulls", dice.choice([Fault.LOST_ANSWER, Fault.ERROR_BEFORE]), dice.randint(0, 1))
        pushed = until_done(provider, change_of(remote, f"run_{number:04}", labels=("agent",)))
        forge.planned.clear()
        mine = [p for p in forge.pulls if p["head"]["ref"] == pushed.branch]
        assert [p["number"] for p in mine] == [pushed.number], f"seed {seed}, creation {number}"
    assert len(forge.pulls) == count


def test_a_pull_request_without_its_labels_is_still_one(forge, provider, change):
    forge.plan("POST", "/labels", Fault.ERROR_BEFORE)
    labelled = replace(change, proposal=replace(change.proposal, labels=("agent",)))
    assert provider.create(labelled).created is True
    assert forge.pulls[0]["labels"] == []
    provider.create(labelled)
    assert forge.pulls[0]["labels"] == [{"name": "agent"}], "the next call mends it"


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
    with pytest.raises(PushFailed, match="Bad credentials") as refused:
        provider_at(forge, remote, tmp_path).create(change)
    assert (refused.value.retryable, refused.value.cause) == (False, "access")
    assert change.branch not in remote.branches()


@pytest.mark.parametrize("by", ["a ruleset over the head", "a ruleset over the base", "classic protection"])
def test_an_unsigned_commit_is_refused_before_the_push_where_signatures_are_asked_for(
    forge, provider, remote, change, by
):
    if by == "classic protection":
        forge.signed.add("main")
    else:
        forge.rules[change.branch if by.endswith("head") else "main"] = ["required_signatures"]
    with pytest.raises(PushFailed, match="signing_key_file") as refused:
        provider.create(change)
    assert (refused.value.cause, change.branch in remote.branches()) == ("rejected", False)


def test_what_was_pushed_before_a_cancel_is_taken_back(forge, provider, remote, change):
    forge.plan("POST", "/pulls", Fault.ERROR_BEFORE)
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
    forge.pulls[0]["requested_reviewers"] = [{"login": "rita"}]
    assert provider.look(ours).state == S.REVIEW_REQUESTED
    forge.reviewed(1, "CHANGES_REQUESTED", "Name it now().")
    life = provider.look(ours)
    assert (life.state, life.said) == (S.CHANGES_REQUESTED, "rita requests changes:\nName it now().")
    forge.reviewed(1, "COMMENTED", "still so")
    assert provider.look(ours).state == S.CHANGES_REQUESTED
    forge.reviewed(1, "APPROVED")
    assert provider.look(ours).state == S.APPROVED
    forge.end(1, merged=True)
    assert provider.look(ours).state == S.MERGED


def test_others_commits_on_it_are_an_update(forge, provider, remote, change):
    ours = opened(provider.create(change))
    more = remote.commit([("f.txt", "100644", b"x\n")], branch=change.branch, on=ours.commit_sha)
    life = provider.look(ours)
    assert (life.state, life.head_sha) == (S.UPDATED, more)
    with pytest.raises(BranchTaken):
        provider.close(ours, "stale")


CHECKS: list[tuple[list[tuple[str, str | None]], list[str], str]] = [
    ([], [], ""),
    ([("completed", "success")], ["success"], "passed"),
    ([("completed", "skipped")], [], "passed"),
    ([("in_progress", None)], ["success"], "pending"),
    ([("completed", "success")], ["pending"], "pending"),
    ([("completed", "failure")], ["pending"], "failed"),
    ([], ["error"], "failed"),
]


def test_its_checks_are_red_as_soon_as_one_is(forge, provider, change):
    ours = opened(provider.create(change))
    output = {"title": "2 failed", "summary": "see"}
    for runs, statuses, word in CHECKS:
        forge.check_runs = [
            {"name": "ci", "status": status, "conclusion": end, "output": output} for status, end in runs
        ]
        forge.statuses = [{"state": state, "context": "old-ci", "description": "broke"} for state in statuses]
        life = provider.look(ours)
        assert (life.checks, bool(life.said)) == (word, word == "failed"), (runs, statuses)


def test_closing_it_says_why_and_may_be_repeated(forge, provider, change):
    ours = opened(provider.create(change))
    provider.close(ours, "Nothing happened for 30 days.")
    provider.close(ours, "Nothing happened for 30 days.")
    assert (forge.pulls[0]["state"], forge.comments[1]) == ("closed", ["Nothing happened for 30 days."])
    assert provider.look(ours).state == S.CLOSED


def test_a_silent_forge_is_not_waited_for_without_end(forge, provider, change, monkeypatch):
    monkeypatch.setattr(github_api, "TIMEOUT", 0.2)
    with forge.lock, pytest.raises(PushFailed, match="gave no answer") as refused:
        provider.create(change)
    assert refused.value.retryable is True
