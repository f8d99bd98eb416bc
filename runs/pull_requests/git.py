"""The plain git remote: one branch with one commit, pushed once.

The commit holds exactly the approved patch on its recorded base. Its dates are given, so
that repeating a push makes the same commit and finds it, whatever happened in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from runs.domain.patch import shown
from runs.domain.vocabulary import PullRequestState
from runs.mirrors import GitFailed, Mirror, Scratch
from runs.mirrors.process import checked, run_git
from runs.pull_requests.base import (
    AlreadyThere,
    BaseConflict,
    BranchTaken,
    Change,
    Life,
    Opened,
    PathsDiffer,
    Pushed,
    PushFailed,
)

_NO_ACCESS = re.compile(
    r"authentication failed|permission denied|could not read (username|password)|access denied"
    r"|not authorized|HTTP 40[13]|repository .*not found|does not appear to be a git repository",
    re.IGNORECASE,
)
_SAID_NO = re.compile(r"\[(remote )?rejected\]|pre-receive hook declined|protected branch", re.IGNORECASE)


class Made(NamedTuple):
    """A commit in a scratch store: exactly the approved patch on its base."""

    scratch: Scratch
    commit: str
    tree: str


class GitProvider:
    """Pushes branches over git itself; there is no pull request to open."""

    name = "git"

    def __init__(self, mirror: Mirror, *, signing_key: Path | None = None, timeout: float = 120.0) -> None:
        self._mirror, self._signing_key, self._timeout = mirror, signing_key, timeout

    @contextmanager
    def made(self, change: Change) -> Iterator[Made]:
        """The commit that this change makes, wherever and how often it is made; not yet pushed."""
        with self._scratch(change) as scratch:
            tree = _tree(scratch, change)
            yield Made(scratch, _commit_tree(scratch, change, tree, self._signing_key), tree)

    def find(self, change: Change) -> Pushed | None:
        """The branch with exactly this change's commit, or None. BranchTaken for another's."""
        with self.made(change) as made:
            return self._found(change, made, self._refs(change.branch))

    def create(self, change: Change) -> Pushed:
        """Push the branch, or find it pushed.

        Raises PathsDiffer, BranchTaken, BaseConflict, AlreadyThere or PushFailed; in each
        case nothing was pushed. What is there already is found before the base is looked
        at: a merged branch is done, not in conflict.
        """
        with self.made(change) as made:
            return self.bring_out(change, made)

    def bring_out(self, change: Change, made: Made) -> Pushed:
        """Push what was made, or find it pushed; as ``create``."""
        if found := self._found(change, made, self._refs(change.branch)):
            return found
        behind = self._check_base(change, made)
        self._push(change, made)
        return self._pushed(change, made, created=True, behind=behind)

    def withdraw(self, change: Change) -> None:
        """Delete the branch if it holds this change's commit and nothing else."""
        with self.made(change) as made:
            if self._refs(change.branch).get(f"refs/heads/{change.branch}") == made.commit:
                self._delete(change.branch, made.commit)

    def look(self, opened: Opened) -> Life:
        """Merged where the base branch has the commit; else closed where the branch is gone.

        A squashed merge leaves no trace that git could tell from a closed branch.
        """
        head = self._refs(opened.branch).get(f"refs/heads/{opened.branch}", "")
        try:
            self._mirror.fetch(branch=opened.base_branch, timeout=self._timeout)
        except GitFailed as error:
            raise _failed(error.message) from error
        if self._mirror.contains(opened.base_branch, opened.commit_sha):
            return Life(state=PullRequestState.MERGED, head_sha=head)
        if not head:
            return Life(state=PullRequestState.CLOSED)
        as_made = head == opened.commit_sha
        return Life(state=PullRequestState.OPEN if as_made else PullRequestState.UPDATED, head_sha=head)

    def close(self, opened: Opened, why: str) -> None:
        """Delete the branch while it holds our commit alone."""
        head = self._refs(opened.branch).get(f"refs/heads/{opened.branch}", "")
        if head not in ("", opened.commit_sha):
            raise BranchTaken(f"{opened.branch} holds another commit, {head[:12]}")
        if head:
            self._delete(opened.branch, head)

    def _delete(self, branch: str, commit: str) -> None:
        own = f"refs/heads/{branch}"
        try:
            checked(
                run_git(
                    "push", "--quiet", "--porcelain", "--no-verify", f"--force-with-lease={own}:{commit}",
                    "--", self._mirror.url, f":{own}",
                    git_dir=self._mirror.path, env=self._mirror.login(), timeout=self._timeout,
                )
            )  # fmt: skip
        except GitFailed as error:
            raise _failed(error.message) from error

    def _scratch(self, change: Change) -> Scratch:
        try:
            self._mirror.ensure(change.base_commit, timeout=self._timeout)
        except GitFailed as error:
            raise _failed(error.message) from error
        return self._mirror.scratch(timeout=self._timeout)

    def _refs(self, branch: str) -> dict[str, str]:
        """The branch itself, and every branch whose name would stand in its way."""
        parts = branch.split("/")
        above = ["refs/heads/" + "/".join(parts[:n]) for n in range(1, len(parts))]
        own = f"refs/heads/{branch}"
        try:
            refs = self._mirror.remote_refs(own, f"{own}/*", *above, timeout=self._timeout)
        except GitFailed as error:
            raise _failed(error.message) from error
        # ls-remote matches the ends of names; only these very names count.
        return {r: c for r, c in refs.items() if r == own or r in above or r.startswith(f"{own}/")}

    def _found(self, change: Change, made: Made, refs: Mapping[str, str]) -> Pushed | None:
        own = f"refs/heads/{change.branch}"
        if refs.get(own) == made.commit:
            return self._pushed(change, made, created=False)
        if own in refs:
            raise BranchTaken(f"{change.branch} holds another commit, {refs[own][:12]}")
        if refs:
            raise BranchTaken(f"{change.branch} cannot be made beside {min(refs)}")
        return None

    def _check_base(self, change: Change, made: Made) -> bool:
        """Whether the base moved on; raises when it moved into this change's way."""
        if change.base_branch is None:
            return False
        try:
            self._mirror.fetch(branch=change.base_branch, timeout=self._timeout)
        except GitFailed as error:
            raise _failed(error.message) from error
        head = self._mirror.resolve(change.base_branch)
        if head is None or head == change.base_commit:
            return False
        scratch = made.scratch
        open_paths = {shown(found.path) for found in scratch.changes(head, made.tree)}
        if not open_paths.intersection(shown(path) for path in change.approved_paths):
            raise AlreadyThere(f"{change.base_branch} has this change already")
        why = scratch.applies_to(head, change.patch)
        if why and scratch.applies_to(head, change.patch, reverse=True) is None:
            raise AlreadyThere(f"{change.base_branch} has this change already")
        if why:
            raise BaseConflict(f"does not apply to {change.base_branch} at {head[:12]}: {why}")
        return True

    def _push(self, change: Change, made: Made) -> None:
        own = f"refs/heads/{change.branch}"
        try:
            # The empty lease: the push fails unless no such branch exists at that moment.
            result = made.scratch.run(
                "push", "--quiet", "--porcelain", "--no-verify", "--recurse-submodules=no",
                f"--force-with-lease={own}:", "--", self._mirror.url, f"{made.commit}:{own}",
                env=dict(self._mirror.login()),
            )  # fmt: skip
            why = "" if not result.code else f"{result.out.decode('utf-8', 'replace')}\n{result.err}"
        except GitFailed as error:
            why = error.message
        # Whatever the answer was, or if there was none: what stands there decides.
        if why and not self._found(change, made, self._refs(change.branch)):
            raise _failed(why)

    def _pushed(self, change: Change, made: Made, *, created: bool, behind: bool = False) -> Pushed:
        return Pushed(
            branch=change.branch,
            commit_sha=made.commit,
            tree_sha=made.tree,
            created=created,
            url=self._mirror.url,
            behind=behind,
        )


def _tree(scratch: Scratch, change: Change) -> str:
    """The tree of exactly the approved patch on its base, or PathsDiffer."""
    scratch.load(change.base_commit)
    result = scratch.apply(change.patch)
    if result.code:
        raise PathsDiffer("the approved patch does not apply to its recorded base")
    tree = scratch.write_tree()
    changed = {shown(found.path) for found in scratch.changes(change.base_commit, tree)}
    if different := changed ^ {shown(path) for path in change.approved_paths}:
        raise PathsDiffer(f"not what was approved: {min(different)!r}")
    if change.expected_tree not in (None, tree):
        raise PathsDiffer(f"tree {tree[:12]} is not the approved {change.expected_tree[:12]}")
    return tree


def _commit_tree(scratch: Scratch, change: Change, tree: str, signing_key: Path | None) -> str:
    date = f"@{int(change.timestamp.astimezone(UTC).timestamp())} +0000"
    env = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (
            ("NAME", change.author.name),
            ("EMAIL", change.author.email),
            ("DATE", date),
        )
    }
    signed: tuple[str, ...] = ()
    if signing_key is not None:
        signed = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={signing_key}")
    args = (*signed, "commit-tree", *["-S"] * bool(signed), "-p", change.base_commit, "-F", "-", tree)
    result = scratch.run(*args, stdin=change.message.encode("utf-8", "replace"), env=env)
    if result.code:
        raise PushFailed(f"no commit could be made: {result.err[:200]}", retryable=False, cause="rejected")
    return result.out.decode().strip()


def _failed(why: str) -> PushFailed:
    why = " ".join(why.split())[:500]
    if _SAID_NO.search(why):
        return PushFailed(why, retryable=False, cause="rejected")
    if _NO_ACCESS.search(why):
        return PushFailed(why, retryable=False, cause="access")
    return PushFailed(why, retryable=True, cause="unreachable")
