"""The HTTP side of the stand-in: headers, routes, broken calls."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from worker.conformance.stand_in import StandIn

Json = dict[str, Any]


class Problem(Exception):  # noqa: N818  named by what happened
    """A refusal: its status and its problem document."""

    def __init__(self, status: int, code: str, **more: Any) -> None:
        super().__init__(code)
        self.status = status
        self.document = {"status": status, "code": code, "title": code, **more}


def _event_of(body: bytes) -> str:
    try:
        return str(json.loads(body).get("type") or "")
    except (ValueError, AttributeError):
        return ""


class Server(ThreadingHTTPServer):
    """Serves one stand-in on a free port of 127.0.0.1."""

    daemon_threads = True

    def __init__(self, plane: StandIn) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plane = plane


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def plane(self) -> StandIn:
        return self.server.plane

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.handle_call("GET")

    def do_POST(self) -> None:
        self.handle_call("POST")

    def handle_call(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path.removeprefix("/api/v1/")
        with self.plane.changed:
            self.plane.calls.append((method, path, dict(self.headers)))
            broken = self.plane.break_call(method, path)
            if broken == "away":
                self.answer(503, {"code": "unavailable"}, retry_after="0")
                return
            try:
                status, document = self.route(method, path, body)
            except Problem as problem:
                status, document = problem.status, problem.document
                self.plane.refusals.append(
                    (str(document["code"]), f"{method} {path} {_event_of(body)}".strip())
                )
            self.plane.changed.notify_all()
            if broken == "lose":
                self.close_connection = True
                self.connection.close()
                return
        self.answer(status, document)

    def route(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if self.headers.get("Authorization") != f"Bearer {self.plane.token}":
            raise Problem(401, "not_authenticated")
        if path == "leases":
            self.check_roles(json.loads(body).get("roles", []))
            claimed = self.plane.claim(self.headers["Idempotency-Key"])
            return (201, claimed) if claimed else (204, None)
        if path.startswith("artifacts/"):
            return 200, self.plane.artifacts[path.removeprefix("artifacts/")][1]
        call = path.removeprefix("runs/run_1/")
        if method == "GET":
            return 200, self.read(call)
        if call in ("events", "events/batch"):
            return self.take_events(body)
        self.plane.check_lease(self.headers.get("Lease-Token"))
        return self.write(call, body)

    def check_roles(self, asked: list[str]) -> None:
        missing = [role for role in asked if role not in self.plane.roles]
        if missing:
            raise Problem(403, "actor_not_allowed", required_roles=missing)

    def read(self, call: str) -> Any:
        if call == "resume":
            return self.plane.resume()
        if call == "steps":
            return {"results": self.plane.state.steps, "next": None}
        if call == "artifacts":
            listed = [
                {"kind": kind, **self.plane.reference(artifact_id)}
                for artifact_id, (kind, _) in self.plane.artifacts.items()
            ]
            return {"results": listed, "next": None}
        raise Problem(404, "not_found")

    def write(self, call: str, body: bytes) -> tuple[int, Any]:
        if call == "heartbeat":
            self.plane.heartbeats += 1
            self.plane.beaten_at.append(time.monotonic())
            return 200, {"directive": self.plane.state.directive, "expires_at": "later"}
        if call == "release":
            self.plane.released.append(json.loads(body)["reason"])
            self.plane.lease_token = None
            return 200, {}
        if call == "artifacts":
            return self.take_artifact(body)
        if call == "logs":
            return self.take_log(body)
        raise Problem(404, "not_found")

    def take_events(self, body: bytes) -> tuple[int, Any]:
        """One event or a batch. A repeat is answered from the log, before today's lease is looked at."""
        document = json.loads(body)
        events = document.get("events") or [{**document, "key": self.headers["Idempotency-Key"]}]
        if not all(self.plane.is_known(item["key"]) for item in events):
            self.plane.check_lease(self.headers.get("Lease-Token"))
        answer: Json = {}
        for item in events:
            answer = self.plane.apply(item["key"], item["type"], item["payload"])
        return 201, answer

    def take_artifact(self, body: bytes) -> tuple[int, Any]:
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        if self.headers["Content-Digest"] != f"sha-256=:{digest}:":
            raise Problem(422, "invalid")
        return 201, self.plane.store(self.headers["Artifact-Kind"], body)

    def take_log(self, body: bytes) -> tuple[int, Any]:
        query = parse_qs(urlsplit(self.path).query)
        operation_id, offset = query["operation_id"][0], int(query["offset"][0])
        if offset != len(self.plane.logs.get(operation_id, b"")):
            raise Problem(409, "wrong_offset")
        self.plane.logs[operation_id] = self.plane.logs.get(operation_id, b"") + body
        return 200, {}

    def answer(self, status: int, document: Any, *, retry_after: str | None = None) -> None:
        data = b"" if document is None else document
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        if isinstance(document, dict) and document.get("replayed"):
            self.send_header("Idempotency-Replayed", "true")
        self.end_headers()
        self.wfile.write(data)
