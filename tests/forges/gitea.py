"""A Gitea on 127.0.0.1: the REST API over real HTTP, the branches in a real bare repository beside it.

Every handler names the operation of Gitea's own description of its API (``/api/swagger``, the same at
docs.gitea.com/api) that its answer was written from, in the edition of 1.22. It was never compared with a
real one. Gitea itself counts no calls; the limit is that of a proxy before it.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import unquote

from tests.forges.serving import PROJECT, Answer, FakeForge, Json, Refused, Route

_HERE = f"/repos/{PROJECT}"
_DRAFT = "WIP: "
_STATES = {
    "approved": "APPROVED",
    "changes": "REQUEST_CHANGES",
    "comment": "COMMENT",
    "taken back": "APPROVED",
}


class FakeGitea(FakeForge):
    """The forge."""

    name = "gitea"
    opening, labels, one = "/pulls", r"/issues/\d+/labels", r"/pulls/\d+"
    lookup = r"/pulls/main/agent/\S+"
    looks = (r"/pulls/main/agent/\S+", "/branch_protections")
    ways = ("a rule over the head", "a rule over the base")
    denied = "user does not exist [uid: 0, name: ]"
    page_size = "limit"
    limited: ClassVar[Answer] = (429, "Too Many Requests", {"Content-Type": "text/plain"})

    def __init__(self, bare: Any) -> None:
        super().__init__(bare)
        self.known_labels: dict[str, int] = {"utc": 7}

    def login(self, headers: Any) -> str:
        """ "API Usage", "Authentication": ``Authorization: token …``."""
        return str(headers.get("Authorization") or "").removeprefix("token ")

    def routes(self) -> list[Route]:
        """Those that the product calls."""
        return [
            ("POST", f"{_HERE}/pulls", self.create_pull),
            ("GET", rf"{_HERE}/pulls/(\d+)", self.get_pull),
            ("PATCH", rf"{_HERE}/pulls/(\d+)", self.edit_pull),
            ("GET", rf"{_HERE}/pulls/(\d+)/reviews", self.list_reviews),
            ("GET", rf"{_HERE}/pulls/([^/]+)/(.+)", self.by_base_and_head),
            ("GET", f"{_HERE}/labels", self.list_labels),
            ("POST", f"{_HERE}/labels", self.create_label),
            ("POST", rf"{_HERE}/issues/(\d+)/labels", self.add_labels),
            ("POST", rf"{_HERE}/issues/(\d+)/comments", self.create_comment),
            ("GET", rf"{_HERE}/commits/\w+/status", self.combined_status),
            ("GET", f"{_HERE}/branch_protections", self.list_protections),
            ("GET", "/orgs/acme/repos", self.list_repositories),
        ]

    def by_base_and_head(self, base: str, head: str, query: dict[str, str], body: Json) -> Answer:
        """repoGetPullRequestByBaseHead: one of them, open or not; 404 where there is none."""
        found = [p for p in self.pulls if (p["base"], p["head"]) == (unquote(base), unquote(head))]
        if not found:
            raise Refused(404, {"message": "The target couldn't be found.", "errors": []})
        return 200, self._shown(found[0])

    def create_pull(self, query: dict[str, str], body: Json) -> Answer:
        """repoCreatePullRequest: 201; 404 where a branch is missing; 409 where there is an open one."""
        head, base = body["head"], body["base"]
        if not self.branch(head):
            raise Refused(404, {"message": "The target couldn't be found."})
        if [p for p in self.pulls if (p["head"], p["base"], p["state"]) == (head, base, "open")]:
            said = f"pull request already exists for these targets [id: 9, head_branch: {head}]"
            raise Refused(409, {"message": said, "url": f"{self.url}/api/swagger"})
        title = body["title"]
        made = self.made(
            title=title.removeprefix(_DRAFT),
            head=head,
            base=base,
            body=body["body"],
            draft=title.startswith(_DRAFT),
        )
        return 201, self._shown(made)

    def _shown(self, pull: Json) -> Json:
        return {
            "number": pull["number"], "id": 500 + pull["number"], "html_url": pull["url"],
            "title": f"{_DRAFT if pull['draft'] else ''}{pull['title']}", "draft": pull["draft"],
            "body": pull["body"], "state": "open" if pull["state"] == "open" else "closed",
            "merged": pull["state"] == "merged", "labels": [{"name": name} for name in pull["labels"]],
            "head": {"ref": pull["head"], "sha": self.head_of(pull)}, "base": {"ref": pull["base"]},
            "requested_reviewers": [{"login": name} for name in pull["asked"]] or None,
        }  # fmt: skip

    def get_pull(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """repoGetPullRequest."""
        return 200, self._shown(self.pull(number))

    def edit_pull(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """repoEditPullRequest: 201."""
        self.pull(number).update({name: body[name] for name in ("title", "body", "state") if name in body})
        return 201, self._shown(self.pull(number))

    def list_labels(self, query: dict[str, str], body: Json) -> Answer:
        """issueListLabels."""
        rows = [{"id": number, "name": name} for name, number in self.known_labels.items()]
        return self.paged(rows, f"{_HERE}/labels", query)

    def create_label(self, query: dict[str, str], body: Json) -> Answer:
        """issueCreateLabel: 201; name and colour are required."""
        if not (body.get("name") and body.get("color")):
            raise Refused(422, {"message": "[Name]: Required"})
        self.known_labels[body["name"]] = number = 7 + len(self.known_labels)
        return 201, {"id": number, "name": body["name"], "color": body["color"]}

    def add_labels(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """issueAddLabel: numbers of labels."""
        names = {n: name for name, n in self.known_labels.items()}
        self.pull(number)["labels"] += [names[one] for one in body["labels"]]
        return 200, [{"name": name} for name in self.pull(number)["labels"]]

    def create_comment(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """issueCreateComment: 201."""
        self.comments.setdefault(int(number), []).append(body["body"])
        return 201, {"id": 1, "body": body["body"]}

    def list_reviews(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """repoListPullReviews: with requests for a review among them; a decision may be dismissed."""
        said = [
            {
                "user": {"login": by}, "state": _STATES[what], "body": text, "stale": False,
                "dismissed": what == "taken back",
            }
            for by, what, text in self.reviews.get(int(number), [])
        ]  # fmt: skip
        asked = [{"user": {"login": n}, "state": "REQUEST_REVIEW"} for n in self.pull(number)["asked"]]
        return self.paged([*asked, *said], f"{_HERE}/pulls/{number}/reviews", query)

    def combined_status(self, query: dict[str, str], body: Json) -> Answer:
        """repoGetCombinedStatusByRef: none is null; Gitea's own word for a check's state is ``status``."""
        states = {"passed": "success", "skipped": "warning", "failed": "failure", "pending": "pending"}
        found = [
            {"status": states[word], "context": name, "description": words}
            for name, word, words in self.checks
        ]
        return 200, {"state": "pending", "statuses": found or None}

    def list_protections(self, query: dict[str, str], body: Json) -> Answer:
        """repoListBranchProtection: names are globs."""
        if self.signing is None:
            return 200, [{"rule_name": "release/*", "require_signed_commits": True}]
        return 200, [{"rule_name": self.signing[1], "require_signed_commits": True}]

    def list_repositories(self, query: dict[str, str], body: Json) -> Answer:
        """orgListRepos: archived ones too."""
        rows = [
            {
                "id": one["id"], "full_name": one["path"], "archived": one["archived"],
                "clone_url": f"https://gitea.com/{one['path']}.git", "default_branch": one["branch"],
            }
            for one in self.repositories
        ]  # fmt: skip
        return self.paged(rows, "/orgs/acme/repos", query)
