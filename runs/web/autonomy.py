"""Earned autonomy: what the judge's word was worth, and what a person makes of it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from runs import service
from runs.auth import require_policy
from runs.domain.errors import Invalid, NotAllowedNow
from runs.models import Repository
from runs.selectors.autonomy import Proposed
from runs.selectors.autonomy_page import (
    autonomy_list,
    autonomy_of,
    evidence_words,
    find_proposal,
    find_repository,
)
from runs.selectors.policies import repositories_below
from runs.web.session import page, principal_of


@page
@require_safe
def autonomy(request: HttpRequest) -> HttpResponse:
    """Every repository that has verdicts."""
    return render(request, "runs/autonomy.html", autonomy_list(principal=principal_of(request)))


@page
@require_safe
def autonomy_page(request: HttpRequest, name: str) -> HttpResponse:
    """One repository's evidence, and what is proposed."""
    found = autonomy_of(principal=principal_of(request), name=name, params=request.GET.dict())
    return render(request, "runs/autonomy_of.html", {"autonomy": found})


@page
@require_POST
def autonomy_apply(request: HttpRequest, name: str) -> HttpResponse:
    """Make the proposal that was looked at the policy's next version."""
    principal = principal_of(request)
    row = find_repository(principal, name)
    require_policy(principal, repositories_below(row.policy))
    proposed = _as_shown(row, request.POST.get("value", ""), request.POST.get("based_on", ""))
    reason = request.POST.get("reason", "").strip()
    if not reason:
        raise Invalid({"reason": ["say why"]})
    made = service.policy_change(
        policy=row.policy,
        values=dict(proposed.values),
        based_on=proposed.based_on,
        by=principal.caller,
        reason=reason,
        note=f"Earned autonomy in {row.name}: {evidence_words(proposed)}",
    )
    messages.success(request, f"{row.policy} is at version {made.number}. It holds from now on.")
    return redirect(reverse("autonomy_of", args=[row.name]))


def _as_shown(row: Repository, value: str, based_on: str) -> Proposed:
    """What is proposed now, if it is what the person saw. Raises ``NotAllowedNow``."""
    proposed = find_proposal(row)
    seen = proposed and (f"{proposed.proposal.threshold:g}", str(proposed.based_on))
    if proposed is None or seen != (value, based_on):
        raise NotAllowedNow("The evidence or the policy moved meanwhile; look at what is proposed now.")
    if proposed.obstacle:
        raise NotAllowedNow(proposed.obstacle)
    return proposed
