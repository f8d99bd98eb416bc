"""One approved patch becomes one branch with one commit, however often it is asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runs.mirrors import Mirror
from runs.mirrors.process import run_git
from runs.pull_requests.base import (
    AlreadyThere,
    Author,
    BaseConflict,
    BranchTaken,
    Change,
    PathsDiffer,
    PushFailed,
)
from runs.pull_requests.git import GitProvider
from runs.pull_requests.text import branch_name, commit_message
from tests.git.repos import Remote, mirror_of
from tests.unit.patch_cases_guard import GUARD_CASES

RUN = "run_01J8Z3K4M5N6P7Q8R9S0T1V2W3"
CASE = GUARD_CASES["moved"]
BRANCH = "agent/t-12-r1"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    remote = Remote(tmp_path / "remote.git")
    remote.commit([*CASE.base, ("other", "100644", b"o\n")])
    return remote


@pytest.fixture
def provider(remote: Remote, tmp_path: Path) -> GitProvider:
    return GitProvider(mirror_of(remote, tmp_path))


@pytest.fixture
def change(remote: Remote) -> Change:
    return Change(
        base_commit=remote.branches()["main"],
        patch=CASE.patch,
        approved_paths=["f.txt"],
        branch=BRANCH,
        message=commit_message("Say two in words", "One line."),
        author=Author("Agent Platform", "agents@example.invalid"),
        timestamp=datetime(2026, 7, 3, 10, 20, 30, tzinfo=UTC),
        base_branch="main",
    )


def test_the_branch_holds_exactly_the_patch_on_its_base(remote, provider, change):
    pushed = provider.create(change)
    assert pushed.created is True
    assert remote.branches()[BRANCH] == pushed.commit_sha
    commit = remote.show(pushed.commit_sha).decode()
    assert f"tree {pushed.tree_sha}\nparent {change.base_commit}\n" in commit
    assert "author Agent Platform <agents@example.invalid> 1783074030 +0000" in commit
    assert commit.endswith("\n\nSay two in words\n\nOne line.\n")
    assert remote.show(f"{pushed.tree_sha}:f.txt") == b"1\ntwo\n3\n"
    assert remote.show(f"{pushed.tree_sha}:other") == b"o\n"


def test_asking_again_finds_the_same_branch(remote, provider, change, tmp_path):
    assert provider.find(change) is None
    first = provider.create(change)
    elsewhere = GitProvider(Mirror(tmp_path / "another.git", remote.url))
    assert elsewhere.create(change) == replace(first, created=False)
    assert elsewhere.find(change) == replace(first, created=False)
    assert set(remote.branches()) == {"main", BRANCH}


def test_the_commit_is_not_left_in_the_mirror(provider, change, tmp_path):
    pushed = provider.create(change)
    assert run_git("cat-file", "-e", pushed.commit_sha, git_dir=tmp_path / "mirror.git").code != 0


def test_somebody_elses_branch_is_never_overwritten(remote, provider, change):
    theirs = remote.commit([("f.txt", "100644", b"mine\n")], branch=BRANCH, on=change.base_commit)
    with pytest.raises(BranchTaken):
        provider.create(change)
    with pytest.raises(BranchTaken):
        provider.find(change)
    assert remote.branches()[BRANCH] == theirs


@pytest.mark.parametrize("blocking", ["agent", f"{BRANCH}/more"])
def test_a_branch_in_the_way_is_said(remote, provider, change, blocking):
    remote.commit([("f", "100644", b"x\n")], branch=blocking)
    with pytest.raises(BranchTaken, match="cannot be made beside") as refused:
        provider.create(change)
    assert refused.value.retryable is False


def test_a_branch_with_a_like_ending_is_not_in_the_way(remote, provider, change):
    remote.commit([("f", "100644", b"x\n")], branch=f"x/refs/heads/{BRANCH}")
    assert provider.create(change).created is True


@pytest.mark.parametrize("theirs", ["a commit of their own", "only the base"])
def test_a_branch_that_appears_meanwhile_wins(remote, provider, change, monkeypatch, theirs):
    made = change.base_commit
    if theirs != "only the base":
        made = remote.commit([("f.txt", "100644", b"mine\n")], branch="theirs", on=made)
    real = GitProvider._check_base

    def late(self, *args):
        remote.git("update-ref", f"refs/heads/{BRANCH}", made)
        return real(self, *args)

    monkeypatch.setattr(GitProvider, "_check_base", late)
    with pytest.raises(BranchTaken):
        provider.create(change)
    assert remote.branches()[BRANCH] == made


def test_a_push_whose_answer_was_lost_is_found(remote, provider, change):
    hook = remote.path / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n")
    hook.chmod(0o755)
    pushed = provider.create(change)
    assert remote.branches()[BRANCH] == pushed.commit_sha


@pytest.mark.parametrize("approved", [[], ["f.txt", "g.txt"], ["F.txt"]])
def test_other_paths_than_approved_are_not_pushed(remote, provider, change, approved):
    with pytest.raises(PathsDiffer):
        provider.create(replace(change, approved_paths=approved))
    assert set(remote.branches()) == {"main"}


def test_another_tree_than_approved_is_not_pushed(remote, provider, change):
    tree = provider.create(change).tree_sha
    assert provider.create(replace(change, expected_tree=tree)).created is False
    with pytest.raises(PathsDiffer):
        provider.create(replace(change, expected_tree="1" * 40))


def test_a_base_that_moved_into_conflict_is_said(remote, provider, change):
    remote.commit([("f.txt", "100644", b"1\nzwei\n3\n"), ("other", "100644", b"o\n")], on=change.base_commit)
    with pytest.raises(BaseConflict, match="patch does not apply"):
        provider.create(change)
    assert set(remote.branches()) == {"main"}


def test_a_base_that_moved_elsewhere_is_noted_and_the_patch_stays_on_its_own(remote, provider, change):
    remote.commit([*CASE.base, ("other", "100644", b"changed\n")], on=change.base_commit)
    pushed = provider.create(change)
    assert (pushed.created, pushed.behind) == (True, True)
    assert remote.show(f"{pushed.tree_sha}:other") == b"o\n"


@pytest.mark.parametrize("rest", [b"", b"4\n5\n6\n7\n8\n9\n"])
def test_a_change_that_the_base_has_already_is_said(remote, provider, change, rest):
    remote.commit([("f.txt", "100644", b"1\ntwo\n3\n" + rest)], on=change.base_commit)
    with pytest.raises(AlreadyThere):
        provider.create(change)
    assert set(remote.branches()) == {"main"}


def test_a_merged_branch_is_done_and_not_in_conflict(remote, provider, change):
    pushed = provider.create(change)
    remote.git("update-ref", "refs/heads/main", pushed.commit_sha)
    assert provider.create(change) == replace(pushed, created=False)


# The last two are what GitHub prints for classic protection and for rulesets.
@pytest.mark.parametrize(
    "said",
    [
        "not on fridays",
        "error: GH006: Protected branch update failed for refs/heads/x.",
        "error: GH013: Repository rule violations found for refs/heads/x.",
    ],
)
def test_a_repository_that_says_no_is_not_asked_again(remote, provider, change, said):
    hook = remote.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushFailed, match=said.rpartition(": ")[2]) as refused:
        provider.create(change)
    assert (refused.value.retryable, refused.value.cause) == (False, "rejected")


def test_a_repository_that_cannot_be_reached_is_tried_again(change, tmp_path, remote):
    mirror = mirror_of(remote, tmp_path)
    away = GitProvider(Mirror(mirror.path, "https://127.0.0.1:1/x.git"), timeout=20)
    with pytest.raises(PushFailed) as refused:
        away.create(change)
    assert (refused.value.retryable, refused.value.cause) == (True, "unreachable")


def test_a_repository_that_is_gone_needs_a_person(change, tmp_path, remote):
    mirror = mirror_of(remote, tmp_path)
    gone = GitProvider(Mirror(mirror.path, f"file://{tmp_path}/gone.git"))
    with pytest.raises(PushFailed) as refused:
        gone.create(change)
    assert (refused.value.retryable, refused.value.cause) == (False, "access")


TITLES = [
    "--upload-pack=touch /tmp/x",
    "fix: … — naïve “quotes”",
    "../../main",
    "a..b.lock",
    "🎉🎉",
    "   ",
    "",
    "x" * 240,
    "HEAD",
    "feature/",
    "x\nSigned-off-by: bob <bob@example.invalid>",
    "Signed-off-by: bob <bob@example.invalid>",
    "@{-1}",
    "a\x00b\udce9c",
    "\u202eevil",
]


@pytest.mark.parametrize("title", TITLES)
def test_every_title_gives_a_valid_branch(title):
    name = branch_name(RUN, title)
    assert name.isascii()
    assert len(name) <= 100
    assert name.startswith(f"agent/{RUN.lower()}")
    assert run_git("check-ref-format", "--branch", name).code == 0


@pytest.mark.parametrize("title", TITLES)
def test_every_title_gives_a_subject_of_one_line_and_signs_nothing(title):
    body = f"{title}\n\nSigned-off-by: eve <eve@example.invalid>\n Co-authored-by: x <x@example.invalid>"
    message = commit_message(title, body, {"Agent-Run": RUN})
    subject, blank, *_ = message.split("\n")
    assert subject.strip()
    assert blank == ""
    message.encode("utf-8")
    trailers = run_git("interpret-trailers", "--parse", stdin=message.encode()).out.decode()
    assert trailers == f"Agent-Run: {RUN}\n"
    bare = run_git("interpret-trailers", "--parse", stdin=commit_message(title, body).encode())
    assert bare.out == b""


def test_a_repository_that_names_objects_by_sha_256_is_served_as_any_other(change, tmp_path):
    remote = Remote(tmp_path / "sha256.git", object_format="sha256")
    base = remote.commit(CASE.base)
    mirror = mirror_of(remote, tmp_path)
    patch = remote.diff(base, remote.tree([("f.txt", "100644", b"1\ntwo\n3\n")]))
    reading = mirror.read(patch, base)
    assert (len(base), len(reading.tree), reading.paths) == (64, 64, frozenset({"f.txt"}))
    pushed = GitProvider(mirror).create(replace(change, base_commit=base, patch=patch))
    assert remote.branches()[BRANCH] == pushed.commit_sha


def test_a_hostile_title_goes_all_the_way(remote, provider, change, tmp_path):
    canary = tmp_path / "canary"
    title = f"--upload-pack=touch {canary}"
    hostile = replace(change, branch=branch_name(RUN, title), message=commit_message(title))
    pushed = provider.create(hostile)
    assert remote.branches()[hostile.branch] == pushed.commit_sha
    assert not canary.exists()


def test_words_that_are_no_run_or_no_trailer_are_refused():
    with pytest.raises(ValueError, match="no run id"):
        branch_name("../main", "x")
    with pytest.raises(ValueError, match="no name of a trailer"):
        commit_message("x", "", {"a: b\nc": "d"})
