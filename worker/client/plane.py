"""The control plane over HTTP: typed calls, safe to repeat.

Every call that changes something carries a key (`Idempotency-Key`, or the content's digest), and
is repeated under the *same* key after a lost connection, a timeout, a 429 or a 503, so that an
answer lost on the way is got again rather than made twice. Tokens are sent and never logged.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from worker import __version__, tracing
from worker.client.protocol import ISOLATION, Answer, Artifact, Beat, Claim, Json, Lease, Resume
from worker.client.transport import (
    ComeBackLater,
    Content,
    Patience,
    accepted,
    content_blocks,
    content_digest,
    content_size,
    json_object,
    repeat,
    retry_after,
)


def read_token(path: Path) -> str:
    """The token of a file that holds it alone; raises OSError or ValueError."""
    token = path.read_text(encoding="ascii").strip()
    if not token or any(character.isspace() for character in token):
        raise ValueError(f"{path} does not hold one token")
    return token


class ControlPlane:
    """One account's connection. Safe to use from several threads."""

    def __init__(self, *, url: str, token: str, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._http = httpx.Client(
            base_url=url.rstrip("/") + "/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30.0, connect=5.0),
            trust_env=False,
            # Loading certificates takes a third of a second, and plain HTTP has none to check.
            verify=not url.startswith("http://"),
        )

    def close(self) -> None:
        self._http.close()

    def claim(
        self,
        *,
        roles: Sequence[str],
        labels: Sequence[str],
        wait_seconds: int,
        key: str,
        isolation: str = ISOLATION,
    ) -> Claim | None:
        """One run to work on, or None. The caller keeps `key` until it has an answer.

        Raises Unavailable after one try: who waits for work waits longer than any patience.
        """
        body: Json = {
            "labels": list(labels),
            "wait_seconds": wait_seconds,
            "isolation": isolation,
            "worker_version": __version__,
        }
        if roles:
            body["roles"] = list(roles)
        response = self.send(
            "POST",
            "leases",
            json_body=body,
            headers={"Idempotency-Key": key},
            timeout=wait_seconds + 30.0,
            patience=Patience(attempts=1),
        )
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        return Claim.parse(json_object(response), traceparent=response.headers.get(tracing.HEADER, ""))

    def leased(self, lease: Lease) -> LeasedRun:
        return LeasedRun(self, lease)

    def download(self, artifact_id: str) -> bytes:
        return self.send("GET", f"artifacts/{artifact_id}").content

    def send(
        self,
        method: str,
        path: str,
        *,
        json_body: Json | None = None,
        content: Callable[[], bytes | Iterator[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        patience: Patience | None = None,
    ) -> httpx.Response:
        """One call, repeated while that helps. Raises Unavailable or Refused.

        `content` makes the body anew for each try.
        """

        def once() -> httpx.Response:
            response = self._http.request(
                method,
                path,
                json=json_body,
                content=content() if content else None,
                headers={**tracing.carried(), **(headers or {})},
                params=dict(params) if params else None,
                timeout=timeout if timeout is not None else httpx.USE_CLIENT_DEFAULT,
            )
            if response.status_code in (429, 503):
                raise ComeBackLater(response.status_code, retry_after(response))
            return response

        return accepted(repeat(once, patience or self._patience))


class LeasedRun:
    """The calls that need a lease. Each raises LeaseLost once it is no longer the active one."""

    def __init__(self, plane: ControlPlane, lease: Lease) -> None:
        self._plane = plane
        self._lease = lease
        self._path = f"runs/{lease.run_id}"

    @property
    def lease(self) -> Lease:
        return self._lease

    def heartbeat(self, *, timeout: float) -> Beat:
        """One try: the caller beats again anyway."""
        response = self._plane.send(
            "POST",
            f"{self._path}/heartbeat",
            json_body={},
            headers=self._headers(),
            timeout=timeout,
            patience=Patience(attempts=1),
        )
        return Beat.parse(json_object(response))

    def release(self, *, reason: str) -> None:
        self._plane.send(
            "POST", f"{self._path}/release", json_body={"reason": reason}, headers=self._headers()
        )

    def post(self, type_: str, payload: Json, *, key: str | None = None) -> Answer:
        """One event. Raises LeaseLost, DirectivePending or Refused."""
        response = self._plane.send(
            "POST",
            f"{self._path}/events",
            json_body={"type": type_, "payload": payload},
            headers=self._headers({"Idempotency-Key": key or uuid.uuid4().hex}),
        )
        replayed = response.headers.get("Idempotency-Replayed") == "true"
        return Answer.parse(json_object(response), replayed=replayed)

    def post_batch(self, events: Sequence[tuple[str, Json]]) -> Answer:
        """Up to 100 events in order, all or none; each under its own key."""
        body = [{"key": uuid.uuid4().hex, "type": type_, "payload": payload} for type_, payload in events]
        response = self._plane.send(
            "POST",
            f"{self._path}/events/batch",
            json_body={"events": body},
            headers=self._headers(),
        )
        return Answer.parse(json_object(response))

    def upload(self, kind: str, content: Content, *, content_type: str) -> Artifact:
        """Store bytes, or a file of any size without reading it whole into memory."""
        headers = self._headers(
            {
                "Artifact-Kind": kind,
                "Content-Type": content_type,
                "Content-Digest": f"sha-256=:{content_digest(content)}:",
                "Content-Length": str(content_size(content)),
            }
        )
        response = self._plane.send(
            "POST", f"{self._path}/artifacts", content=lambda: content_blocks(content), headers=headers
        )
        return Artifact.parse(json_object(response))

    def append_log(self, operation_id: str, data: bytes, *, offset: int) -> None:
        """Bytes of a live log. One try: the whole output is an artifact later anyway."""
        self._plane.send(
            "POST",
            f"{self._path}/logs",
            content=lambda: data,
            headers=self._headers({"Content-Type": "application/octet-stream"}),
            params={"operation_id": operation_id, "offset": offset},
            timeout=5.0,
            patience=Patience(attempts=1),
        )

    def resume(self) -> Resume:
        return Resume.parse(json_object(self._plane.send("GET", f"{self._path}/resume")))

    def events(self) -> list[Json]:
        """The whole log, in order."""
        return self._all(f"{self._path}/events?limit=200")

    def steps(self) -> list[Json]:
        return self._all(f"{self._path}/steps")

    def artifacts(self) -> list[Json]:
        return self._all(f"{self._path}/artifacts")

    def download(self, artifact_id: str) -> bytes:
        return self._plane.download(artifact_id)

    def _all(self, path: str) -> list[Json]:
        """Every item of a list, whether or not it comes in pages."""
        items: list[Json] = []
        address: str | None = path
        while address:
            # A bare body is read as a short list that needs no pages.
            page = self._plane.send("GET", address).json()
            items += page if isinstance(page, list) else page.get("results") or []
            address = None if isinstance(page, list) else page.get("next")
        return items

    def _headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"Lease-Token": self._lease.token, **(more or {})}
