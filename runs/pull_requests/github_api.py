"""GitHub's REST API as far as pull requests need it: calls, and what their failures mean.

Which page of docs.github.com each call follows stands beside it in ``github``; the API version is
``credentials.access.API_VERSION``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import httpx

from runs.credentials.access import AccessRefused, RepositoryAccess, headers, tls
from runs.pull_requests.base import PushFailed

TIMEOUT: Final = 20.0
#: Of what people and checks say, no more pages than these are read.
MAX_PAGES: Final = 5
_LIMITED = (httpx.codes.FORBIDDEN, httpx.codes.TOO_MANY_REQUESTS)


class Unprocessable(Exception):  # noqa: N818  named by what GitHub says
    """422: the message, and those of its errors, in one line."""


class GitHubApi:
    """One repository's API, with one token for as long as it is open. Use as a context manager."""

    def __init__(self, access: RepositoryAccess) -> None:
        self._access = access

    def __enter__(self) -> Self:
        try:
            token = self._access.token()
        except AccessRefused as refused:
            raise PushFailed(
                str(refused),
                retryable=refused.retryable,
                cause="unreachable" if refused.retryable else "access",
            ) from refused
        self._http = httpx.Client(
            base_url=self._access.api_url, headers=headers(token), timeout=TIMEOUT, verify=tls()
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Any:
        """The answer's JSON."""
        return self._read(self._send("GET", path, params=params))

    def pages(self, path: str) -> Iterator[Any]:
        """The answers of a list, page after page."""
        for page in range(1, MAX_PAGES + 1):
            answer = self._send("GET", path, params={"per_page": 100, "page": page})
            yield self._read(answer)
            if 'rel="next"' not in answer.headers.get("link", ""):
                return

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A change. Raises ``Unprocessable`` and ``PushFailed``; after the latter it may have been made."""
        return self._read(self._send(method, path, json=body))

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        # A change that is redirected would arrive as a mere look; a moved repository is said instead.
        more["follow_redirects"] = method == "GET"
        try:
            answer = self._http.request(method, f"/repos/{self._access.project}{path}", **more)
        except httpx.HTTPError as error:
            why = f"GitHub gave no answer to {method} {path}: {type(error).__name__}"
            raise PushFailed(why, retryable=True, cause="unreachable") from error
        if not answer.is_success:
            raise _failure(answer, f"{method} {path}")
        return answer

    def _read(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            why = "GitHub's answer is no JSON; is there a proxy in between?"
            raise PushFailed(why, retryable=True, cause="unreachable") from error


def _failure(answer: httpx.Response, call: str) -> Exception:
    """What an answer that is no success means."""
    said = _message(answer)
    why = f"GitHub answered {answer.status_code} to {call}: {said}"
    if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
        return Unprocessable(said)
    if answer.status_code in _LIMITED and _is_rate_limit(answer, said):
        return PushFailed(why, retryable=True, cause="unreachable")
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND):
        return PushFailed(why, retryable=False, cause="access")
    retryable = answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return PushFailed(why, retryable=retryable, cause="unreachable" if retryable else "rejected")


def _is_rate_limit(answer: httpx.Response, said: str) -> bool:
    """docs.github.com, "Rate limits for the REST API": either header, or the words of the secondary limit."""
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    return spent or "retry-after" in answer.headers or "rate limit" in said.lower()


def _message(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return answer.reason_phrase
    errors = body.get("errors")
    listed = errors if isinstance(errors, list) else []
    more = [str(e.get("message") or e.get("code") or "") if isinstance(e, dict) else str(e) for e in listed]
    return "; ".join(part for part in (str(body.get("message", "")), *more) if part)[:500]
