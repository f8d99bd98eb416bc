"""Calls as clients make them: real headers, real bodies, answers as sent."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from django.test import Client

from tests.api import conformance
from tests.factories import Holder, Machine

BASE = "/api/v1/"


class Caller:
    """One account over HTTP; ``token`` is a worker's or a person's."""

    def __init__(self, token: str = "", *, client: Client | None = None) -> None:
        self.client = client or Client(enforce_csrf_checks=True)
        self.token = token

    def get(self, path: str, **headers: str) -> Any:
        return self.send("GET", path, None, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, body, **headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """``body`` is JSON, or bytes as they are; header names are given in snake_case."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content_type = sent.pop("content-type", "application/json")
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        address = path if path.startswith("/") else BASE + path
        response = self.client.generic(method, address, data, content_type=content_type, headers=sent)
        conformance.check(method, address, response)
        return response


def as_machine(machine: Machine) -> Caller:
    return Caller(machine.token)


class LeasedCaller(Caller):
    """A machine that holds a run."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder.machine.token)
        self.run_id, self.lease_token = holder.run_id, holder.token

    def event(self, kind: str, payload: Any, *, key: str = "key-1", **more: Any) -> Any:
        body = {"type": kind, "payload": payload, **more}
        return self.post(
            f"runs/{self.run_id}/events", body, lease_token=self.lease_token, idempotency_key=key
        )

    def batch(self, *events: dict[str, Any]) -> Any:
        return self.post(f"runs/{self.run_id}/events/batch", {"events": events}, lease_token=self.lease_token)

    def upload(self, kind: str, data: bytes, **headers: str) -> Any:
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        given = {
            "content_type": "application/octet-stream",
            "artifact_kind": kind,
            "content_digest": f"sha-256=:{digest}:",
            "lease_token": self.lease_token,
        }
        return self.post(f"runs/{self.run_id}/artifacts", data, **{**given, **headers})


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """The problem document of a refusal that must be this one."""
    document = json.loads(response.content)
    assert (response.status_code, document.get("code")) == (status, code), document
    assert response["Content-Type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= document.keys()
    assert document["status"] == status
    return document
