"""GitHub: the branch goes out over git, the pull request over REST.

Found by its head branch and by the run's id in its body, then made. An answer that is lost, late or
unclear is followed by looking again, so that repeating a creation never makes a second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import structlog

from runs.credentials.access import RepositoryAccess
from runs.domain.vocabulary import PullRequestState
from runs.mirrors import Mirror
from runs.pull_requests.base import BranchTaken, Change, Life, Opened, Pushed, PushFailed
from runs.pull_requests.git import GitProvider, Made
from runs.pull_requests.github_api import GitHubApi, Unprocessable

log = structlog.get_logger(__name__)

Json = Mapping[str, Any]
MAX_BODY: Final = 60_000  #: characters; GitHub takes 65,536
MAX_SAID: Final = 20_000  #: characters of what strangers say
_RED: Final = frozenset({"failure", "timed_out", "action_required", "startup_failure", "cancelled", "error"})
_NO_DECISION: Final = frozenset({"COMMENTED", "PENDING"})


class GitHubProvider:
    """Pull requests of one repository at GitHub, or at a GitHub Enterprise Server."""

    name = "github"

    def __init__(self, mirror: Mirror, access: RepositoryAccess, *, timeout: float = 120.0) -> None:
        self._access = access
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
        """State, reviews and checks. Pages: "Get a pull request", "List reviews for a pull request",
        "List check runs for a Git reference", "Get the combined status for a specific reference"."""
        with self._api() as api:
            pull = api.get(f"/pulls/{opened.number}")
            head = str(pull["head"]["sha"])
            if pull.get("merged") or pull["state"] == "closed":
                ended = PullRequestState.MERGED if pull.get("merged") else PullRequestState.CLOSED
                return Life(state=ended, head_sha=head)
            decisions = _decisions(review for page in api.pages(f"/pulls/{opened.number}/reviews")
                                   for review in page)  # fmt: skip
            red, pending, count = _checks(api, head)
        checks = "failed" if red else "pending" if pending else "passed" if count else ""
        state = _state(pull, decisions, is_as_made=head == opened.commit_sha)
        return Life(state=state, checks=checks, head_sha=head, said=_said(decisions, red))

    def close(self, opened: Opened, why: str) -> None:
        """Comment, then close ("Create an issue comment", "Update a pull request"); others' work stays."""
        with self._api() as api:
            pull = api.get(f"/pulls/{opened.number}")
            if pull["state"] == "closed":
                return
            if pull["head"]["sha"] != opened.commit_sha:
                raise BranchTaken(f"{opened.branch} holds another commit, {pull['head']['sha'][:12]}")
            api.send("POST", f"/issues/{opened.number}/comments", {"body": why})
            api.send("PATCH", f"/pulls/{opened.number}", {"state": "closed"})

    def _api(self) -> GitHubApi:
        if not self._access.project:
            why = "the repository's address names no owner/name at GitHub; set `project` in its credentials"
            raise PushFailed(why, retryable=False, cause="rejected")
        return GitHubApi(self._access)

    def _pull(self, api: GitHubApi, change: Change, commit: str) -> Json | None:
        """ "List pull requests", by head: the one that carries this run's id, or stands on its commit."""
        owner = self._access.project.partition("/")[0]
        pulls = api.get("/pulls", head=f"{owner}:{change.branch}", state="all", per_page=100)
        # A head that GitHub does not understand is no filter at all; the branch is compared here.
        here = [pull for pull in pulls if pull["head"]["ref"] == change.branch]
        mark = _mark(change)
        mine = [p for p in here if mark in (p.get("body") or "") or p["head"]["sha"] == commit]
        if here and not mine:
            raise BranchTaken(f"{change.branch} has somebody else's pull request, #{here[0]['number']}")
        return min(mine, key=lambda pull: int(pull["number"])) if mine else None

    def _open(self, api: GitHubApi, change: Change, commit: str) -> Json:
        """ "Create a pull request". Whatever comes back but a plain yes or no: what stands there decides."""
        proposal = change.proposal
        body = {
            "title": proposal.title,
            "head": change.branch,
            "base": change.base_branch,
            "body": f"{proposal.body[:MAX_BODY]}\n\n{_mark(change)}\n",
            "draft": proposal.draft,
        }
        try:
            made: Json = api.send("POST", "/pulls", body)
        except (Unprocessable, PushFailed) as error:
            if found := self._pull(api, change, commit):
                return found
            if isinstance(error, PushFailed):
                raise
            raise PushFailed(f"GitHub refused it: {error}", retryable=False, cause="rejected") from error
        else:
            return made

    def _label(self, api: GitHubApi, change: Change, pull: Json) -> None:
        """ "Add labels to an issue", those that are missing; a pull request without them is still one."""
        there = {label["name"] for label in pull.get("labels") or ()}
        missing = [label for label in change.proposal.labels if label not in there]
        if not missing:
            return
        try:
            api.send("POST", f"/issues/{pull['number']}/labels", {"labels": missing})
        except (Unprocessable, PushFailed) as error:
            log.warning("labels_not_set", number=pull["number"], why=str(error))

    def _check_rules(self, api: GitHubApi, change: Change) -> None:
        """Of both branches: an unsigned commit is refused before it is pushed."""
        if self._access.credential.signing_key is not None:
            return
        for branch in filter(None, (change.branch, change.base_branch)):
            is_base = branch == change.base_branch
            if self._is_ruled(api, branch) or (is_base and self._is_protected(api, branch)):
                why = f"{branch} takes signed commits alone; set `signing_key_file` in the credentials"
                raise PushFailed(why, retryable=False, cause="rejected")

    def _is_ruled(self, api: GitHubApi, branch: str) -> bool:
        """ "Get rules for a branch": of rulesets, also for a branch that is yet to be made."""
        rules = self._if_told(api, f"/rules/branches/{quote(branch, safe='')}", per_page=100)
        return any(rule.get("type") == "required_signatures" for rule in rules or ())

    def _is_protected(self, api: GitHubApi, branch: str) -> bool:
        """ "Get commit signature protection": of classic branch protection, for a branch that exists."""
        path = f"/branches/{quote(branch, safe='')}/protection/required_signatures"
        return bool((self._if_told(api, path) or {}).get("enabled"))

    def _if_told(self, api: GitHubApi, path: str, **params: int) -> Any:
        """The answer; None where there is none, or the token may not ask: then the push will tell."""
        try:
            return api.get(path, **params)
        except PushFailed as refused:
            if refused.cause != "access":
                raise
            return None


def _mark(change: Change) -> str:
    return f"<!-- agent-run: {change.proposal.operation or change.branch} -->"


def _pushed(change: Change, made: Made, pull: Json) -> Pushed:
    return Pushed(
        branch=change.branch,
        commit_sha=made.commit,
        tree_sha=made.tree,
        created=False,
        url=str(pull["html_url"]),
        number=int(pull["number"]),
    )


# --- reading its life -----------------------------------------------------------------------------


def _decisions(reviews: Iterable[Json]) -> list[Json]:
    """Each reviewer's last word; a comment does not take a decision back."""
    last: dict[str, Json] = {}
    for review in reviews:
        if review.get("state") not in _NO_DECISION:
            last[str((review.get("user") or {}).get("login", ""))] = review
    return list(last.values())


def _checks(api: GitHubApi, head: str) -> tuple[list[tuple[str, str]], bool, int]:
    """(red ones with what they say, whether any is under way, how many there are)."""
    red: list[tuple[str, str]] = []
    pending, count = False, 0
    for page in api.pages(f"/commits/{head}/check-runs"):
        for run in page["check_runs"]:
            count += 1
            pending |= run["status"] != "completed"
            if run.get("conclusion") in _RED:
                output = run.get("output") or {}
                red.append((str(run["name"]), f"{output.get('title') or ''}\n{output.get('summary') or ''}"))
    for status in api.get(f"/commits/{head}/status", per_page=100)["statuses"]:
        count += 1
        pending |= status["state"] == "pending"
        if status["state"] in _RED:
            red.append((str(status["context"]), str(status.get("description") or "")))
    return red, pending, count


def _state(pull: Json, decisions: Iterable[Json], *, is_as_made: bool) -> PullRequestState:
    said = {review.get("state") for review in decisions}
    if "CHANGES_REQUESTED" in said:
        return PullRequestState.CHANGES_REQUESTED
    if "APPROVED" in said:
        return PullRequestState.APPROVED
    if pull.get("requested_reviewers") or pull.get("requested_teams"):
        return PullRequestState.REVIEW_REQUESTED
    return PullRequestState.OPEN if is_as_made else PullRequestState.UPDATED


def _said(decisions: Iterable[Json], red: Iterable[tuple[str, str]]) -> str:
    wanted = [review for review in decisions if review.get("state") == "CHANGES_REQUESTED"]
    asked = [
        f"{(r.get('user') or {}).get('login', '?')} requests changes:\n{r.get('body') or ''}" for r in wanted
    ]
    broken = [f"Check {name} failed:\n{text}" for name, text in red]
    return "\n\n".join(part.strip() for part in (*asked, *broken))[:MAX_SAID]
