"""Forges: the branch goes out over git, the pull request over REST. One way of doing it for all of them.

Found by its head branch and by the run's id in its body, then made. An answer that is lost, late or
unclear is followed by looking again, so that repeating a creation never makes a second one. What differs
between forges is in ``Dialect``: a forge that is added writes one, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

import structlog

from runs.credentials.access import RepositoryAccess
from runs.domain.vocabulary import PullRequestState
from runs.forges.rest import ForgeFailed, Rest, Unprocessable
from runs.mirrors import Mirror
from runs.pull_requests.base import BranchTaken, Change, Life, Opened, Pushed, PushFailed
from runs.pull_requests.git import GitProvider, Made

log = structlog.get_logger(__name__)

MAX_BODY: Final = 60_000  #: characters; GitHub and Gitea take 65,536
MAX_SAID: Final = 20_000  #: characters of what strangers say


Verdict = Literal["approved", "changes", "taken back"]
CheckState = Literal["passed", "pending", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull request as a forge shows it, in words that all of them share."""

    number: int
    url: str
    branch: str  #: its head
    sha: str  #: the commit that the head is at, or was at last
    body: str
    ended: PullRequestState | None = None  #: MERGED or CLOSED
    labels: frozenset[str] = frozenset()
    is_asked: bool = False  #: somebody's review is requested


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewer's last word; a comment is none."""

    by: str
    verdict: Verdict
    words: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a commit, and what it says where it is red."""

    name: str
    state: CheckState
    words: str = ""


class Dialect(Protocol):
    """How one forge says it. Each call names the page of its documentation that it follows."""

    name: str

    def root(self, project: str) -> str:
        """The path that the project's calls are below."""
        ...

    def pulls(self, api: Rest, change: Change) -> Sequence[Pull]:
        """Those from the change's branch, in whatever state."""
        ...

    def open(self, api: Rest, change: Change, body: str) -> Pull:
        """Make one. Raises ``Unprocessable`` and ``ForgeFailed``."""
        ...

    def label(self, api: Rest, number: int, labels: Sequence[str]) -> None:
        """Add labels; one that is not known yet is made."""
        ...

    def unsigned_refused(self, api: Rest, branch: str, *, is_base: bool) -> bool:
        """Whether the branch takes signed commits alone, as far as this token may know."""
        ...

    def pull(self, api: Rest, number: int) -> Pull:
        """One of them, as it is now."""
        ...

    def reviews(self, api: Rest, number: int) -> Iterable[Review]:
        """Reviewers' decisions in the order in which they were made."""
        ...

    def checks(self, api: Rest, sha: str) -> Iterable[Check]:
        """All checks of a commit."""
        ...

    def end(self, api: Rest, number: int, why: str) -> None:
        """Say why, and close it."""
        ...


class ForgeProvider:
    """Pull requests of one repository at a forge."""

    def __init__(
        self, dialect: Dialect, mirror: Mirror, access: RepositoryAccess, *, timeout: float = 120.0
    ) -> None:
        self.name = dialect.name
        self._speak, self._access = dialect, access
        self._git = GitProvider(mirror, signing_key=access.credential.signing_key, timeout=timeout)

    def find(self, change: Change) -> Pushed | None:
        """The pull request of this change, open or not, or None. BranchTaken for somebody else's."""
        with self._git.made(change) as made, self._api() as api:
            found = self._pull(api, change, made.commit)
            return _pushed(change, made, found) if found else None

    def create(self, change: Change) -> Pushed:
        """Push the branch and open the pull request, or find it opened.

        What is there already is found before anything is pushed: a merged pull request whose
        branch was deleted is done, and must not come back.
        """
        with self._git.made(change) as made, self._api() as api:
            pull, behind = self._pull(api, change, made.commit), False
            if is_new := pull is None:
                self._check_rules(api, change)
                behind = self._git.bring_out(change, made).behind
                pull = self._open(api, change, made.commit)
            self._label(api, change, pull)
            return replace(_pushed(change, made, pull), created=is_new, behind=behind)

    def withdraw(self, change: Change) -> None:
        """Delete a branch that was pushed before its pull request could be opened."""
        self._git.withdraw(change)

    def look(self, opened: Opened) -> Life:
        """State, reviews and checks."""
        number = opened.number or 0
        with self._api() as api:
            pull = self._speak.pull(api, number)
            if pull.ended:
                return Life(state=pull.ended, head_sha=pull.sha)
            reviews = _last_words(self._speak.reviews(api, number))
            checks = list(self._speak.checks(api, pull.sha))
        red = [check for check in checks if check.state == "failed"]
        pending = any(check.state == "pending" for check in checks)
        word = "failed" if red else "pending" if pending else "passed" if checks else ""
        state = _state(pull, reviews, is_as_made=pull.sha == opened.commit_sha)
        return Life(state=state, checks=word, head_sha=pull.sha, said=_said(reviews, red))

    def close(self, opened: Opened, why: str) -> None:
        """Comment, then close; others' work stays."""
        with self._api() as api:
            pull = self._speak.pull(api, opened.number or 0)
            if pull.ended:
                return
            if pull.sha != opened.commit_sha:
                raise BranchTaken(f"{opened.branch} holds another commit, {pull.sha[:12]}")
            self._speak.end(api, pull.number, why)

    @contextmanager
    def _api(self) -> Iterator[Rest]:
        """The forge's API; what fails there is a push that failed."""
        if not self._access.project:
            why = (
                "the repository's address names no owner/name at the forge; set `project` in its credentials"
            )
            raise PushFailed(why, retryable=False, cause="rejected")
        try:
            with Rest(self._access.forge, self._speak.root(self._access.project)) as api:
                yield api
        except ForgeFailed as failed:
            raise PushFailed(str(failed), retryable=failed.retryable, cause=failed.cause) from failed
        except Unprocessable as refused:
            raise PushFailed(f"refused: {refused}", retryable=False, cause="rejected") from refused

    def _pull(self, api: Rest, change: Change, commit: str) -> Pull | None:
        """By head: the one that carries this run's id, or stands on its commit."""
        # A head that a forge does not understand may be no filter at all; the branch is compared here.
        here = [pull for pull in self._speak.pulls(api, change) if pull.branch == change.branch]
        mark = _mark(change)
        mine = [pull for pull in here if mark in pull.body or pull.sha == commit]
        if here and not mine:
            raise BranchTaken(f"{change.branch} has somebody else's pull request, #{here[0].number}")
        return min(mine, key=lambda pull: pull.number) if mine else None

    def _open(self, api: Rest, change: Change, commit: str) -> Pull:
        """Whatever comes back but a plain yes or no: what stands there decides."""
        body = f"{change.proposal.body[:MAX_BODY]}\n\n{_mark(change)}\n"
        try:
            return self._speak.open(api, change, body)
        except (Unprocessable, ForgeFailed) as error:
            if found := self._pull(api, change, commit):
                return found
            if isinstance(error, ForgeFailed):
                raise
            raise PushFailed(f"{api.name} refused it: {error}", retryable=False, cause="rejected") from error

    def _label(self, api: Rest, change: Change, pull: Pull) -> None:
        """Those that are missing; a pull request without them is still one."""
        missing = [label for label in change.proposal.labels if label not in pull.labels]
        if not missing:
            return
        try:
            self._speak.label(api, pull.number, missing)
        except (Unprocessable, ForgeFailed) as error:
            log.warning("labels_not_set", number=pull.number, why=str(error))

    def _check_rules(self, api: Rest, change: Change) -> None:
        """Of both branches: an unsigned commit is refused before it is pushed."""
        if self._access.credential.signing_key is not None:
            return
        for branch in filter(None, (change.branch, change.base_branch)):
            if self._speak.unsigned_refused(api, branch, is_base=branch == change.base_branch):
                why = f"{branch} takes signed commits alone; set `signing_key_file` in the credentials"
                raise PushFailed(why, retryable=False, cause="rejected")


def if_told(api: Rest, path: str, **params: str | int) -> Any:
    """The answer; None where there is none, or the token may not ask: then the push will tell."""
    try:
        return api.get(path, **params)
    except ForgeFailed as refused:
        if refused.cause != "access" or refused.token_refused:
            raise
        return None


def state_of(*, red: bool, pending: bool) -> CheckState:
    """What a check comes to."""
    return "failed" if red else "pending" if pending else "passed"


def _mark(change: Change) -> str:
    return f"<!-- agent-run: {change.proposal.operation or change.branch} -->"


def _pushed(change: Change, made: Made, pull: Pull) -> Pushed:
    return Pushed(
        branch=change.branch,
        commit_sha=made.commit,
        tree_sha=made.tree,
        created=False,
        url=pull.url,
        number=pull.number,
    )


# --- reading its life -----------------------------------------------------------------------------


def _last_words(reviews: Iterable[Review]) -> list[Review]:
    """Each reviewer's last word."""
    return list({review.by: review for review in reviews}.values())


def _state(pull: Pull, reviews: Iterable[Review], *, is_as_made: bool) -> PullRequestState:
    verdicts = {review.verdict for review in reviews}
    if "changes" in verdicts:
        return PullRequestState.CHANGES_REQUESTED
    if "approved" in verdicts:
        return PullRequestState.APPROVED
    if pull.is_asked:
        return PullRequestState.REVIEW_REQUESTED
    return PullRequestState.OPEN if is_as_made else PullRequestState.UPDATED


def _said(reviews: Iterable[Review], red: Iterable[Check]) -> str:
    asked = [f"{r.by or '?'} requests changes:\n{r.words}" for r in reviews if r.verdict == "changes"]
    broken = [f"Check {check.name} failed:\n{check.words}" for check in red]
    return "\n\n".join(part.strip() for part in (*asked, *broken))[:MAX_SAID]
