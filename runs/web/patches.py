"""Parts of a patch that are asked for one by one: a file, more of its lines, the lines around a hunk."""

from __future__ import annotations

import re
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from runs.domain.facts import Json
from runs.domain.patch import PatchRefused
from runs.selectors.diff import Look, lines_around
from runs.selectors.diff import patch_file as read_patch_file
from runs.selectors.evidence import find_artifact
from runs.web.session import page, principal_of

_NUMBER: Final = re.compile(r"-?[0-9]{1,8}")


def look_choice(request: HttpRequest, look: Look) -> Json:
    """``{look, views, spaces}``: links that show the same page in another way."""
    return {
        "split": look.split,
        "ignore_space": look.ignore_space,
        "unified": _address(request, view="unified"),
        "side_by_side": _address(request, view="split"),
        "space": _address(request, space="" if look.ignore_space else "ignore"),
    }


def _address(request: HttpRequest, **changed: str) -> str:
    query = request.GET.copy()
    for name, value in changed.items():
        query.pop(name, None)
        if value:
            query[name] = value
    return f"?{query.urlencode()}"


@page
@require_safe
def patch_file(request: HttpRequest, artifact_id: str, index: int) -> HttpResponse:
    """One file of a patch, from the line ``from`` on; what a page left out, or a page of its own."""
    artifact = find_artifact(principal=principal_of(request), artifact_id=artifact_id)
    start, look = max(_number(request, "from") or 0, 0), Look.of(request.GET, request.COOKIES)
    try:
        remarks = request.GET.get("remarks") == "1"
        file = read_patch_file(artifact, index, look=look, start=start, remarks=remarks)
    except (IndexError, OSError, PatchRefused):
        raise Http404 from None
    alone = "runs/_diff_more.html" if start else "runs/_diff_file.html"
    part = request.headers.get("HX-Request")
    context = {"file": file, "look": look_choice(request, look), "remarks": remarks}
    return render(request, alone if part else "runs/patch_file.html", context)


@page
@require_safe
def patch_around(request: HttpRequest, artifact_id: str, index: int) -> HttpResponse:
    """Unchanged lines beside a hunk, as rows of its table; without script as a page."""
    artifact = find_artifact(principal=principal_of(request), artifact_id=artifact_id)
    first, last = _number(request, "first"), _number(request, "last")
    shift = _number(request, "shift") or 0
    look, from_end = Look.of(request.GET, request.COOKIES), request.GET.get("end") == "1"
    try:
        found = lines_around(
            artifact, index, first=first or 1, last=last, shift=shift, from_end=from_end, look=look
        )
    except (IndexError, OSError, PatchRefused):
        raise Http404 from None
    part = request.headers.get("HX-Request")
    return render(request, "runs/_around.html" if part else "runs/around.html", {"found": found})


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None
