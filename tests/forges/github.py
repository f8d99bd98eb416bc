"""A GitHub on 127.0.0.1: the REST API over real HTTP, the branches in a real bare repository beside it.

Every handler names the page of docs.github.com that its answer was written from, in the edition for API
version 2022-11-28; the server refuses calls that name another. It was never compared with the real one.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import jwt

from tests.forges.faults import Fault, Planned

Json = dict[str, Any]
API_VERSION = "2022-11-28"
TOKEN = "a-token-of-tests"
PROJECT = "acme/clock"


class Refused(Exception):  # noqa: N818  named by what happened
    def __init__(self, status: int, message: str, *errors: Json, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.body: Json = {"message": message, "documentation_url": "https://docs.github.com/rest"}
        if errors:
            self.body["errors"] = list(errors)


class FakeGitHub:
    """The state behind the server; tests look at it and change it as people at GitHub would."""

    name = "github"

    def __init__(self, bare: Path) -> None:
        self.bare, self.pulls, self.planned = bare, [], []
        self.calls: list[tuple[str, str]] = []
        self.reviews: dict[int, list[Json]] = {}
        self.comments: dict[int, list[str]] = {}
        self.check_runs: list[Json] = []
        self.statuses: list[Json] = []
        self.rules: dict[str, list[str]] = {}
        self.signed: set[str] = set()  #: branches that classic protection lets signed commits into alone
        self.tokens = {TOKEN}
        self.app: tuple[str, str] | None = None  #: its id and public key
        self.late: list[Callable[[], Any]] = []
        self.lock = threading.RLock()
        self.server = _Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    pulls: list[Json]
    planned: list[Planned]

    def plan(self, method: str, path: str, fault: Fault, times: int = 1) -> None:
        """Let the next calls of this kind fail."""
        self.planned.append(Planned(method, path, fault, times))

    def credentials(self, **more: str) -> str:
        """The table of REPOSITORY_CREDENTIALS with which the product finds this server."""
        fields = {"api_url": self.url, "project": PROJECT, **more}
        if "app_id" not in more:
            fields["token"] = TOKEN
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())

    def branch(self, name: str) -> str:
        """The commit of a branch in the bare repository, or ""; git's own files, no process."""
        ref = f"refs/heads/{name}"
        with suppress(OSError):
            return (self.bare / ref).read_text().strip()
        packed = self.bare / "packed-refs"
        rows = (row.split(" ") for row in packed.read_text().splitlines()) if packed.exists() else ()
        return next((row[0] for row in rows if row[1:] == [ref]), "")

    def open_by_somebody(self, branch: str, body: str = "by hand") -> None:
        """A pull request that this product's process did not open."""
        self._made({"title": "Mine", "head": branch, "base": "main", "body": body})

    def end(self, number: int, *, merged: bool) -> None:
        """Somebody merges or closes it."""
        self.pulls[number - 1].update(state="closed", merged=merged)

    def reviewed(self, number: int, state: str, text: str = "", by: str = "rita") -> None:
        """A review as it stands in the list."""
        self.reviews.setdefault(number, []).append({"user": {"login": by}, "state": state, "body": text})

    # --- the API ----------------------------------------------------------------------------------

    def installation(self, login: str) -> tuple[int, Json]:
        """ "Get a repository installation for the authenticated app" (rest/apps/apps)."""
        self._check_app(login)
        return 200, {"id": 77, "app_id": 1}

    def access_tokens(self, login: str, body: Json) -> tuple[int, Json]:
        """ "Create an installation access token for an app" (rest/apps/apps): 201, for one hour, for the
        repositories that are named; its length is not fixed."""
        self._check_app(login)
        if body.get("repositories") != [PROJECT.partition("/")[2]]:
            raise Refused(422, "There is at least one repository that does not exist or is not accessible.")
        token = f"ghs_{len(self.tokens)}"
        self.tokens.add(token)
        return 201, {"token": token, "expires_at": "2026-07-03T11:20:30Z", "permissions": {}}

    def _check_app(self, login: str) -> None:
        """ "Generating a JSON Web Token (JWT) for a GitHub App": RS256, iss, at most ten minutes."""
        app_id, key = self.app or ("", "")
        try:
            claims = jwt.decode(login, key, algorithms=["RS256"], issuer=app_id)
        except jwt.PyJWTError as error:
            raise Refused(401, "A JSON web token could not be decoded") from error
        if claims["exp"] - claims["iat"] > 600:
            raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")

    def list_pulls(self, query: dict[str, str]) -> tuple[int, list[Json]]:
        """ "List pull requests" (rest/pulls/pulls): ``head`` is ``user:branch``."""
        owner, _, branch = query.get("head", "").partition(":")
        states = ("open", "closed") if query.get("state") == "all" else (query.get("state", "open"),)
        here = [p for p in self.pulls if not branch or (owner == "acme" and p["head"]["ref"] == branch)]
        return 200, [self._shown(p) for p in here if p["state"] in states]

    def create_pull(self, body: Json) -> tuple[int, Json]:
        """ "Create a pull request" (rest/pulls/pulls): 201; 422 where the head is missing, or has one already
        (wording as reported by users; the page says only "Validation failed")."""
        head, base = body["head"], body["base"]
        error = {"resource": "PullRequest", "field": "head", "code": "invalid"}
        if not self.branch(head):
            raise Refused(422, "Validation Failed", error)
        if self.branch(head) == self.branch(base):
            raise Refused(422, "Validation Failed", {"message": f"No commits between {base} and {head}"})
        if [p for p in self.pulls if (p["head"]["ref"], p["state"]) == (head, "open")]:
            there = {"message": f"A pull request already exists for acme:{head}."}
            raise Refused(422, "Validation Failed", there)
        if len(body["body"]) > 65_536:
            raise Refused(422, "Validation Failed", {"message": "body is too long"})
        return 201, self._shown(self._made(body))

    def _made(self, body: Json) -> Json:
        pull = {
            "number": len(self.pulls) + 1, "state": "open", "merged": False, "labels": [],
            "title": body["title"], "body": body["body"], "draft": bool(body.get("draft")),
            "head": {"ref": body["head"]}, "base": {"ref": body["base"]}, "requested_reviewers": [],
        }  # fmt: skip
        pull["html_url"] = f"https://github.com/{PROJECT}/pull/{pull['number']}"
        self.pulls.append(pull)
        return pull

    def _shown(self, pull: Json) -> Json:
        # Where the branch is gone, GitHub goes on to show the commit that it had.
        sha = self.branch(pull["head"]["ref"]) or pull["head"].get("sha", "")
        pull["head"]["sha"] = sha
        return pull

    def get_pull(self, number: int) -> tuple[int, Json]:
        """ "Get a pull request" (rest/pulls/pulls)."""
        return 200, self._shown(self._pull(number))

    def update_pull(self, number: int, body: Json) -> tuple[int, Json]:
        """ "Update a pull request" (rest/pulls/pulls)."""
        pull = self._pull(number)
        pull.update({name: body[name] for name in ("title", "body", "state") if name in body})
        return 200, self._shown(pull)

    def _pull(self, number: int) -> Json:
        if not 0 < number <= len(self.pulls):
            raise Refused(404, "Not Found")
        return self.pulls[number - 1]

    def add_labels(self, number: int, body: Json) -> tuple[int, list[Json]]:
        """ "Add labels to an issue" (rest/issues/labels): 200 with all labels."""
        pull = self._pull(number)
        pull["labels"] += [{"name": name} for name in body["labels"]]
        return 200, pull["labels"]

    def add_comment(self, number: int, body: Json) -> tuple[int, Json]:
        """ "Create an issue comment" (rest/issues/comments): 201."""
        self.comments.setdefault(number, []).append(body["body"])
        return 201, {"id": 1, "body": body["body"]}

    def list_reviews(self, number: int) -> tuple[int, list[Json]]:
        """ "List reviews for a pull request" (rest/pulls/reviews): in chronological order."""
        return 200, self.reviews.get(number, [])

    def list_check_runs(self, sha: str) -> tuple[int, Json]:
        """ "List check runs for a Git reference" (rest/checks/runs)."""
        return 200, {"total_count": len(self.check_runs), "check_runs": self.check_runs}

    def combined_status(self, sha: str) -> tuple[int, Json]:
        """ "Get the combined status for a specific reference" (rest/commits/statuses)."""
        return 200, {"state": "pending", "statuses": self.statuses}

    def branch_rules(self, branch: str) -> tuple[int, list[Json]]:
        """ "Get rules for a branch" (rest/repos/rules): also of a branch that does not exist yet."""
        return 200, [{"type": rule} for rule in self.rules.get(branch, [])]

    def signature_protection(self, branch: str) -> tuple[int, Json]:
        """ "Get commit signature protection" (rest/branches/branch-protection): 404 where unprotected."""
        if branch not in self.signed:
            raise Refused(404, "Branch not protected")
        return 200, {"url": "https://api.github.com/", "enabled": True}

    def answer(self, method: str, target: str, login: str, body: Json) -> tuple[int, Any]:
        """The answer of one call."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = _APP.fullmatch(parts.path)
        if found and method == "POST":
            return self.access_tokens(login, body)
        if parts.path == f"/repos/{PROJECT}/installation":
            return self.installation(login)
        if login not in self.tokens:
            raise Refused(401, "Bad credentials")
        path = parts.path.removeprefix(f"/repos/{PROJECT}")
        for verb, pattern, handler in _ROUTES:
            if verb == method and (match := re.fullmatch(pattern, path)):
                return handler(self, match[1] if match.groups() else "", query, body)
        raise Refused(404, "Not Found")


_APP = re.compile(r"/app/installations/77/access_tokens")
_ROUTES: list[tuple[str, str, Callable[[FakeGitHub, str, dict[str, str], Json], tuple[int, Any]]]] = [
    ("GET", r"/pulls", lambda s, _, query, body: s.list_pulls(query)),
    ("POST", r"/pulls", lambda s, _, query, body: s.create_pull(body)),
    ("GET", r"/pulls/(\d+)", lambda s, n, query, body: s.get_pull(int(n))),
    ("PATCH", r"/pulls/(\d+)", lambda s, n, query, body: s.update_pull(int(n), body)),
    ("GET", r"/pulls/(\d+)/reviews", lambda s, n, query, body: s.list_reviews(int(n))),
    ("POST", r"/issues/(\d+)/labels", lambda s, n, query, body: s.add_labels(int(n), body)),
    ("POST", r"/issues/(\d+)/comments", lambda s, n, query, body: s.add_comment(int(n), body)),
    ("GET", r"/commits/(\w+)/check-runs", lambda s, sha, query, body: s.list_check_runs(sha)),
    ("GET", r"/commits/(\w+)/status", lambda s, sha, query, body: s.combined_status(sha)),
    (
        "GET",
        r"/branches/(.+)/protection/required_signatures",
        lambda s, branch, query, body: s.signature_protection(unquote(branch)),
    ),
    ("GET", r"/rules/branches/(.+)", lambda s, branch, query, body: s.branch_rules(unquote(branch))),
]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, forge: FakeGitHub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.forge = forge


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._call("GET")

    def do_POST(self) -> None:
        self._call("POST")

    def do_PATCH(self) -> None:
        self._call("PATCH")

    def _call(self, method: str) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = urlsplit(self.path).path
        with self.server.forge.lock:
            self.server.forge.calls.append((method, path))
            fault = self._fault(method, path)
            self._broken(fault, method, body) if fault else self._answer(*self._done(method, body))

    def _fault(self, method: str, path: str) -> Fault | None:
        for planned in self.server.forge.planned:
            if planned.method == method and path.endswith(planned.path) and planned.times > 0:
                planned.times -= 1
                return planned.fault
        return None

    def _done(self, method: str, body: Json) -> tuple[int, Any, dict[str, str]]:
        forge = self.server.forge
        if self.headers.get("X-GitHub-Api-Version") != API_VERSION:
            return 400, {"message": "The API version that was asked for is not supported."}, {}
        login = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        try:
            status, document = forge.answer(method, self.path, login, body)
        except Refused as refused:
            return refused.status, refused.body, refused.headers
        # What was made late is there only from the second look on: the first came too early.
        if method == "GET" and forge.late and self.path.startswith(f"/repos/{PROJECT}/pulls?"):
            for make in forge.late[:]:
                make()
            forge.late.clear()
        return status, document, {}

    def _broken(self, fault: Fault, method: str, body: Json) -> None:
        """ "Troubleshooting the REST API" and "Rate limits for the REST API" (rest/using-the-rest-api)."""
        if fault is Fault.LATE:
            self.server.forge.late.append(lambda: self._done(method, body))
        elif fault not in (Fault.REFUSED_CONNECTION, Fault.ERROR_BEFORE, Fault.RATE_LIMITED):
            self._done(method, body)
        if fault in (Fault.REFUSED_CONNECTION, Fault.LOST_ANSWER, Fault.LATE):
            self.close_connection = True
            self.connection.close()
        elif fault is Fault.RATE_LIMITED:
            document = {"message": "You have exceeded a secondary rate limit."}
            self._answer(403, document, {"Retry-After": "60"})
        elif fault is Fault.TWICE:
            self._answer(*self._done(method, body))
        elif fault is Fault.HTML_AFTER:
            self._answer(200, "<html>", {"Content-Type": "text/html"})
        else:
            self._answer(502, {"message": "Server Error"}, {})

    def _answer(self, status: int, document: Any, headers: dict[str, str]) -> None:
        data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(ConnectionError):  # the caller did not wait for it
            self.wfile.write(data)


@contextmanager
def serving(bare: Path) -> Iterator[FakeGitHub]:
    """A fake GitHub whose branches are those of ``bare``."""
    forge = FakeGitHub(bare)
    thread = threading.Thread(target=forge.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        forge.server.shutdown()
        forge.server.server_close()
        thread.join()
