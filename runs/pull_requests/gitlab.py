"""How GitLab says it, at gitlab.com or on a host of one's own. Pages are those of its REST API at
docs.gitlab.com."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from runs.domain.vocabulary import PullRequestState
from runs.forges.rest import Rest
from runs.pull_requests.base import Change
from runs.pull_requests.forge import Check, Pull, Review, Verdict, if_told, state_of

Json = Mapping[str, Any]
_ENDED: Final = {"merged": PullRequestState.MERGED, "closed": PullRequestState.CLOSED}
_VERDICTS: Final[dict[str, Verdict]] = {"approved": "approved", "requested_changes": "changes"}
_RED: Final = frozenset({"failed", "canceled"})
_DONE: Final = frozenset({"success", "skipped"})


class GitLab:
    """The dialect. A merge request's number is its ``iid``."""

    name = "gitlab"

    def root(self, project: str) -> str:
        """``/projects/group%2Fname``: "Namespaced paths"."""
        return f"/projects/{quote(project, safe='')}"

    def pulls(self, api: Rest, change: Change) -> Sequence[Pull]:
        """ "List project merge requests", by source branch; those of forks are others'."""
        found = api.get("/merge_requests", source_branch=change.branch, state="all", per_page=100)
        return [_pull(one) for one in found if one["source_project_id"] == one["target_project_id"]]

    def open(self, api: Rest, change: Change, body: str) -> Pull:
        """ "Create a merge request". "Draft merge requests": a draft is one whose title says so."""
        told = {
            "title": f"{'Draft: ' if change.proposal.draft else ''}{change.proposal.title}",
            "source_branch": change.branch,
            "target_branch": change.base_branch,
            "description": body,
        }
        return _pull(api.send("POST", "/merge_requests", told))

    def label(self, api: Rest, number: int, labels: Sequence[str]) -> None:
        """ "Update a merge request": ``add_labels`` makes those that are not known yet."""
        api.send("PUT", f"/merge_requests/{number}", {"add_labels": ",".join(labels)})

    def unsigned_refused(self, api: Rest, branch: str, *, is_base: bool) -> bool:
        """ "Get push rules of a project": of all its branches at once; some plans have none."""
        return not is_base and bool((if_told(api, "/push_rule") or {}).get("reject_unsigned_commits"))

    def pull(self, api: Rest, number: int) -> Pull:
        """ "Get single merge request"."""
        return _pull(api.get(f"/merge_requests/{number}"))

    def reviews(self, api: Rest, number: int) -> Iterator[Review]:
        """ "Get approvals" and "Get single merge request reviewers", whose word is the later one; what
        somebody who requests changes says stands in "List all merge request notes"."""
        approvals = if_told(api, f"/merge_requests/{number}/approvals") or {}
        for one in approvals.get("approved_by") or ():
            yield Review(str(one["user"]["username"]), "approved")
        words: dict[str, str] | None = None
        for one in if_told(api, f"/merge_requests/{number}/reviewers", per_page=100) or ():
            by, verdict = str(one["user"]["username"]), _VERDICTS.get(one.get("state"))
            if verdict == "changes":
                words = _words(api, number) if words is None else words
                yield Review(by, verdict, words.get(by, ""))
            elif verdict:
                yield Review(by, verdict)

    def checks(self, api: Rest, sha: str) -> Iterator[Check]:
        """ "List commit statuses": the latest of each job and of each check from outside."""
        for page in api.pages(f"/repository/commits/{sha}/statuses"):
            for one in page:
                status, lenient = one["status"], bool(one.get("allow_failure"))
                red = status in _RED and not lenient
                # A job that waits for somebody to start it holds nothing up where it may fail.
                pending = status not in _RED | _DONE and not (status == "manual" and lenient)
                words = one.get("description") or one.get("target_url") or ""
                yield Check(str(one["name"]), state_of(red=red, pending=pending), str(words))

    def end(self, api: Rest, number: int, why: str) -> None:
        """ "Create new merge request note", "Update a merge request"."""
        api.send("POST", f"/merge_requests/{number}/notes", {"body": why})
        api.send("PUT", f"/merge_requests/{number}", {"state_event": "close"})


def _words(api: Rest, number: int) -> dict[str, str]:
    """What each person said last that nobody has resolved; not what GitLab itself notes."""
    found: dict[str, str] = {}
    for page in api.pages(f"/merge_requests/{number}/notes", sort="asc", order_by="created_at"):
        for one in page:
            if not one.get("system") and not one.get("resolved"):
                by = str((one.get("author") or {}).get("username", ""))
                found[by] = "\n".join(part for part in (found.get(by), one.get("body") or "") if part)
    return found


def _pull(one: Json) -> Pull:
    return Pull(
        number=int(one["iid"]),
        url=str(one["web_url"]),
        branch=str(one["source_branch"]),
        sha=str(one.get("sha") or ""),
        body=one.get("description") or "",
        ended=_ENDED.get(one["state"]),
        labels=frozenset(one.get("labels") or ()),
        is_asked=bool(one.get("reviewers")),
    )
