"""What every request and answer carries: a request id, a log line, a Permissions-Policy; and no NUL."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse

from agentplatform import measures

log = structlog.get_logger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponse]
PAGE_MAX_BYTES: Final = 2 << 20
_QUIET = {"/healthz", "/readyz", "/metrics"}
#: Names in addresses, and what services bind: they stand in every line of a request.
_IDS = ("run_id", "task_id", "approval_id", "event_id")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLogMiddleware:
    """Binds a request id to every log line of the request, and returns it as `X-Request-ID`.

    An id sent by the caller is kept when it is short and plain; anything else could forge log lines.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.headers.get("X-Request-ID", "")
        request_id = sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex
        begun = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                response = self.get_response(request)
                if request.path not in _QUIET:
                    _tell(request, response.status_code, time.perf_counter() - begun)
            finally:
                structlog.contextvars.unbind_contextvars(*_IDS)
        response["X-Request-ID"] = request_id
        return response

    def process_view(
        self, request: HttpRequest, view: object, arguments: object, words: dict[str, Any]
    ) -> None:
        """What the address names stands in every line from here on."""
        structlog.contextvars.bind_contextvars(**{name: words[name] for name in _IDS if name in words})


def _tell(request: HttpRequest, status: int, seconds: float) -> None:
    """The line of this request, and its count. An address that nobody has is no call of its own."""
    log.info("request", method=request.method, path=request.path, status=status, ms=round(seconds * 1000, 1))
    call = request.resolver_match.route if request.resolver_match else "none"
    measures.answered(method=request.method or "", call=call, status=status, seconds=seconds)


def client_address(request: HttpRequest) -> str:
    """Whose request it is. Behind a proxy that is believed, the last hop that it names: the caller may have
    written what stands before that."""
    named = request.headers.get("X-Forwarded-For", "") if settings.TRUST_PROXY_HEADERS else ""
    return named.rpartition(",")[2].strip()[:64] or request.META.get("REMOTE_ADDR", "")


class BodyLimitMiddleware:
    """Refuses what is larger than any page takes, before anything of it is read.

    Django bounds the fields of a form and not its files, and reads both before it looks who sends them. The
    API bounds its own bodies, endpoint by endpoint.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        # What has no length is not read at all.
        if (length.isdigit() and int(length) <= PAGE_MAX_BYTES) or request.path.startswith("/api/"):
            return self.get_response(request)
        text = f"This is more than the {PAGE_MAX_BYTES >> 20} MiB that a page takes."
        return HttpResponse(text, status=413, content_type="text/plain; charset=utf-8")


class PermissionsPolicyMiddleware:
    """Denies every browser feature that the pages do not use."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.header = ", ".join(f"{feature}=()" for feature in settings.PERMISSIONS_POLICY)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.setdefault("Permissions-Policy", self.header)
        return response


class NulMiddleware:
    """An address or a form with a NUL in it is answered as the mistake that it is: no text here holds one."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> None:
        """What the database's driver refuses to send was never sent: nothing is half done."""
        if isinstance(error, DataError) and "NUL" in str(error):
            if "\0" in request.path_info:
                raise Http404 from error
            raise BadRequest("a NUL character in a value") from error
