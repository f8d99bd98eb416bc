"""What every request and answer carries: a request id, a log line, a Permissions-Policy; and no NUL."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse

log = structlog.get_logger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponse]
_QUIET = {"/healthz", "/readyz", "/metrics"}
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
            response = self.get_response(request)
            if request.path not in _QUIET:
                milliseconds = round((time.perf_counter() - begun) * 1000, 1)
                log.info(
                    "request",
                    method=request.method,
                    path=request.path,
                    status=response.status_code,
                    ms=milliseconds,
                )
        response["X-Request-ID"] = request_id
        return response


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
