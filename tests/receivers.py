"""A mail server and a webhook receiver of this machine: what arrives is kept, and they fail as told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class Post:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers each post with what ``answer`` says of it: a status, or a status and headers."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    answer: Callable[[Post], int | tuple[int, dict[str, str]]] = lambda post: 204
    hang: threading.Event | None = None  #: while set, no post is answered until it is


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A web server at a free port of 127.0.0.1."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            post = Post(self.path, dict(self.headers.items()), self.rfile.read(length))
            kept.posts.append(post)
            if kept.hang:
                kept.hang.wait(30)
            answer = kept.answer(post)
            status, headers = answer if isinstance(answer, tuple) else (answer, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield kept
    finally:
        if kept.hang:
            kept.hang.set()
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class MailServer:
    """``mails`` in the order they were taken; ``refuse`` is answered instead, while it is set."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    refuse: str = ""

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802  aiosmtpd's name
        if self.refuse:
            return self.refuse
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 OK"


class _AnyPort(Controller):
    """Takes a free port; the base class wants to know it beforehand."""

    def _trigger_server(self) -> None:
        server: Any = self.server
        self.port = server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """A mail server at a free port of 127.0.0.1."""
    kept = MailServer()
    controller = _AnyPort(kept, hostname="127.0.0.1", port=0)
    controller.start()
    kept.port = controller.port
    try:
        yield kept
    finally:
        controller.stop()
