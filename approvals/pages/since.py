"""What is new: the request that replaced another, and how what the two show differs."""

from __future__ import annotations

from django.urls import reverse

from approvals.models import ApprovalRequest
from approvals.pages.review import Review
from runs.domain.facts import Json
from runs.domain.vocabulary import Gate
from runs.models import Artifact
from runs.selectors.diff import patch_diff


def newer_than(review: Review, newer: ApprovalRequest) -> Json:
    """The request that replaced this one, and which files differ between what the two show."""
    before, after = _digests(review.request), _digests(newer)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return {
        "href": reverse("approval", args=[newer.pk]),
        "same_request": newer.pk == review.request.pk,
        "comparable": newer.gate == review.request.gate == Gate.PATCH and newer.pk != review.request.pk,
        "changed": changed[:50],
        "more": max(len(changed) - 50, 0),
    }


def _digests(request: ApprovalRequest) -> dict[str, str]:
    if request.gate != Gate.PATCH:
        return {}
    patch = Artifact.objects.filter(run_id=request.run_id, pk=request.subject["id"]).first()
    files = patch_diff(patch)["files"] if patch else []
    return {file["path"]: file["digest"] for file in files}
