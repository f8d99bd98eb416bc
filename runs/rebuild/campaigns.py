"""A campaign's rows against its own log."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from runs import store
from runs.domain.campaigns.state import CampaignState, fold_campaign
from runs.domain.facts import Json, moment
from runs.models import Campaign, CampaignPart
from runs.rebuild.comparing import Difference, compare, compare_rows


def _folded(campaign: Campaign) -> tuple[CampaignState, Json]:
    state = fold_campaign(store.campaign_events_of(campaign.pk))
    return state, {**store.campaign_columns(state), "status": state.status}


def campaign_differences(campaign: Campaign) -> Iterator[Difference]:
    """Where a locked campaign's rows differ from its log."""
    state, columns = _folded(campaign)
    yield from compare(campaign.pk, "campaign", campaign, columns)
    rows = {part.repository_id: part for part in CampaignPart.objects.filter(campaign=campaign)}
    yield from compare_rows(campaign.pk, "part", rows, _parts(state))


def _parts(state: CampaignState) -> dict[str, Json]:
    return {pk: _typed(store.part_columns(state.id, part)) for pk, part in state.parts.items()}


def _typed(columns: Json) -> Json:
    """As the row holds it: money as a number, times as moments."""
    times = {name: _time(columns[name]) for name in ("started_at", "ended_at")}
    return {**columns, **times, "cost_usd": Decimal(columns["cost_usd"])}


def _time(text: str | None) -> Any:
    return moment(text) if text else None


def rewrite_campaign(campaign: Campaign) -> None:
    """Write a locked campaign's rows as its log says."""
    state, columns = _folded(campaign)
    Campaign.objects.filter(pk=campaign.pk).update(**columns)
    for pk, part in _parts(state).items():
        CampaignPart.objects.filter(campaign=campaign, repository_id=pk).update(**part)
