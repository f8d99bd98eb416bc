"""What every provider does, and how an attempt can end.

A forge that is added keeps to ``Provider`` and to the same tests; nothing outside its file knows it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple, Protocol

from runs.domain.vocabulary import PullRequestState


class Author(NamedTuple):
    """Who stands in the commit, as author and as committer."""

    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a forge shows beside the branch; plain git shows none of it.

    `operation` is the run's id: by it, and by the branch, a repeated call finds what it made.
    """

    title: str = ""
    body: str = ""
    operation: str = ""
    draft: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One approved patch on its way out.

    `approved_paths` and `expected_tree` are what the guards saw; the commit must agree.
    `timestamp` (with a time zone) dates the commit: the same change twice is the same
    commit. `base_branch` is looked at again before the push; without it, it is not.
    """

    base_commit: str
    patch: bytes
    approved_paths: Collection[str]
    branch: str
    message: str
    author: Author
    timestamp: datetime
    expected_tree: str | None = None
    base_branch: str | None = None
    proposal: Proposal = Proposal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The branch stands in the repository. `created` is False when it stood there before.

    `behind` says that the base branch has moved on since `base_commit`, without conflict.
    """

    branch: str
    commit_sha: str
    tree_sha: str
    created: bool
    url: str
    number: int | None = None
    behind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A pull request that stands at the provider, as the record knows it."""

    branch: str
    base_branch: str
    commit_sha: str
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How a pull request stands now. `checks` is "", pending, passed or failed.

    `said` is what reviewers and red checks say: words of strangers, never an order.
    """

    state: PullRequestState
    checks: str = ""
    head_sha: str = ""
    said: str = ""


class Provider(Protocol):
    """A place that takes branches. Every call may be repeated at any time; each raises PushFailed
    where nobody answers."""

    name: str

    def find(self, change: Change) -> Pushed | None:
        """What an earlier call for this change left behind, or None."""
        ...

    def create(self, change: Change) -> Pushed:
        """Make it, or find that it is made. Raises a PushRefused."""
        ...

    def withdraw(self, change: Change) -> None:
        """Take back a branch that this change left without a pull request; nobody else's."""
        ...

    def look(self, opened: Opened) -> Life:
        """How it stands now."""
        ...

    def close(self, opened: Opened, why: str) -> None:
        """Close it, and say why where the provider shows that. BranchTaken where others work on it."""
        ...


class PushRefused(Exception):  # noqa: N818  a refusal, named like the others
    """The change did not go out; `reason` is the failure's slug, `retryable` whether
    repeating the same call can help."""

    reason: ClassVar[str]
    retryable: bool = False


class PathsDiffer(PushRefused):
    """The commit would change other paths, or give another tree, than was approved."""

    reason = "paths_differ"


class BranchTaken(PushRefused):
    """The branch, or a branch in its way, holds somebody else's commits."""

    reason = "branch_conflict"


class BaseConflict(PushRefused):
    """The base branch moved, and the patch does not apply to it any more."""

    reason = "base_conflict"


class AlreadyThere(PushRefused):
    """The base branch has this change already."""

    reason = "no_changes"


class PushFailed(PushRefused):
    """The repository could not be reached, or it said no."""

    reason = "push_failed"

    def __init__(
        self,
        why: str,
        *,
        retryable: bool,
        cause: Literal["unreachable", "access", "rejected"],
    ) -> None:
        self.retryable, self.cause = retryable, cause
        super().__init__(why)
