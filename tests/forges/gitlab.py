"""A GitLab on 127.0.0.1: the REST API over real HTTP, the branches in a real bare repository beside it.

Every handler names the page of docs.gitlab.com, "REST API", that its answer was written from (the path below
``api/`` stands beside it), in the edition of GitLab 18. It was never compared with a real one.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.forges.serving import PROJECT, Answer, FakeForge, Json, Refused, Route

_HERE = f"/projects/{quote(PROJECT, safe='')}"
_REQUESTS = f"{_HERE}/merge_requests"
_NUMBER = 4711  #: of the project
_DRAFT = "Draft: "


class FakeGitLab(FakeForge):
    """The forge."""

    name = "gitlab"
    opening = lookup = "/merge_requests"
    labels = one = r"/merge_requests/\d+"
    label_verb = "PUT"
    looks = ("/merge_requests", "/push_rule")
    ways = ("a push rule",)
    denied = "401 Unauthorized"

    def login(self, headers: Any) -> str:
        """ "REST API authentication" (rest/authentication): a bearer, or a header of its own."""
        return str(headers.get("PRIVATE-TOKEN") or "") or super().login(headers)

    def routes(self) -> list[Route]:
        """Those that the product calls."""
        one = rf"{_REQUESTS}/(\d+)"
        return [
            ("GET", _REQUESTS, self.list_requests),
            ("POST", _REQUESTS, self.create_request),
            ("GET", one, self.get_request),
            ("PUT", one, self.update_request),
            ("GET", rf"{one}/approvals", self.approvals),
            ("GET", rf"{one}/reviewers", self.reviewers),
            ("GET", rf"{one}/notes", self.list_notes),
            ("POST", rf"{one}/notes", self.add_note),
            ("GET", rf"{_HERE}/repository/commits/\w+/statuses", self.list_statuses),
            ("GET", f"{_HERE}/push_rule", self.push_rule),
            ("GET", "/groups/acme/projects", self.list_projects),
        ]

    def list_requests(self, query: dict[str, str], body: Json) -> Answer:
        """ "List project merge requests" (merge_requests): by ``source_branch``, also of forks' branches."""
        wanted = query.get("source_branch")
        states = {"opened": "open"}.get(query.get("state", ""), query.get("state", "all"))
        here = [p for p in self.pulls if wanted in (None, p["head"]) and states in ("all", p["state"])]
        fork = {"iid": 900, "source_project_id": 1, "target_project_id": _NUMBER, "source_branch": wanted}
        return 200, [fork, *(self._shown(p) for p in here)]

    def create_request(self, query: dict[str, str], body: Json) -> Answer:
        """ "Create a merge request" (merge_requests): 201; 409 where the branch has an open one (wording as
        reported by users); 400 where the source branch is missing."""
        head = body["source_branch"]
        if not self.branch(head):
            raise Refused(400, {"message": {"source_branch": ["does not exist"]}})
        if there := [p for p in self.pulls if (p["head"], p["state"]) == (head, "open")]:
            said = f"Another open merge request already exists for this source branch: !{there[0]['number']}"
            raise Refused(409, {"message": [said]})
        title = body["title"]
        made = self.made(
            title=title.removeprefix(_DRAFT),
            head=head,
            base=body["target_branch"],
            body=body["description"],
            draft=title.startswith(_DRAFT),
        )
        return 201, self._shown(made)

    def _shown(self, pull: Json) -> Json:
        return {
            "iid": pull["number"], "id": 90_000 + pull["number"], "web_url": pull["url"],
            "title": f"{_DRAFT if pull['draft'] else ''}{pull['title']}", "draft": pull["draft"],
            "description": pull["body"], "labels": pull["labels"], "sha": self.head_of(pull),
            "state": "opened" if pull["state"] == "open" else pull["state"],
            "source_branch": pull["head"], "target_branch": pull["base"],
            "source_project_id": _NUMBER, "target_project_id": _NUMBER,
            "reviewers": [{"username": name} for name in pull["asked"]],
        }  # fmt: skip

    def get_request(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Get single merge request" (merge_requests)."""
        return 200, self._shown(self.pull(number))

    def update_request(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Update a merge request" (merge_requests): ``add_labels`` has commas; ``state_event``."""
        pull = self.pull(number)
        pull["labels"] += [name for name in body.get("add_labels", "").split(",") if name]
        if body.get("state_event") == "close":
            pull["state"] = "closed"
        return 200, self._shown(pull)

    def approvals(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Get approvals" of a single merge request (merge_request_approvals)."""
        said = self.last_words(int(number))
        by = [{"user": {"username": name}} for name, (verdict, _) in said.items() if verdict == "approved"]
        return 200, {"approved": bool(by), "approved_by": by}

    def reviewers(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Get single merge request reviewers" (merge_requests): each with the state of their review."""
        states = {"approved": "approved", "changes": "requested_changes", "taken back": "unapproved"}
        said = {name: states[verdict] for name, (verdict, _) in self.last_words(int(number)).items()}
        asked = dict.fromkeys(self.pull(number)["asked"], "unreviewed")
        return 200, [{"user": {"username": n}, "state": s} for n, s in {**asked, **said}.items()]

    def list_notes(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "List all merge request notes" (notes): those of people, and those of GitLab itself."""
        said = [
            (by, words) for by, verdict, words in self.reviews.get(int(number), []) if verdict == "changes"
        ]
        notes = [{"author": {"username": by}, "body": words, "system": False} for by, words in said]
        own = {"author": {"username": "rita"}, "body": "requested changes", "system": True}
        return 200, [own, *notes]

    def add_note(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Create new merge request note" (notes): 201."""
        self.comments.setdefault(int(number), []).append(body["body"])
        return 201, {"id": 1, "body": body["body"]}

    def list_statuses(self, query: dict[str, str], body: Json) -> Answer:
        """ "List commit statuses" (commits): jobs and checks from outside; a job may be allowed to fail."""
        states = {"passed": "success", "skipped": "skipped", "failed": "failed", "pending": "running"}
        found = [
            {"name": name, "status": states[word], "description": words, "allow_failure": False}
            for name, word, words in self.checks
        ]
        if found:
            found.append({"name": "lint", "status": "failed", "description": None, "allow_failure": True})
            found.append({"name": "deploy", "status": "manual", "description": None, "allow_failure": True})
        return 200, found

    def push_rule(self, query: dict[str, str], body: Json) -> Answer:
        """ "Get push rules of a project" (project_push_rules): Premium; 404 where there are none."""
        if self.signing is None:
            raise Refused(404, {"message": "404 Not Found"})
        return 200, {"id": 1, "reject_unsigned_commits": True}

    def list_projects(self, query: dict[str, str], body: Json) -> Answer:
        """ "List all projects in a group" (groups): of subgroups where they are asked for; archived too."""
        deep = query.get("include_subgroups") == "true"
        rows = [
            {
                "id": one["id"], "path_with_namespace": one["path"], "archived": one["archived"],
                "http_url_to_repo": f"https://gitlab.com/{one['path']}.git", "default_branch": one["branch"],
            }
            for one in self.repositories if deep or one["path"].count("/") == 1
        ]  # fmt: skip
        return self.paged(rows, "/groups/acme/projects", query)
