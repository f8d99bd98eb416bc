"""A small OpenID Connect provider on this machine: discovery, code with PKCE, token, user info."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt

CLIENT_ID, CLIENT_SECRET = "platform", "not-a-secret"


@dataclass
class Provider:
    """Who signs in there next, and which codes it gave out: each is good once."""

    claims: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    url: str = ""

    def authorize(self, address: str) -> str:
        """What the browser does there: the person agrees, and is sent back with a code."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        known = form.get("client_secret") == CLIENT_SECRET or authorization == f"Basic {basic}"
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if asked is None or not known or challenge != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": 1_700_000_000,
            "exp": 4_000_000_000,
            **self.claims,
        }
        signed = jwt.encode(claims, "x" * 32, algorithm="HS256")
        return 200, {"access_token": "access", "token_type": "Bearer", "id_token": signed}

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }


@contextmanager
def running() -> Iterator[Provider]:
    """The provider, while the test lasts."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if self.path == "/.well-known/openid-configuration":
                self.answer(200, provider.discovery())
            elif self.path == "/userinfo" and self.headers["Authorization"] == "Bearer access":
                self.answer(200, provider.claims)
            else:
                self.answer(404, {})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            self.answer(*provider.token(form, self.headers.get("Authorization", "")))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
