"""A forge's REST API: calls, and what their failures mean. One client for all of them.

Which page of a forge's documentation a call follows stands beside it where it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self

import httpx

from runs.credentials.access import AccessRefused, ForgeAccess, tls

TIMEOUT: Final = 20.0
#: Of what people and checks say, no more pages than these are read.
MAX_PAGES: Final = 5
NAMES: Final = {"github": "GitHub", "gitlab": "GitLab", "gitea": "Gitea"}
#: The parameter that says how many rows a page has, and how many it may have.
_SIZES: Final = {"github": ("per_page", 100), "gitlab": ("per_page", 100), "gitea": ("limit", 50)}
_LIMITED = (httpx.codes.FORBIDDEN, httpx.codes.TOO_MANY_REQUESTS)
#: A change that a forge understood and does not want, or that is made already.
_UNWANTED = (httpx.codes.BAD_REQUEST, httpx.codes.CONFLICT, httpx.codes.UNPROCESSABLE_ENTITY)
Cause = Literal["unreachable", "access", "rejected"]


class Unprocessable(Exception):  # noqa: N818  named by what the forge says
    """400, 409 or 422 to a change: what is said of it, in one line."""


class ForgeFailed(Exception):  # noqa: N818  a verdict, not an error
    """No answer, or a no. ``retryable`` where asking again may help; ``token_refused``: whoever asks is not
    known there, whatever is asked."""

    def __init__(self, why: str, *, retryable: bool, cause: Cause, token_refused: bool = False) -> None:
        self.retryable, self.cause, self.token_refused = retryable, cause, token_refused
        super().__init__(why)


class Rest:
    """A forge's API below one path, with one token for as long as it is open. Use as a context manager."""

    def __init__(self, access: ForgeAccess, below: str = "") -> None:
        self._access, self.below = access, below
        self.name = NAMES[access.provider]

    def __enter__(self) -> Self:
        try:
            headers = self._access.headers()
        except AccessRefused as refused:
            cause: Cause = "unreachable" if refused.retryable else "access"
            raise ForgeFailed(str(refused), retryable=refused.retryable, cause=cause) from refused
        self._http = httpx.Client(
            base_url=self._access.api_url, headers=headers, timeout=TIMEOUT, verify=tls()
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Any:
        """The answer's JSON."""
        return self._read(self._send("GET", path, params=params))

    def pages(self, path: str, *, most: int = MAX_PAGES, **params: str | int) -> Iterator[Any]:
        """The answers of a list, page after page, at most so many."""
        word, size = _SIZES[self._access.provider]
        for page in range(1, most + 1):
            answer = self._send("GET", path, params={**params, word: size, "page": page})
            yield self._read(answer)
            if 'rel="next"' not in answer.headers.get("link", ""):
                return

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A change. Raises ``Unprocessable`` and ``ForgeFailed``; after the latter it may have been made."""
        return self._read(self._send(method, path, json=body))

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        # A change that is redirected would arrive as a mere look; a moved repository is said instead.
        more["follow_redirects"] = method == "GET"
        try:
            answer = self._http.request(method, f"{self.below}{path}", **more)
        except httpx.HTTPError as error:
            why = f"{self.name} gave no answer to {method} {path}: {type(error).__name__}"
            raise ForgeFailed(why, retryable=True, cause="unreachable") from error
        if not answer.is_success:
            raise self._failure(answer, method, path)
        return answer

    def _read(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            why = f"{self.name}'s answer is no JSON; is there a proxy in between?"
            raise ForgeFailed(why, retryable=True, cause="unreachable") from error

    def _failure(self, answer: httpx.Response, method: str, path: str) -> Exception:
        """What an answer that is no success means."""
        said, code = _message(answer), answer.status_code
        why = f"{self.name} answered {code} to {method} {path}: {said}"
        if method != "GET" and code in _UNWANTED:
            return Unprocessable(said)
        if code in _LIMITED and _is_rate_limit(answer, said):
            return ForgeFailed(why, retryable=True, cause="unreachable")
        if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND):
            refused = code == httpx.codes.UNAUTHORIZED
            return ForgeFailed(why, retryable=False, cause="access", token_refused=refused)
        retryable = code >= httpx.codes.INTERNAL_SERVER_ERROR
        return ForgeFailed(why, retryable=retryable, cause="unreachable" if retryable else "rejected")


def _is_rate_limit(answer: httpx.Response, said: str) -> bool:
    """ "Rate limits for the REST API" (docs.github.com): either header, or the words of the secondary limit;
    429 everywhere."""
    spent = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    return spent or answer.status_code == httpx.codes.TOO_MANY_REQUESTS or "rate limit" in said.lower()


def _message(answer: httpx.Response) -> str:
    """What the forge says: a text, a list of them, or texts by field, under one of three names."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return answer.reason_phrase
    parts = [part for name in ("message", "error", "errors") for part in _texts(body.get(name))]
    return "; ".join(dict.fromkeys(part for part in parts if part))[:500] or answer.reason_phrase


def _texts(said: Any) -> Iterator[str]:
    if isinstance(said, list):
        for one in said:
            yield str(one.get("message") or one.get("code") or "") if isinstance(one, dict) else str(one)
    elif isinstance(said, dict):
        for name, texts in said.items():
            yield f"{name}: {', '.join(_texts(texts))}"
    elif said is not None:
        yield str(said)
