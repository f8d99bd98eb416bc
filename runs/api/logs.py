"""Live logs: bytes of a running step, appended by its worker, read while they grow or after."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from runs import livelogs
from runs.api.base import ApiView
from runs.api.requests import Query, content_length
from runs.api.schema import says
from runs.api.words import TEXT, WHOLE
from runs.auth import get_run, require_machine
from runs.domain.errors import Invalid, TooLarge

_MEDIA: Final = "text/plain; charset=utf-8"
#: Whatever the bytes are, a browser shall show them as text and do nothing.
_HARMLESS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-store",
}


class Logs(ApiView):
    """``POST runs/{id}/logs``"""

    @says(
        answer="LogEnd",
        is_bytes=True,
        query={"operation_id": TEXT, "offset": WHOLE},
        headers=("Lease-Token!",),
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Append the body to the log of a pending operation; the answer is where the next bytes go."""
        run, query = get_run(self.principal, run_id), Query(request)
        worker = require_machine(self.principal)
        if content_length(request) > livelogs.CHUNK_MAX_BYTES:
            raise TooLarge(limit_bytes=livelogs.CHUNK_MAX_BYTES)
        operation_id = query.text("operation_id")
        if not operation_id:
            raise Invalid({"operation_id": ["is required, in the query"]})
        end = livelogs.livelog_append(
            run_id=run.pk, operation_id=operation_id, offset=query.integer("offset", 0),
            data=request._request.body, account=worker.pk, lease_token=self.lease_token,  # noqa: SLF001  the bytes as sent
        )  # fmt: skip
        return Response({"operation_id": operation_id, "offset": end})


class OneLog(ApiView):
    """``GET runs/{id}/logs/{operation_id}``"""

    @says(is_bytes=True, media=_MEDIA, query={"offset": WHOLE})
    def get(self, request: Request, run_id: str, operation_id: str) -> HttpResponse:
        """Up to 1 MiB of a step's output, from `offset`; go on at `Log-Next-Offset` until `Log-Complete`."""
        run = get_run(self.principal, run_id)
        found = livelogs.livelog_read(run, operation_id, offset=Query(request).integer("offset", 0))
        return HttpResponse(
            found.data, content_type=_MEDIA,
            headers={
                **_HARMLESS, "Log-Offset": str(found.start), "Log-Next-Offset": str(found.next_offset),
                "Log-Complete": "true" if found.complete else "false",
            },
        )  # fmt: skip
