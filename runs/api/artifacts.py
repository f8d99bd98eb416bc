"""Upload evidence under the lease, list it, download it as an attachment."""

from __future__ import annotations

import re
from typing import Final

from django.conf import settings
from django.http import FileResponse
from rest_framework.request import Request
from rest_framework.response import Response

from runs import artifacts
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import content_length, content_sha256
from runs.api.schema import says
from runs.auth import get_run, require_machine
from runs.domain.errors import Invalid, NotFound, TooLarge
from runs.domain.vocabulary import ArtifactKind
from runs.models import Artifact

_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:\s*;[\x20-\x7e]*)?")
_ENDINGS: Final = {
    ArtifactKind.PATCH: "patch",
    ArtifactKind.LOG: "log",
    ArtifactKind.PLAN: "json",
    ArtifactKind.VERIFICATION_REPORT: "json",
    ArtifactKind.JUDGE_REPORT: "json",
}
_UPLOAD: Final = ("Lease-Token!", "Artifact-Kind!", "Content-Digest!")
#: Whatever the bytes are, a browser shall not run them.
_HARMLESS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=31536000, immutable",
}


class RunArtifacts(ApiView):
    """``POST runs/{id}/artifacts`` and ``GET runs/{id}/artifacts``"""

    content_sha256 = ""

    @says(answer="StoredArtifact", status=201, also=(200,), is_bytes=True, headers=_UPLOAD)
    def post(self, request: Request, run_id: str) -> Response:
        """Store the body; a patch is read and judged here."""
        run = get_run(self.principal, run_id)
        worker = require_machine(self.principal)
        if content_length(request) > settings.ARTIFACT_MAX_BYTES:
            raise TooLarge(limit_bytes=settings.ARTIFACT_MAX_BYTES)
        self.content_sha256 = content_sha256(request)
        stored = artifacts.artifact_store(
            run_id=run.pk, kind=_kind(request), content=request._request,  # noqa: SLF001  the stream itself
            content_type=_content_type(request), sha256=self.content_sha256, account=worker.pk,
            lease_token=self.lease_token,
        )  # fmt: skip
        return Response(shapes.stored(stored.artifact), status=201 if stored.made else 200)

    @says(answer="ArtifactPage", is_list=True)
    def get(self, request: Request, run_id: str) -> Response:
        """What is kept of this run, newest first."""
        run = get_run(self.principal, run_id)
        rows = Artifact.objects.filter(run=run).defer("document")
        return Response(page(request, rows, lambda found: [shapes.artifact(row) for row in found]))


def _kind(request: Request) -> ArtifactKind:
    try:
        return ArtifactKind(request.META.get("HTTP_ARTIFACT_KIND", ""))
    except ValueError:
        raise Invalid({"Artifact-Kind": [f"must be one of: {', '.join(ArtifactKind)}"]}) from None


def _content_type(request: Request) -> str:
    sent = request.META.get("CONTENT_TYPE") or "application/octet-stream"
    if len(sent) > 200 or not _TYPE.fullmatch(sent):  # noqa: PLR2004  the column
        raise Invalid({"Content-Type": ["must be a media type"]})
    return str(sent)


class Download(ApiView):
    """``GET artifacts/{id}``"""

    @says(is_bytes=True)
    def get(self, request: Request, artifact_id: str) -> FileResponse:
        """The bytes, as an attachment, never as active content."""
        artifact = Artifact.objects.filter(pk=artifact_id).defer("document").first()
        if artifact is None:
            raise NotFound
        get_run(self.principal, artifact.run_id)
        try:
            content = artifacts.artifact_open(artifact)
        except FileNotFoundError:
            raise NotFound("Its bytes are no longer kept.") from None
        name = f"{artifact.kind}-{artifact.sha256[:12]}.{_ENDINGS.get(ArtifactKind(artifact.kind), 'bin')}"
        return FileResponse(
            content, as_attachment=True, filename=name, content_type="application/octet-stream",
            headers={
                **_HARMLESS,
                "Content-Length": str(artifact.size),
                "ETag": f'"{artifact.sha256}"',
                "Repr-Digest": artifacts.digest_header(artifact),
            },
        )  # fmt: skip
