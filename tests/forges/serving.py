"""What the fake forges have in common: pull requests and repositories as people see them, and a server on
127.0.0.1 that fails as it is told. Each forge writes down how its own API shows them, and cites its pages.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.forges.faults import Fault, Planned

Json = dict[str, Any]
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]
Route = tuple[str, str, Callable[..., Answer]]
TOKEN = "a-token-of-tests"
PROJECT = "acme/clock"


class Refused(Exception):  # noqa: N818  named by what happened
    def __init__(self, status: int, body: Any, **headers: str) -> None:
        super().__init__(str(body))
        self.status, self.body, self.headers = status, body, headers


class FakeForge:
    """The state behind the server; tests look at it and change it as people at the forge would.

    A pull request is ``{number, title, body, head, base, draft, state, labels, asked, url}``, its state
    "open", "merged" or "closed"; a repository ``{id, path, branch, archived}``.
    """

    name: ClassVar[str]
    #: Parts of paths by what they are for: opening, labels, looking one up, and one itself.
    opening: ClassVar[str]
    labels: ClassVar[str]
    lookup: ClassVar[str]
    one: ClassVar[str]
    #: What is asked before anything is made, and the ways in which signatures can be asked for.
    looks: ClassVar[tuple[str, ...]]
    ways: ClassVar[tuple[str, ...]]
    denied: ClassVar[str]  #: what it says to a token that it does not take
    label_verb: ClassVar[str] = "POST"
    page_size: ClassVar[str] = "per_page"
    limited: ClassVar[Answer] = (429, {"message": "429 Too Many Requests"}, {"Retry-After": "60"})

    def __init__(self, bare: Path) -> None:
        self.bare = bare
        self.pulls: list[Json] = []
        self.planned: list[Planned] = []
        self.calls: list[tuple[str, str]] = []
        self.reviews: dict[int, list[tuple[str, str, str]]] = {}  #: (who, verdict, words)
        self.comments: dict[int, list[str]] = {}
        self.checks: list[tuple[str, str, str]] = []  #: (name, word, words)
        self.repositories: list[Json] = []
        self.signing: tuple[str, str] | None = None  #: a way of ``ways``, and the branch
        self.tokens = {TOKEN}
        self.late: list[Callable[[], Any]] = []
        self.lock = threading.RLock()
        self.server = _Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def routes(self) -> list[Route]:
        """(method, path below the project or from the root, handler(*parts, query, body))."""
        raise NotImplementedError

    def login(self, headers: Any) -> str:
        """The token of a call."""
        return str(headers.get("Authorization") or "").removeprefix("Bearer ")

    def root(self) -> str:
        """The path that the project's calls are below."""
        return f"/repos/{PROJECT}"

    def before(self, method: str, path: str, headers: Any, body: Json) -> Answer | None:
        """What is answered before the token is looked at."""
        return None

    # --- as people see it -------------------------------------------------------------------------

    def plan(self, method: str, path: str, fault: Fault, times: int = 1) -> None:
        """Let the next calls fail whose path has this part at its end."""
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
        self.made(title="Mine", head=branch, base="main", body=body)

    def end(self, number: int, *, merged: bool) -> None:
        """Somebody merges or closes it."""
        self.pulls[number - 1]["state"] = "merged" if merged else "closed"

    def ask(self, number: int, name: str) -> None:
        """Somebody's review is requested."""
        self.pulls[number - 1]["asked"].append(name)

    def review(self, number: int, verdict: str, words: str = "", by: str = "rita") -> None:
        """``approved``, ``changes``, ``comment`` or ``taken back``, in the order of time."""
        self.reviews.setdefault(number, []).append((by, verdict, words))

    def last_words(self, number: int) -> dict[str, tuple[str, str]]:
        """Each reviewer's last decision."""
        said = self.reviews.get(number, [])
        return {by: (verdict, words) for by, verdict, words in said if verdict != "comment"}

    def made(self, *, title: str, head: str, base: str, body: str, draft: bool = False) -> Json:
        """A new pull request."""
        number = len(self.pulls) + 1
        pull: Json = {
            "number": number, "title": title, "head": head, "base": base, "body": body, "draft": draft,
            "state": "open", "labels": [], "asked": [], "url": f"https://forge.example/{PROJECT}/{number}",
        }  # fmt: skip
        self.pulls.append(pull)
        return pull

    def head_of(self, pull: Json) -> str:
        """Its commit. Where the branch is gone, a forge goes on to show the one that it had."""
        pull["sha"] = self.branch(pull["head"]) or pull.get("sha", "")
        return str(pull["sha"])

    def pull(self, number: int | str) -> Json:
        """One of them, or 404."""
        if not 0 < int(number) <= len(self.pulls):
            raise Refused(404, {"message": "Not Found"})
        return self.pulls[int(number) - 1]

    def paged(self, rows: list[Any], path: str, query: dict[str, str]) -> Answer:
        """One page, with a Link to the next where there is one."""
        size, page = int(query.get(self.page_size, "30")), int(query.get("page", "1"))
        more = len(rows) > size * page
        after = urlencode({**query, "page": page + 1})
        link = {"Link": f'<{self.url}{path}?{after}>; rel="next"'} if more else {}
        return 200, rows[size * (page - 1) : size * page], link

    # --- one call ---------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Any, body: Json) -> Answer:
        """What is answered; ``Refused`` for a no."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if answered := self.before(method, parts.path, headers, body):
            return answered
        if self.login(headers) not in self.tokens:
            raise Refused(401, {"message": self.denied})
        for verb, pattern, handler in self.routes():
            if verb == method and (match := re.fullmatch(pattern, parts.path)):
                return handler(*match.groups(), query=query, body=body)
        raise Refused(404, {"message": "Not Found"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, forge: FakeForge) -> None:
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

    def do_PUT(self) -> None:
        self._call("PUT")

    def _call(self, method: str) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = urlsplit(self.path).path
        with self.server.forge.lock:
            self.server.forge.calls.append((method, path))
            fault = self._fault(method, path)
            if fault:
                self._broken(fault, method, body)
            else:
                self._answer(*self._done(method, body))

    def _fault(self, method: str, path: str) -> Fault | None:
        for planned in self.server.forge.planned:
            fits = planned.method == method and re.search(f"{planned.path}$", path)
            if fits and planned.times > 0:
                planned.times -= 1
                return planned.fault
        return None

    def _done(self, method: str, body: Json) -> tuple[int, Any, dict[str, str]]:
        forge = self.server.forge
        try:
            status, document, *headers = forge.answer(method, self.path, self.headers, body)
            answer = status, document, headers[0] if headers else {}
        except Refused as refused:
            answer = refused.status, refused.body, refused.headers
        # What was made late is there only from the second look on: the first came too early.
        if method == "GET" and forge.late and re.search(f"{forge.lookup}$", urlsplit(self.path).path):
            for make in forge.late[:]:
                make()
            forge.late.clear()
        return answer

    def _broken(self, fault: Fault, method: str, body: Json) -> None:
        forge = self.server.forge
        if fault is Fault.LATE:
            forge.late.append(lambda: self._done(method, body))
        elif fault not in (Fault.REFUSED_CONNECTION, Fault.ERROR_BEFORE, Fault.RATE_LIMITED):
            self._done(method, body)
        if fault in (Fault.REFUSED_CONNECTION, Fault.LOST_ANSWER, Fault.LATE):
            self.close_connection = True
            self.connection.close()
        elif fault is Fault.RATE_LIMITED:
            status, document, *headers = forge.limited
            self._answer(status, document, headers[0] if headers else {})
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
def serving(kind: type[FakeForge], bare: Path) -> Iterator[Any]:
    """A fake forge whose branches are those of ``bare``."""
    forge = kind(bare)
    thread = threading.Thread(target=forge.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        forge.server.shutdown()
        forge.server.server_close()
        thread.join()
