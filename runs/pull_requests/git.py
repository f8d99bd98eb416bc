"""The plain git remote: one branch with one commit, pushed once.

The commit holds exactly the approved patch on its recorded base. Its dates are given, so
that repeating a push makes the same commit and finds it, whatever happened in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC

from runs.domain.patch import shown
from runs.mirrors import GitFailed, Mirror, Scratch
from runs.pull_requests.base import (
    AlreadyThere,
    BaseConflict,
    BranchTaken,
    Change,
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


class GitProvider:
    """Pushes branches over git itself; there is no pull request to open."""

    name = "git"

    def __init__(self, mirror: Mirror, *, timeout: float = 120.0) -> None:
        self._mirror, self._timeout = mirror, timeout

    def find(self, change: Change) -> Pushed | None:
        """The branch with exactly this change's commit, or None. BranchTaken for another's."""
        with self._scratch(change) as scratch:
            commit, tree = _commit(scratch, change)
            refs = self._refs(change.branch)
            return self._found(change, commit, tree, refs)

    def create(self, change: Change) -> Pushed:
        """Push the branch, or find it pushed.

        Raises PathsDiffer, BranchTaken, BaseConflict, AlreadyThere or PushFailed; in each
        case nothing was pushed. What is there already is found before the base is looked
        at: a merged branch is done, not in conflict.
        """
        with self._scratch(change) as scratch:
            commit, tree = _commit(scratch, change)
            if found := self._found(change, commit, tree, self._refs(change.branch)):
                return found
            behind = self._check_base(scratch, change, tree)
            self._push(scratch, change, commit)
            return self._pushed(change, commit, tree, created=True, behind=behind)

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

    def _found(self, change: Change, commit: str, tree: str, refs: Mapping[str, str]) -> Pushed | None:
        own = f"refs/heads/{change.branch}"
        if refs.get(own) == commit:
            return self._pushed(change, commit, tree, created=False)
        if own in refs:
            raise BranchTaken(f"{change.branch} holds another commit, {refs[own][:12]}")
        if refs:
            raise BranchTaken(f"{change.branch} cannot be made beside {min(refs)}")
        return None

    def _check_base(self, scratch: Scratch, change: Change, tree: str) -> bool:
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
        open_paths = {shown(found.path) for found in scratch.changes(head, tree)}
        if not open_paths.intersection(shown(path) for path in change.approved_paths):
            raise AlreadyThere(f"{change.base_branch} has this change already")
        why = scratch.applies_to(head, change.patch)
        if why and scratch.applies_to(head, change.patch, reverse=True) is None:
            raise AlreadyThere(f"{change.base_branch} has this change already")
        if why:
            raise BaseConflict(f"does not apply to {change.base_branch} at {head[:12]}: {why}")
        return True

    def _push(self, scratch: Scratch, change: Change, commit: str) -> None:
        own = f"refs/heads/{change.branch}"
        try:
            # The empty lease: the push fails unless no such branch exists at that moment.
            result = scratch.run(
                "push", "--quiet", "--porcelain", "--no-verify", "--recurse-submodules=no",
                f"--force-with-lease={own}:", "--", self._mirror.url, f"{commit}:{own}",
            )  # fmt: skip
            why = "" if not result.code else f"{result.out.decode('utf-8', 'replace')}\n{result.err}"
        except GitFailed as error:
            why = error.message
        # Whatever the answer was, or if there was none: what stands there decides.
        if why and self._refs(change.branch).get(own) != commit:
            self._found(change, commit, "", self._refs(change.branch))
            raise _failed(why)

    def _pushed(
        self, change: Change, commit: str, tree: str, *, created: bool, behind: bool = False
    ) -> Pushed:
        return Pushed(
            branch=change.branch,
            commit_sha=commit,
            tree_sha=tree,
            created=created,
            url=self._mirror.url,
            behind=behind,
        )


def _commit(scratch: Scratch, change: Change) -> tuple[str, str]:
    """(commit, tree) of exactly the approved patch on its base, or PathsDiffer."""
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
    return _commit_tree(scratch, change, tree), tree


def _commit_tree(scratch: Scratch, change: Change, tree: str) -> str:
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
    args = ("commit-tree", "-p", change.base_commit, "-F", "-", tree)
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
