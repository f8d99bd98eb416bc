"""Campaigns as lists and answers show them. Each list costs a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from django.db.models import QuerySet, Sum
from django.urls import reverse

from agentplatform.clock import database_now
from runs.auth import Action, Principal, repositories_for, visible_campaigns
from runs.domain.campaigns.display import Standing, campaign_display, campaign_waits_for, part_display
from runs.domain.campaigns.state import CampaignState
from runs.domain.campaigns.words import CampaignStatus, PartState
from runs.domain.facts import Json, stamp
from runs.domain.waiting import Wait
from runs.models import Campaign, CampaignEvent, CampaignPart, Run, Task
from runs.selectors.paging import keyset_page
from runs.selectors.words import joined, money, when
from runs.service import campaigns_full

_FILTERS: Final = ("status",)


class Readings:
    """What the rows of one page need beside themselves: spending and pace. Five queries at most."""

    def __init__(self, campaigns: Sequence[Campaign]) -> None:
        self.now = stamp(database_now())
        # From the row, not from the parts: its status, wave and counts are of one moment.
        self.counts: dict[str, dict[str, int]] = {row.pk: row.state["counts"] for row in campaigns}
        self.spent = campaign_spending([row.pk for row in campaigns])
        self.full = campaigns_full()

    def standing(self, campaign: Campaign) -> Standing:
        """What of it this campaign's wait depends on."""
        return Standing(self.counts[campaign.pk], self.now, self.full.get(campaign.pk))

    def wait(self, campaign: Campaign) -> Wait | None:
        """What it waits for."""
        return campaign_waits_for(CampaignState.from_json(campaign.state), self.standing(campaign))


def campaign_spending(ids: Iterable[str]) -> dict[str, Decimal]:
    """Campaign id → US dollars that its runs reported until now. One query."""
    runs = Run.objects.filter(task__campaign_id__in=list(ids)).order_by()
    spent = runs.values_list("task__campaign_id").annotate(spent=Sum("cost_usd"))
    return {pk: amount for pk, amount in spent if pk}


# --- the API --------------------------------------------------------------------------------------


def campaign_shapes(campaigns: Sequence[Campaign]) -> list[Json]:
    """The API's ``campaign`` of each; their creators are loaded. Five queries at most."""
    readings = Readings(campaigns)
    return [_shape(campaign, readings) for campaign in campaigns]


def _shape(campaign: Campaign, readings: Readings) -> Json:
    state, wait = CampaignState.from_json(campaign.state), readings.wait(campaign)
    return {
        "id": campaign.pk,
        "title": campaign.title,
        "status": campaign.status,
        "sequence": campaign.version,
        "contract": state.contract,
        "repositories": state.selection,
        **state.limits,
        "wave": state.wave,
        "opened": state.opened,
        "total": campaign.parts_total,
        "counts": readings.counts[campaign.pk],
        "spent_usd": f"{readings.spent.get(campaign.pk) or Decimal(0):f}",
        "waiting_for": wait.to_json() if wait else None,
        "created_by": campaign.created_by.get_username(),
        "created_at": stamp(campaign.created_at),
        "updated_at": stamp(campaign.updated_at),
        "ended_at": stamp(campaign.ended_at) if campaign.ended_at else None,
    }


def campaign_parts(campaign: Campaign) -> QuerySet[CampaignPart]:
    """Its repositories in their order, each with its present task. No query by itself."""
    rows = campaign.parts.select_related("repository", "task")  # each knows the campaign without a query
    return rows.order_by("position")


def part_shape(part: CampaignPart) -> Json:
    """The API's ``campaign part``; its repository is loaded. No query."""
    return {
        "repository": part.repository.name,
        "position": part.position,
        "state": part.state,
        "tries": part.tries,
        "wave": part.wave or None,
        "task_id": part.task_id,
        "reason": part.reason or None,
        "accepted": part.accepted,
        "cost_usd": f"{part.cost_usd:f}",
        "started_at": stamp(part.started_at) if part.started_at else None,
        "ended_at": stamp(part.ended_at) if part.ended_at else None,
    }


def event_shape(row: CampaignEvent) -> Json:
    """The API's ``campaign event``. No query."""
    return {
        "id": row.pk,
        "campaign_id": row.campaign_id,
        "sequence": row.sequence,
        "type": row.event_type,
        "from_status": row.from_status or None,
        "to_status": row.to_status,
        "actor": {"type": row.actor_type, "id": row.actor_id, "name": row.actor_name},
        "payload": row.payload,
        "facts": row.facts,
        "recorded_at": stamp(row.recorded_at),
        "hash": row.hash,
    }


def campaign_link(task: Task, principal: Principal) -> Json | None:
    """``{text, href}`` of the campaign that a task is part of, href "" for those who may not see all of it;
    None where it is none's. One query where there is one."""
    if not task.campaign_id:
        return None
    row = visible_campaigns(principal).filter(pk=task.campaign_id).first()
    if row is None:
        return {"text": "a campaign", "href": ""}
    return {"text": row.title, "href": reverse("campaign", args=[row.pk])}


# --- the page of all ------------------------------------------------------------------------------


def campaign_list(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{rows, pager, filters, empty, may_create}`` of /campaigns/. Seven queries at most."""
    chosen = params.get("status", "")
    rows = visible_campaigns(principal).select_related("created_by")
    if chosen in list(CampaignStatus):
        rows = rows.filter(status=chosen)
    found, pager = keyset_page(rows, params)
    readings = Readings(found) if found else None
    may_create = repositories_for(principal, Action.TASK_CREATE).exists()
    return {
        "rows": [_row(campaign, readings) for campaign in found if readings],
        "pager": pager,
        "filters": _filters(chosen),
        "empty": _empty(bool(chosen), may_create=may_create),
        "may_create": may_create,
        "live": any(row.ended_at is None for row in found),
    }


def _row(campaign: Campaign, readings: Readings) -> Json:
    counts, wait = readings.counts[campaign.pk], readings.wait(campaign)
    return {
        "href": reverse("campaign", args=[campaign.pk]),
        "title": campaign.title,
        "display": campaign_display(campaign.status),
        "sentence": wait.sentence if wait else "",
        "meta": joined(
            f"{counts[PartState.DONE]} of {campaign.parts_total} done",
            f"{counts[PartState.FAILED]} failed" if counts[PartState.FAILED] else "",
            money(readings.spent.get(campaign.pk)),
            campaign.created_by.get_username(),
        ),
        "created": when(campaign.created_at),
        "strip": strip(counts),
    }


def strip(counts: Mapping[str, int]) -> list[Json]:
    """``[{state, title, tone, count, x, width}]``, of a hundred: how the repositories of a campaign stand."""
    total, left, pieces = sum(counts.values()) or 1, 0.0, []
    order = (PartState.DONE, PartState.DELIVERED, PartState.RUNNING, PartState.FAILED, PartState.CANCELLED)
    for state in (*order, PartState.WAITING):
        width = 100 * counts[state] / total
        if counts[state]:
            pieces.append(
                {**part_display(state), "count": counts[state], "x": round(left, 2), "width": round(width, 2)}
            )
        left += width
    return pieces


def _filters(chosen: str) -> Json:
    options = [{"value": "", "label": "Any", "selected": not chosen}]
    options += [
        {"value": word.value, "label": word.label, "selected": word == chosen} for word in CampaignStatus
    ]
    field = {"name": "status", "label": "State", "kind": "select", "value": chosen, "options": options}
    return {"fields": [field], "active": bool(chosen), "clear_url": reverse("campaigns")}


def _empty(filtered: bool, *, may_create: bool) -> Json:  # noqa: FBT001  a value, not a switch
    if filtered:
        clear = {"label": "Clear the filter", "href": reverse("campaigns")}
        return {"title": "No campaign is in this state", "hint": "", "action": clear}
    hint = "A campaign takes one contract through many repositories, wave by wave."
    action = {"label": "Start one", "href": reverse("campaign_new")} if may_create else None
    return {"title": "No campaigns yet", "hint": hint, "action": action}
