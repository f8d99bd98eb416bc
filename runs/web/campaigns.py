"""The pages of campaigns: all of them, one, and what its buttons do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from runs import service
from runs.auth import get_campaign, require_steering
from runs.domain.campaigns.limits import CHANGEABLE
from runs.domain.commands import Caller
from runs.domain.errors import Invalid, NotFound
from runs.domain.facts import Json
from runs.models import Campaign
from runs.selectors.campaign_page import campaign_page
from runs.selectors.campaigns import campaign_list
from runs.web.forms import number_or_text
from runs.web.session import page, principal_of, show


@page
@require_safe
def campaigns(request: HttpRequest) -> HttpResponse:
    """The list of campaigns."""
    found = campaign_list(principal=principal_of(request), params=request.GET.dict())
    return show(request, "runs/campaigns.html", "runs/_campaigns.html", found)


@page
@require_safe
def campaign(request: HttpRequest, campaign_id: str) -> HttpResponse:
    """One campaign."""
    principal = principal_of(request)
    row = get_campaign(principal, campaign_id)
    found = campaign_page(campaign=row, principal=principal, params=request.GET.dict())
    return show(request, "runs/campaign.html", "runs/_campaign.html", {"campaign": found})


@page
@require_POST
def campaign_action(request: HttpRequest, campaign_id: str, action: str) -> HttpResponse:
    """One of the campaign's buttons."""
    principal = principal_of(request)
    row, act = get_campaign(principal, campaign_id), _ACTIONS.get(action)
    if act is None:
        raise NotFound
    require_steering(principal, row)
    key = request.POST.get("idempotency_key", "")[:255]
    messages.success(request, act(row, request.POST, principal.caller, key))
    return redirect("campaign", row.pk)


def _pause(row: Campaign, data: QueryDict, by: Caller, key: str) -> str:
    reason = data.get("reason", "").strip()
    service.campaign_pause(campaign_id=row.pk, reason=reason, by=by, key=key)
    return "Paused. What runs hears of it within seconds."


def _resume(row: Campaign, data: QueryDict, by: Caller, key: str) -> str:
    service.campaign_resume(campaign_id=row.pk, by=by, key=key)
    return "It goes on."


def _retry(row: Campaign, data: QueryDict, by: Caller, key: str) -> str:
    service.campaign_retry(campaign_id=row.pk, by=by, key=key)
    return "What failed is begun again."


def _cancel(row: Campaign, data: QueryDict, by: Caller, key: str) -> str:
    reason = data.get("reason", "").strip()
    if not reason:
        raise Invalid({"reason": ["is required"]})
    service.campaign_cancel(campaign_id=row.pk, reason=reason, by=by, key=key)
    return "Asked to stop. Its tasks are cancelled within seconds."


def _change(row: Campaign, data: QueryDict, by: Caller, key: str) -> str:
    service.campaign_change(campaign_id=row.pk, limits=changed_limits(data), by=by, key=key)
    return "Saved."


def changed_limits(data: QueryDict) -> Json:
    """The limits as typed; an empty one is no limit, and a number that is none stays text: the service says
    so."""
    typed = {name: str(data.get(name) or "").strip() for name in CHANGEABLE if name in data}
    return {
        name: (text if name == "max_cost_usd" else number_or_text(text)) if text else None
        for name, text in typed.items()
    }


_ACTIONS: Final[dict[str, Callable[[Campaign, QueryDict, Caller, str], str]]] = {
    "pause": _pause,
    "resume": _resume,
    "retry": _retry,
    "cancel": _cancel,
    "change": _change,
}
