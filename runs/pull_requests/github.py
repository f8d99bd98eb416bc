"""How GitHub says it, or a GitHub Enterprise Server. Pages are those of docs.github.com."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from runs.domain.vocabulary import PullRequestState
from runs.forges.rest import Rest
from runs.pull_requests.base import Change
from runs.pull_requests.forge import Check, Pull, Review, Verdict, if_told, state_of

Json = Mapping[str, Any]
_VERDICTS: Final[dict[str, Verdict]] = {
    "APPROVED": "approved", "CHANGES_REQUESTED": "changes", "DISMISSED": "taken back",
}  # fmt: skip
_RED: Final = frozenset({"failure", "timed_out", "action_required", "startup_failure", "cancelled", "error"})


class GitHub:
    """The dialect."""

    name = "github"

    def root(self, project: str) -> str:
        """``/repos/owner/name``."""
        return f"/repos/{project}"

    def pulls(self, api: Rest, change: Change) -> Sequence[Pull]:
        """ "List pull requests", by head, which is ``user:branch``."""
        owner = api.below.split("/")[2]
        found = api.get("/pulls", head=f"{owner}:{change.branch}", state="all", per_page=100)
        return [_pull(one) for one in found]

    def open(self, api: Rest, change: Change, body: str) -> Pull:
        """ "Create a pull request"."""
        told = {
            "title": change.proposal.title,
            "head": change.branch,
            "base": change.base_branch,
            "body": body,
            "draft": change.proposal.draft,
        }
        return _pull(api.send("POST", "/pulls", told))

    def label(self, api: Rest, number: int, labels: Sequence[str]) -> None:
        """ "Add labels to an issue"."""
        api.send("POST", f"/issues/{number}/labels", {"labels": list(labels)})

    def unsigned_refused(self, api: Rest, branch: str, *, is_base: bool) -> bool:
        """ "Get rules for a branch": of rulesets, also for a branch that is yet to be made; "Get commit
        signature protection": of classic branch protection, for a branch that exists."""
        where = quote(branch, safe="")
        rules = if_told(api, f"/rules/branches/{where}", per_page=100)
        if any(rule.get("type") == "required_signatures" for rule in rules or ()):
            return True
        path = f"/branches/{where}/protection/required_signatures"
        return is_base and bool((if_told(api, path) or {}).get("enabled"))

    def pull(self, api: Rest, number: int) -> Pull:
        """ "Get a pull request"."""
        return _pull(api.get(f"/pulls/{number}"))

    def reviews(self, api: Rest, number: int) -> Iterator[Review]:
        """ "List reviews for a pull request"."""
        for page in api.pages(f"/pulls/{number}/reviews"):
            for one in page:
                by = str((one.get("user") or {}).get("login", ""))
                if verdict := _VERDICTS.get(one.get("state")):  # a comment takes no decision back
                    yield Review(by, verdict, one.get("body") or "")

    def checks(self, api: Rest, sha: str) -> Iterator[Check]:
        """ "List check runs for a Git reference", "Get the combined status for a specific reference"."""
        for page in api.pages(f"/commits/{sha}/check-runs"):
            for run in page["check_runs"]:
                output = run.get("output") or {}
                words = f"{output.get('title') or ''}\n{output.get('summary') or ''}"
                red, pending = run.get("conclusion") in _RED, run["status"] != "completed"
                yield Check(str(run["name"]), state_of(red=red, pending=pending), words)
        for status in api.get(f"/commits/{sha}/status", per_page=100)["statuses"]:
            red, pending = status["state"] in _RED, status["state"] == "pending"
            words = str(status.get("description") or "")
            yield Check(str(status["context"]), state_of(red=red, pending=pending), words)

    def end(self, api: Rest, number: int, why: str) -> None:
        """ "Create an issue comment", "Update a pull request"."""
        api.send("POST", f"/issues/{number}/comments", {"body": why})
        api.send("PATCH", f"/pulls/{number}", {"state": "closed"})


def _pull(one: Json) -> Pull:
    ended = None
    if one.get("merged") or one.get("merged_at"):  # a list tells the time alone
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
        is_asked=bool(one.get("requested_reviewers") or one.get("requested_teams")),
    )
