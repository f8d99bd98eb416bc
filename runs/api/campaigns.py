"""Campaigns over REST: make one, see how it and its repositories stand, steer it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import Fields, Query, idempotency_key, json_object
from runs.api.schema import says, words_of
from runs.api.words import WHOLE
from runs.auth import (
    Action,
    get_campaign,
    repositories_for,
    require_anywhere,
    require_person,
    require_steering,
    visible_campaigns,
)
from runs.domain.campaigns.limits import CHANGEABLE
from runs.domain.campaigns.words import CampaignStatus, PartState
from runs.domain.facts import Json
from runs.domain.payloads import MAX_REASON
from runs.models import Campaign, CampaignEvent
from runs.selectors.campaigns import campaign_parts, campaign_shapes, event_shape, part_shape

_KEY: Final = ("Idempotency-Key",)


class Campaigns(ApiView):
    """``GET campaigns`` and ``POST campaigns``"""

    @says(answer="CampaignPage", is_list=True, query={"status": words_of(CampaignStatus)})
    def get(self, request: Request) -> Response:
        """Campaigns over repositories that the caller may see, newest first."""
        require_person(self.principal)
        rows = visible_campaigns(self.principal).select_related("created_by")
        if statuses := Query(request).words("status", list(CampaignStatus)):
            rows = rows.filter(status__in=statuses)
        return Response(page(request, rows, campaign_shapes))

    @says(answer="Campaign", status=201, also=(200,), body="CampaignBody", headers=_KEY)
    def post(self, request: Request) -> Response:
        """Make a campaign; its first wave is begun within seconds."""
        require_person(self.principal)
        require_anywhere(self.principal, Action.TASK_CREATE)
        campaign, made = service.campaign_create(
            data=json_object(request),
            known=repositories_for(self.principal, Action.TASK_CREATE),
            by=self.principal.caller,
            key=idempotency_key(request),
        )
        if made:
            return Response(_shown(self, campaign.pk), status=201)
        return Response(_shown(self, campaign.pk), headers={"Idempotency-Replayed": "true"})


class OneCampaign(ApiView):
    """``GET`` and ``PATCH campaigns/{id}``"""

    @says(answer="Campaign")
    def get(self, request: Request, campaign_id: str) -> Response:
        """One campaign."""
        require_person(self.principal)
        return Response(_shown(self, campaign_id))

    @says(answer="Campaign", body="CampaignChanges", headers=_KEY)
    def patch(self, request: Request, campaign_id: str) -> Response:
        """Change the limits that may still be changed."""
        campaign = _own(self, campaign_id)
        body = json_object(request)
        limits = {name: body[name] for name in body if name in CHANGEABLE or name in _FIXED}
        service.campaign_change(
            campaign_id=campaign.pk,
            limits=limits,
            by=self.principal.caller,
            key=idempotency_key(request),
        )
        return Response(_shown(self, campaign_id))


#: Said to be fixed, instead of ignored as an unknown field is.
_FIXED: Final = ("first_wave", "growth", "completion", "contract", "repositories")


class CampaignParts(ApiView):
    """``GET campaigns/{id}/parts``"""

    @says(
        answer="CampaignParts",
        query={"state": words_of(PartState), "after": WHOLE, "limit": {**WHOLE, "minimum": 1}},
    )
    def get(self, request: Request, campaign_id: str) -> Response:
        """Its repositories in their order; ``after`` is the ``next`` of the page before."""
        require_person(self.principal)
        campaign, query = get_campaign(self.principal, campaign_id), Query(request)
        after = query.integer("after", 0, high=2**31 - 1)
        rows = campaign_parts(campaign).filter(position__gt=after)
        if states := query.words("state", list(PartState)):
            rows = rows.filter(state__in=states)
        found = list(rows[: query.limit + 1])
        more, found = len(found) > query.limit, found[: query.limit]
        shown = [part_shape(part) for part in found]
        return Response({"results": shown, "next": found[-1].position if more else None})


class CampaignEvents(ApiView):
    """``GET campaigns/{id}/events``"""

    @says(answer="CampaignEvents", query={"after": WHOLE, "limit": {**WHOLE, "minimum": 1}})
    def get(self, request: Request, campaign_id: str) -> Response:
        """Its log, in sequence; ``after`` is the ``next`` of the page before."""
        require_person(self.principal)
        campaign, query = get_campaign(self.principal, campaign_id), Query(request)
        log = CampaignEvent.objects.filter(campaign=campaign, sequence__gt=query.integer("after", 0))
        found = list(log.order_by("sequence")[: query.limit + 1])
        more, found = len(found) > query.limit, found[: query.limit]
        shown = [event_shape(row) for row in found]
        return Response({"results": shown, "next": found[-1].sequence if more else None})


def _own(view: ApiView, campaign_id: str) -> Campaign:
    """The campaign, where the caller may steer it."""
    require_person(view.principal)
    campaign = get_campaign(view.principal, campaign_id)
    require_steering(view.principal, campaign)
    return campaign


def _shown(view: ApiView, campaign_id: str) -> Json:
    return campaign_shapes([get_campaign(view.principal, campaign_id)])[0]


# --- actions --------------------------------------------------------------------------------------


class CampaignAction(ApiView, ABC):
    """Base of what people do to a campaign."""

    @says(answer="Campaign", body="NothingBody", headers=_KEY)
    def post(self, request: Request, campaign_id: str) -> Response:
        """Do it; the answer is the campaign."""
        campaign = _own(self, campaign_id)
        self.act(campaign, Fields(json_object(request)), idempotency_key(request))
        return Response(_shown(self, campaign_id))

    @abstractmethod
    def act(self, campaign: Campaign, fields: Fields, key: str) -> None:
        """Call the service."""


class PauseCampaign(CampaignAction):
    """``POST campaigns/{id}/pause``"""

    @says(answer="Campaign", body="ReasonBody", headers=_KEY)
    def post(self, request: Request, campaign_id: str) -> Response:
        """Begin nothing, claim nothing, bring nothing out; ask what runs to pause."""
        return super().post(request, campaign_id)

    def act(self, campaign: Campaign, fields: Fields, key: str) -> None:
        """Its hold stands from now on; running work hears of it within seconds."""
        reason = fields.text("reason", limit=MAX_REASON).strip()
        fields.done()
        service.campaign_pause(campaign_id=campaign.pk, reason=reason, by=self.principal.caller, key=key)


class ResumeCampaign(CampaignAction):
    """``POST campaigns/{id}/resume``"""

    def act(self, campaign: Campaign, fields: Fields, key: str) -> None:
        """Go on; after it stopped by itself, in spite of what failed."""
        service.campaign_resume(campaign_id=campaign.pk, by=self.principal.caller, key=key)


class RetryCampaign(CampaignAction):
    """``POST campaigns/{id}/retry``"""

    def act(self, campaign: Campaign, fields: Fields, key: str) -> None:
        """Begin every failed repository again, with a new task."""
        service.campaign_retry(campaign_id=campaign.pk, by=self.principal.caller, key=key)


class CancelCampaign(CampaignAction):
    """``POST campaigns/{id}/cancel``"""

    @says(answer="Campaign", body="CancelBody", headers=_KEY)
    def post(self, request: Request, campaign_id: str) -> Response:
        """Cancel it and its tasks; the answer is the campaign."""
        return super().post(request, campaign_id)

    def act(self, campaign: Campaign, fields: Fields, key: str) -> None:
        """Its tasks are cancelled within seconds."""
        reason = fields.text("reason", limit=MAX_REASON, required=True).strip()
        fields.done()
        service.campaign_cancel(campaign_id=campaign.pk, reason=reason, by=self.principal.caller, key=key)
