"""Sending safely: what is worth repeating, what a refusal is, how bodies are read and digested."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import stamina

from worker.client.errors import BadAnswer, Unavailable, refusal
from worker.client.protocol import Json

T = TypeVar("T")
Content = bytes | Path
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Patience:
    """How long a call is repeated: attempts, seconds in all, first and longest wait in seconds."""

    attempts: int = 20
    seconds: float = 120.0
    wait_initial: float = 0.2
    wait_max: float = 10.0


class ComeBackLater(Exception):  # noqa: N818  named by what happened
    """A 429 or 503; `seconds` is what Retry-After asked for."""

    def __init__(self, status: int, seconds: float | None) -> None:
        super().__init__(f"answered {status}")
        self.seconds = seconds


def repeat(call: Callable[[], T], patience: Patience) -> T:
    try:
        for attempt in stamina.retry_context(
            on=_worthrepeating,
            attempts=patience.attempts,
            timeout=patience.seconds,
            wait_initial=patience.wait_initial,
            wait_max=patience.wait_max,
        ):
            with attempt:
                return call()
    except (httpx.TransportError, ComeBackLater) as error:
        raise Unavailable(f"the control plane did not answer: {error}") from error
    raise AssertionError("a retry context ends with a result or an exception")


def _worthrepeating(error: Exception) -> bool | float:
    if isinstance(error, ComeBackLater):
        return error.seconds if error.seconds is not None else True
    return isinstance(error, httpx.TransportError)


def accepted(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    problem.setdefault("status", response.status_code)
    raise refusal(str(problem.get("code") or f"http_{response.status_code}"), problem)


def json_object(response: httpx.Response) -> Json:
    try:
        data = response.json()
    except json.JSONDecodeError as error:
        raise BadAnswer("the answer is not JSON") from error
    if not isinstance(data, dict):
        raise BadAnswer("the answer is not a JSON object")
    return data


def retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, min(60.0, float(response.headers["Retry-After"])))
    except (KeyError, ValueError):
        return None


def content_digest(content: Content) -> str:
    digest = hashlib.sha256()
    for block in _iterate(content):
        digest.update(block)
    return base64.b64encode(digest.digest()).decode("ascii")


def content_size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def content_blocks(content: Content) -> bytes | Iterator[bytes]:
    return content if isinstance(content, bytes) else _iterate(content)


def _iterate(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            yield block
