"""A GitHub on 127.0.0.1: the REST API over real HTTP, the branches in a real bare repository beside it.

Every handler names the page of docs.github.com that its answer was written from, in the edition for API
version 2022-11-28; the server refuses calls that name another. It was never compared with the real one.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import unquote

import jwt

from tests.forges.serving import PROJECT, Answer, FakeForge, Json, Refused, Route

API_VERSION = "2022-11-28"
_STATES = {
    "approved": "APPROVED",
    "changes": "CHANGES_REQUESTED",
    "comment": "COMMENTED",
    "taken back": "DISMISSED",
}
_HERE = f"/repos/{PROJECT}"


def refused(status: int, message: str, *errors: Json) -> Refused:
    """ "Troubleshooting the REST API" (rest/using-the-rest-api)."""
    body: Json = {"message": message, "documentation_url": "https://docs.github.com/rest"}
    return Refused(status, {**body, "errors": list(errors)} if errors else body)


class FakeGitHub(FakeForge):
    """The forge; ``app`` is an app's id and public key."""

    name = "github"
    opening, labels, lookup, one = "/pulls", "/labels", "/pulls", r"/pulls/\d+"
    looks = ("/pulls", "/rules/branches/main", "/required_signatures")
    ways = ("a ruleset over the head", "a ruleset over the base", "classic protection of the base")
    denied = "Bad credentials"
    #: "Rate limits for the REST API": the secondary limit.
    limited: ClassVar[Answer] = (
        403, {"message": "You have exceeded a secondary rate limit."}, {"Retry-After": "60"},
    )  # fmt: skip
    app: tuple[str, str] | None = None

    def before(self, method: str, path: str, headers: Any, body: Json) -> Answer | None:
        """The version of the API, and what an app may ask."""
        if headers.get("X-GitHub-Api-Version") != API_VERSION:
            raise refused(400, "The API version that was asked for is not supported.")
        if path in (f"{_HERE}/installation", "/orgs/acme/installation"):
            return self.installation(headers)
        if method == "POST" and path == "/app/installations/77/access_tokens":
            return self.access_tokens(headers, body)
        return None

    def installation(self, headers: Any) -> Answer:
        """ "Get a repository installation for the authenticated app", "Get an organization installation for
        the authenticated app" (rest/apps/apps)."""
        self._check_app(headers)
        return 200, {"id": 77, "app_id": 1}

    def access_tokens(self, headers: Any, body: Json) -> Answer:
        """ "Create an installation access token for an app" (rest/apps/apps): 201, for one hour, for the
        repositories that are named, or for all; its length is not fixed."""
        self._check_app(headers)
        if body.get("repositories", ["clock"]) != ["clock"]:
            raise refused(422, "There is at least one repository that does not exist or is not accessible.")
        token = f"ghs_{len(self.tokens)}"
        self.tokens.add(token)
        return 201, {"token": token, "expires_at": "2026-07-03T11:20:30Z", "permissions": {}}

    def _check_app(self, headers: Any) -> None:
        """ "Generating a JSON Web Token (JWT) for a GitHub App": RS256, iss, at most ten minutes."""
        app_id, key = self.app or ("", "")
        try:
            claims = jwt.decode(self.login(headers), key, algorithms=["RS256"], issuer=app_id)
        except jwt.PyJWTError as error:
            raise refused(401, "A JSON web token could not be decoded") from error
        if claims["exp"] - claims["iat"] > 600:
            raise refused(401, "'Expiration time' claim ('exp') is too far in the future")

    def routes(self) -> list[Route]:
        """Those that the product calls."""
        return [
            ("GET", f"{_HERE}/pulls", self.list_pulls),
            ("POST", f"{_HERE}/pulls", self.create_pull),
            ("GET", rf"{_HERE}/pulls/(\d+)", self.get_pull),
            ("PATCH", rf"{_HERE}/pulls/(\d+)", self.update_pull),
            ("GET", rf"{_HERE}/pulls/(\d+)/reviews", self.list_reviews),
            ("POST", rf"{_HERE}/issues/(\d+)/labels", self.add_labels),
            ("POST", rf"{_HERE}/issues/(\d+)/comments", self.add_comment),
            ("GET", rf"{_HERE}/commits/\w+/check-runs", self.list_check_runs),
            ("GET", rf"{_HERE}/commits/\w+/status", self.combined_status),
            ("GET", rf"{_HERE}/branches/(.+)/protection/required_signatures", self.signature_protection),
            ("GET", rf"{_HERE}/rules/branches/(.+)", self.branch_rules),
            ("GET", r"/orgs/acme/repos", self.list_repositories),
        ]

    def list_pulls(self, query: dict[str, str], body: Json) -> Answer:
        """ "List pull requests" (rest/pulls/pulls): ``head`` is ``user:branch``."""
        owner, _, branch = query.get("head", "").partition(":")
        here = [p for p in self.pulls if not branch or (owner == "acme" and p["head"] == branch)]
        if query.get("state") != "all":
            here = [p for p in here if p["state"] == "open"]
        return 200, [self._shown(p) for p in here]

    def create_pull(self, query: dict[str, str], body: Json) -> Answer:
        """ "Create a pull request" (rest/pulls/pulls): 201; 422 where the head is missing, or has one already
        (wording as reported by users; the page says only "Validation failed")."""
        head, base = body["head"], body["base"]
        if not self.branch(head):
            error = {"resource": "PullRequest", "field": "head", "code": "invalid"}
            raise refused(422, "Validation Failed", error)
        if self.branch(head) == self.branch(base):
            raise refused(422, "Validation Failed", {"message": f"No commits between {base} and {head}"})
        if [p for p in self.pulls if (p["head"], p["state"]) == (head, "open")]:
            there = {"message": f"A pull request already exists for acme:{head}."}
            raise refused(422, "Validation Failed", there)
        if len(body["body"]) > 65_536:
            raise refused(422, "Validation Failed", {"message": "body is too long"})
        fields = {name: body[name] for name in ("title", "head", "base", "body", "draft")}
        return 201, self._shown(self.made(**fields))

    def _shown(self, pull: Json) -> Json:
        return {
            "number": pull["number"], "html_url": pull["url"], "title": pull["title"], "body": pull["body"],
            "state": "open" if pull["state"] == "open" else "closed", "merged": pull["state"] == "merged",
            "draft": pull["draft"], "labels": [{"name": name} for name in pull["labels"]],
            "head": {"ref": pull["head"], "sha": self.head_of(pull)}, "base": {"ref": pull["base"]},
            "requested_reviewers": [{"login": name} for name in pull["asked"]],
        }  # fmt: skip

    def get_pull(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Get a pull request" (rest/pulls/pulls)."""
        return 200, self._shown(self.pull(number))

    def update_pull(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Update a pull request" (rest/pulls/pulls)."""
        pull = self.pull(number)
        pull.update({name: body[name] for name in ("title", "body", "state") if name in body})
        return 200, self._shown(pull)

    def add_labels(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Add labels to an issue" (rest/issues/labels): 200 with all labels."""
        pull = self.pull(number)
        pull["labels"] += body["labels"]
        return 200, self._shown(pull)["labels"]

    def add_comment(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "Create an issue comment" (rest/issues/comments): 201."""
        self.comments.setdefault(int(number), []).append(body["body"])
        return 201, {"id": 1, "body": body["body"]}

    def list_reviews(self, number: str, query: dict[str, str], body: Json) -> Answer:
        """ "List reviews for a pull request" (rest/pulls/reviews): in chronological order."""
        said = self.reviews.get(int(number), [])
        return 200, [{"user": {"login": by}, "state": _STATES[what], "body": text} for by, what, text in said]

    def list_check_runs(self, query: dict[str, str], body: Json) -> Answer:
        """ "List check runs for a Git reference" (rest/checks/runs); those whose names begin with "job"."""
        ends = {"passed": "success", "skipped": "skipped", "failed": "failure", "pending": None}
        runs = [
            {
                "name": name, "status": "in_progress" if word == "pending" else "completed",
                "conclusion": ends[word], "output": {"title": words, "summary": ""},
            }
            for name, word, words in self.checks if name.startswith("job")
        ]  # fmt: skip
        return 200, {"total_count": len(runs), "check_runs": runs}

    def combined_status(self, query: dict[str, str], body: Json) -> Answer:
        """ "Get the combined status for a specific reference" (rest/commits/statuses)."""
        states = {"passed": "success", "skipped": "success", "failed": "error", "pending": "pending"}
        found = [
            {"state": states[word], "context": name, "description": words}
            for name, word, words in self.checks if not name.startswith("job")
        ]  # fmt: skip
        return 200, {"state": "pending", "statuses": found}

    def branch_rules(self, branch: str, query: dict[str, str], body: Json) -> Answer:
        """ "Get rules for a branch" (rest/repos/rules): also of a branch that does not exist yet."""
        way, where = self.signing or ("", "")
        asked = way.startswith("a ruleset") and where == unquote(branch)
        return 200, [{"type": "required_signatures"}] if asked else []

    def signature_protection(self, branch: str, query: dict[str, str], body: Json) -> Answer:
        """ "Get commit signature protection" (rest/branches/branch-protection): 404 where unprotected."""
        if self.signing != ("classic protection of the base", unquote(branch)):
            raise refused(404, "Branch not protected")
        return 200, {"url": "https://api.github.com/", "enabled": True}

    def list_repositories(self, query: dict[str, str], body: Json) -> Answer:
        """ "List organization repositories" (rest/repos/repos): archived ones too."""
        rows = [
            {
                "id": one["id"], "full_name": one["path"], "archived": one["archived"],
                "clone_url": f"https://github.com/{one['path']}.git", "default_branch": one["branch"],
            }
            for one in self.repositories
        ]  # fmt: skip
        return self.paged(rows, "/orgs/acme/repos", query)
