"""Refusal → RFC 9457: one table from code to status, and the answer to everything that goes wrong
(REST contract, "Errors")."""

from __future__ import annotations

import sys
from typing import Any, Final

import structlog
from django.core.exceptions import PermissionDenied as DjangoDenies
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import get_template
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions as drf
from rest_framework.response import Response

from agentplatform import measures
from runs.domain.errors import (
    Malformed,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Refusal,
    Throttled,
    TooLarge,
    Unavailable,
    UnsupportedMediaType,
    all_refusals,
)
from runs.vault import VaultAwayError

log = structlog.get_logger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 2
_RENAMED: Final = {"status": "current_status"}

STATUS: Final[dict[str, int]] = {
    "malformed": 400,
    "idempotency_key_missing": 400,
    "not_authenticated": 401,
    "actor_not_allowed": 403,
    "approval_forbidden": 403,
    "permission_denied": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "illegal_transition": 409,
    "run_terminal": 409,
    "lease_lost": 409,
    "sequence_conflict": 409,
    "offset_conflict": 409,
    "guard_failed": 409,
    "budget_exhausted": 409,
    "history_limit": 409,
    "directive_pending": 409,
    "approval_superseded": 409,
    "approval_decided": 409,
    "approval_closed": 409,
    "duplicate_task": 409,
    "not_allowed_now": 409,
    "log_archived": 410,
    "too_large": 413,
    "unsupported_media_type": 415,
    "invalid": 422,
    "idempotency_key_reused": 422,
    "not_a_patch": 422,
    "unsafe_path": 422,
    "ambiguous_patch": 422,
    "throttled": 429,
    "internal": 500,
    "unavailable": 503,
}


class MethodNotAllowed(Refusal):
    """This address does not take that method."""

    code = "method_not_allowed"


class Internal(Refusal):
    """Something went wrong on our side; it was logged. Try again with the same key."""

    code = "internal"


def title_of(code: str) -> str:
    """The short name of a problem, the same each time."""
    return code.replace("_", " ").capitalize()


def document(refusal: Refusal) -> dict[str, Any]:
    """The problem document: type, title, status, detail, code, and what the caller needs to act.

    ``status`` is the HTTP status (RFC 9457); the status of the run or task stands in ``current_status``.
    """
    extra = {_RENAMED.get(name, name): value for name, value in refusal.extra.items()}
    return {
        "type": f"/api/docs/#problem-{refusal.code}",
        "title": title_of(refusal.code),
        "status": STATUS[refusal.code],
        "detail": refusal.detail,
        "code": refusal.code,
        **extra,
    }


def headers(refusal: Refusal) -> dict[str, str]:
    """What an answer of this kind carries beside its document."""
    if refusal.code == "not_authenticated":
        return {"WWW-Authenticate": 'Bearer realm="agentplatform"'}
    if refusal.code in ("unavailable", "throttled"):
        return {"Retry-After": str(refusal.extra.get("retry_after_seconds", RETRY_SECONDS))}
    return {}


def answer_exception(error: Exception, context: dict[str, Any]) -> Response | None:
    """The API's exception handler; None for what nobody foresaw, which is then a 500."""
    refusal = refusal_of(error)
    if refusal is None:
        return None
    measures.REFUSALS.labels(refusal.code).inc()
    response = Response(document(refusal), status=STATUS[refusal.code], content_type=MEDIA_TYPE)
    for name, value in headers(refusal).items():
        response[name] = value
    return response


def refusal_of(error: Exception) -> Refusal | None:
    """What an exception means to the caller; None where it is a fault of ours."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, OperationalError | InterfaceError | InternalError):
        # Away, out of connections, full, read-only, locked for too long: all of them pass.
        log.warning("database_unavailable", error=str(error))
        return Unavailable(retry_after_seconds=RETRY_SECONDS)
    if isinstance(error, VaultAwayError):
        log.warning("artifact_store_unavailable", error=str(error))
        return Unavailable("The store of artifacts is away.", retry_after_seconds=RETRY_SECONDS)
    if isinstance(error, DataError):
        return Malformed("A value does not fit into what the database can hold.")
    return _of_framework(error)


def _of_framework(error: Exception) -> Refusal | None:
    if isinstance(error, drf.Throttled):
        return Throttled(retry_after_seconds=int(getattr(error, "wait", None) or RETRY_SECONDS) + 1)
    for kind, refusal in _FRAMEWORK:
        if isinstance(error, kind):
            return refusal()
    return None


_FRAMEWORK: Final[tuple[tuple[type[Exception], type[Refusal]], ...]] = (
    (Http404, NotFound),
    (drf.NotFound, NotFound),
    (drf.NotAuthenticated, NotAuthenticated),
    (drf.AuthenticationFailed, NotAuthenticated),
    (drf.PermissionDenied, PermissionDenied),
    (DjangoDenies, PermissionDenied),
    (drf.MethodNotAllowed, MethodNotAllowed),
    (drf.UnsupportedMediaType, UnsupportedMediaType),
    (RequestDataTooBig, TooLarge),
    (drf.ParseError, Malformed),
    (SuspiciousOperation, Malformed),
)


@csrf_exempt  # a machine that misspells an address gets a 404, not a lecture on cookies
def nothing_here(request: HttpRequest) -> HttpResponse:
    """Below ``/api/`` even an address that nobody has is answered as a problem document."""
    return _answer(NotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of what came through: a problem document for the API, a page for people.

    A database that is away passes, wherever it was noticed: in a page, or in the session before it.
    """
    error = sys.exc_info()[1]
    is_passing = isinstance(error, OperationalError | InterfaceError | InternalError)
    if request.path.startswith("/api/"):
        return _answer(Unavailable() if is_passing else Internal())
    if not is_passing:
        return defaults.server_error(request)
    page = HttpResponse(get_template("503.html").render(), status=STATUS["unavailable"])
    page["Retry-After"] = str(RETRY_SECONDS)
    return page


def _answer(refusal: Refusal) -> HttpResponse:
    return JsonResponse(
        document(refusal),
        status=STATUS[refusal.code],
        content_type=MEDIA_TYPE,
        headers=headers(refusal),
    )


def codes() -> list[str]:
    """Every code that an answer may carry."""
    known = {refusal.code for refusal in all_refusals()}
    return [code for code in STATUS if code in known]
