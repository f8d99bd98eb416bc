"""What every endpoint shares: who calls, JSON in and out, refusals counted."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, cast

import structlog
from django.db import DatabaseError
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

from agentplatform.clock import rfc3339
from runs import service
from runs.api.authentication import SessionAuthentication, TokenAuthentication
from runs.api.schema import Describe
from runs.auth import Principal
from runs.domain.errors import NotAuthenticated, Refusal

log = structlog.get_logger(__name__)
_SAFE: Final = ("GET", "HEAD", "OPTIONS")


class JsonRenderer(BaseRenderer):
    """Shapes are plain JSON; only moments are left to spell."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        """The bytes; none for an empty answer."""
        if data is None:
            return b""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_spelt)
        return text.encode()


def _spelt(value: Any) -> str:
    if isinstance(value, datetime):
        return rfc3339(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_RENDERER: Final = JsonRenderer()


class PeopleThrottle(SimpleRateThrottle):
    """A ceiling for people's calls, against scripts run wild. Machines are bounded by their leases."""

    scope = "people"
    rate = "1200/min"

    def get_cache_key(self, request: Request, view: APIView) -> str | None:
        """One count per person; none for machines."""
        principal = request.auth
        if not isinstance(principal, Principal) or principal.is_machine:
            return None
        return f"throttle:{principal.id}"


class ApiView(APIView):
    """Base of all endpoints: authenticated, JSON only, and every refusal of a machine is counted."""

    authentication_classes = [TokenAuthentication, SessionAuthentication]
    permission_classes = []  # runs.auth decides, by action and repository
    renderer_classes = [JsonRenderer]
    throttle_classes = [PeopleThrottle]
    metadata_class = None
    schema = Describe()
    request: Request

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate. There is one format: nothing to negotiate."""
        request.accepted_renderer, request.accepted_media_type = _RENDERER, _RENDERER.media_type
        if not isinstance(request.auth, Principal):
            raise NotAuthenticated
        self.check_throttles(request)

    @property
    def principal(self) -> Principal:
        """Who calls."""
        return cast("Principal", self.request.auth)

    @property
    def lease_token(self) -> str:
        """The lease's secret as sent, or ""."""
        return str(self.request.META.get("HTTP_LEASE_TOKEN", ""))

    def handle_exception(self, exc: Exception) -> Response:
        """The problem document; a machine's refusal is counted, which never hides the answer."""
        response = super().handle_exception(exc)
        if isinstance(exc, Refusal) and self.request.method not in _SAFE:
            self._count(exc)
        return response

    def _count(self, refusal: Refusal) -> None:
        principal = getattr(self.request, "_auth", None)
        if not isinstance(principal, Principal) or not principal.is_machine:
            return
        try:
            service.refusal_record(
                code=refusal.code,
                detail=refusal.detail,
                by=principal.caller,
                run_id=self.kwargs.get("run_id", ""),
                event_type=str(getattr(self, "event_type", ""))[:50],
                lease_token=self.lease_token,
                content_sha256=str(getattr(self, "content_sha256", "")),
            )
        except DatabaseError as error:
            log.warning("refusal_not_counted", code=refusal.code, error=str(error))
