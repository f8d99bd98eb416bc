"""How Gitea says it, from 1.22 on, and Forgejo. Operations are those of its API's page, ``/api/swagger``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import quote

from runs.domain.vocabulary import PullRequestState
from runs.forges.rest import Rest
from runs.pull_requests.base import Change
from runs.pull_requests.forge import Check, Pull, Review, Verdict, if_told, state_of

Json = Mapping[str, Any]
_VERDICTS: Final[dict[str, Verdict]] = {"APPROVED": "approved", "REQUEST_CHANGES": "changes"}
_RED: Final = frozenset({"failure", "error"})
#: Of a label that is not known yet; a colour must be given.
_COLOUR: Final = "#6e7781"


class Gitea:
    """The dialect."""

    name = "gitea"

    def root(self, project: str) -> str:
        """``/repos/owner/name``."""
        return f"/repos/{project}"

    def pulls(self, api: Rest, change: Change) -> Sequence[Pull]:
        """ "Get a pull request by base and head" (repoGetPullRequestByBaseHead), in whatever state."""
        where = f"/pulls/{quote(change.base_branch or '', safe='')}/{quote(change.branch)}"
        found = if_told(api, where)
        return [_pull(found)] if found else []

    def open(self, api: Rest, change: Change, body: str) -> Pull:
        """ "Create a pull request" (repoCreatePullRequest). A draft is one whose title says so."""
        told = {
            "title": f"{'WIP: ' if change.proposal.draft else ''}{change.proposal.title}",
            "head": change.branch,
            "base": change.base_branch,
            "body": body,
        }
        return _pull(api.send("POST", "/pulls", told))

    def label(self, api: Rest, number: int, labels: Sequence[str]) -> None:
        """ "Add a label to an issue" (issueAddLabel) takes numbers, of "Get all of a repository's labels"
        (issueListLabels); one that is not there is made by "Create a label" (issueCreateLabel)."""
        known = {one["name"]: one["id"] for page in api.pages("/labels") for one in page}
        for name in labels:
            if name not in known:
                made = api.send("POST", "/labels", {"name": name, "color": _COLOUR})
                known[name] = made["id"]
        api.send("POST", f"/issues/{number}/labels", {"labels": [known[name] for name in labels]})

    def unsigned_refused(self, api: Rest, branch: str, *, is_base: bool) -> bool:
        """ "List branch protections for a repository" (repoListBranchProtection), whose names are globs; who
        may not read them is told by the push."""
        rules = if_told(api, "/branch_protections") or ()
        fits = (rule for rule in rules if fnmatchcase(branch, rule.get("rule_name") or ""))
        return any(rule.get("require_signed_commits") for rule in fits)

    def pull(self, api: Rest, number: int) -> Pull:
        """ "Get a pull request" (repoGetPullRequest)."""
        return _pull(api.get(f"/pulls/{number}"))

    def reviews(self, api: Rest, number: int) -> Iterator[Review]:
        """ "List all reviews for a pull request" (repoListPullReviews)."""
        for page in api.pages(f"/pulls/{number}/reviews"):
            for one in page:
                verdict = _VERDICTS.get(one.get("state"))
                if verdict:
                    by = str((one.get("user") or {}).get("login", ""))
                    yield Review(by, "taken back" if one.get("dismissed") else verdict, one.get("body") or "")

    def checks(self, api: Rest, sha: str) -> Iterator[Check]:
        """ "Get a commit's combined status, by branch/tag/commit reference" (repoGetCombinedStatusByRef)."""
        for page in api.pages(f"/commits/{sha}/status"):
            for one in page.get("statuses") or ():
                red, pending = one["status"] in _RED, one["status"] == "pending"
                words = one.get("description") or one.get("target_url") or ""
                yield Check(str(one["context"]), state_of(red=red, pending=pending), str(words))

    def end(self, api: Rest, number: int, why: str) -> None:
        """ "Add a comment to an issue" (issueCreateComment), then "Update a pull request" with its state
        (repoEditPullRequest)."""
        api.send("POST", f"/issues/{number}/comments", {"body": why})
        api.send("PATCH", f"/pulls/{number}", {"state": "closed"})


def _pull(one: Json) -> Pull:
    ended = None
    if one.get("merged"):
        ended = PullRequestState.MERGED
    elif one["state"] == "closed":
        ended = PullRequestState.CLOSED
    return Pull(
        number=int(one["number"]),
        url=str(one["html_url"]),
        branch=str(one["head"]["ref"]),
        sha=str(one["head"]["sha"]),
        body=one.get("body") or "",
        ended=ended,
        labels=frozenset(label["name"] for label in one.get("labels") or ()),
        is_asked=bool(one.get("requested_reviewers")),
    )
