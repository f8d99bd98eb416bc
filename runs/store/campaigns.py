"""Campaign rows, their parts and their log, by the rules of a task's. A campaign is locked first of all."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg import Cursor

from agentplatform import rows
from agentplatform.ids import new_id
from agentplatform.rows import together
from agentplatform.turns import Turn, take_turn
from runs.domain.campaigns.decide import Draft
from runs.domain.campaigns.state import CampaignState, Part, evolve_campaign
from runs.domain.campaigns.table import CAMPAIGN_DOMAIN_EVENTS, campaign_target
from runs.domain.errors import NotAllowedNow, NotFound
from runs.domain.facts import Actor, Event, Json, moment, stamp
from runs.models import Campaign, CampaignEvent, CampaignPart
from runs.store import chain
from runs.store.moves import move_columns, move_of
from runs.store.outbox import publish


@dataclass(slots=True)
class HeldCampaign:
    """A locked campaign with its state, parts and all."""

    row: Campaign
    state: CampaignState


def lock_campaign(campaign_id: str) -> HeldCampaign:
    """The campaign, locked, before everything else in the lock order. ``NotFound`` where there is none."""
    found = Campaign.objects.select_for_update(of=("self",), no_key=True).filter(pk=campaign_id).first()
    if found is None:
        raise NotFound
    return HeldCampaign(found, campaign_state(found))


def campaign_state(row: Campaign) -> CampaignState:
    """The stored campaign as the domain sees it. One query."""
    parts = CampaignPart.objects.filter(campaign_id=row.pk).order_by("position")
    return CampaignState.from_json(row.state, (part.as_part() for part in parts))


def lock_pace() -> None:
    """Wait until no other pull request of a paced campaign is being begun, to the end of the transaction."""
    take_turn(Turn.PACE)


def find_campaign_key(campaign_id: str, key: str) -> Event | None:
    """The event that is stored under this key."""
    row = CampaignEvent.objects.filter(campaign_id=campaign_id, idempotency_key=key).first() if key else None
    return campaign_event_of(row) if row else None


def append_campaign(
    held: HeldCampaign, drafts: Iterable[Draft], *, now: datetime, key: str = "", request: str = ""
) -> list[Event]:
    """The next events of a locked (or new) campaign, its row and its parts with them; ``key`` is the first's,
    and ``request`` the fingerprint of what was asked under it.

    Raises ``NotAllowedNow`` where the table has no such cell.
    """
    before = {pk: copy(part) for pk, part in held.state.parts.items()}
    events: list[Event] = []
    for draft in drafts:
        events.append(_next(held, draft, now=now, key="" if events else key, request=request))
    is_new = events[0].sequence == 1
    _project(held, events[-1], is_new=is_new)
    changed = [part for pk, part in held.state.parts.items() if before.get(pk) != part]
    with together() as cursor:
        rows.insert(cursor, CampaignEvent, [_columns(event) for event in events])
        write = rows.insert if is_new else _update_parts
        write(cursor, CampaignPart, [part_columns(held.row.pk, part) for part in changed])
        named = [(event, CAMPAIGN_DOMAIN_EVENTS.get(event.type)) for event in events]  # type: ignore[call-overload]
        publish(cursor, [(event, name, {"campaign_id": held.row.pk}) for event, name in named if name])
    return events


def _next(held: HeldCampaign, draft: Draft, *, now: datetime, key: str, request: str) -> Event:
    state, row = held.state, held.row
    target = campaign_target(draft.event, state.status)
    if target is None:
        raise NotAllowedNow(
            f"A campaign that is {state.status} does not take {draft.event}.", status=state.status
        )
    actor = Actor(str(draft.actor.type), draft.actor.id, draft.actor.name)
    event = Event(
        run_id=row.pk,
        sequence=state.sequence + 1,
        type=draft.event.value,
        from_status=state.status,
        to_status=target.value,
        attempt=0,
        actor=actor,
        fence=0,
        payload=draft.payload,
        facts=draft.facts,
        recorded_at=stamp(now),
        occurred_at=stamp(now),
        id=new_id("evt"),
        key=key,
        fingerprint=request if key else "",
        previous_hash=row.chain_hash,
    )
    event = replace(event, hash=chain.hash_of(event))
    row.chain_hash = event.hash
    if event.from_status:
        getattr(row, event.type)(to=event.to_status)
    evolve_campaign(state, event)
    return event


def _project(held: HeldCampaign, last: Event, *, is_new: bool) -> None:
    row = held.row
    for name, value in campaign_columns(held.state).items():
        setattr(row, name, value)
    row.chain_mac = chain.mac(row.pk, last.sequence, last.hash)
    row.save(force_insert=is_new, force_update=not is_new)


def campaign_columns(state: CampaignState) -> Json:
    """The row's columns as the campaign's state says."""
    return {
        "title": state.title,
        "state": state.to_json(),
        "parts_total": len(state.parts),
        "pull_requests_per_hour": state.limits["pull_requests_per_hour"],
        "version": state.sequence,
        "created_at": moment(state.created_at),
        "updated_at": moment(state.updated_at),
        "ended_at": moment(state.ended_at) if state.ended_at else None,
    }


def part_columns(campaign_id: str, part: Part) -> Json:
    """A part's columns; times are stamps."""
    return {
        "campaign_id": campaign_id,
        "repository_id": part.repository_id,
        "position": part.position,
        "state": part.state,
        "tries": part.tries,
        "task_id": part.task_id or None,
        "wave": part.wave,
        "reason": part.reason,
        "accepted": part.accepted,
        "cost_usd": part.cost_usd,
        "started_at": part.started_at or None,
        "ended_at": part.ended_at or None,
    }


def _update_parts(cursor: Cursor[Any], model: type[CampaignPart], columns: list[Json]) -> None:
    rows.update(cursor, model, columns, by=("campaign_id", "repository_id"))


def _columns(event: Event) -> Json:
    asked = {"idempotency_key": event.key or None, "request_fingerprint": event.fingerprint}
    return {**move_columns(event, owner="campaign_id"), **asked}


def campaign_event_of(row: CampaignEvent) -> Event:
    """A stored event as the domain sees it."""
    return move_of(
        row, owner=row.campaign_id, key=row.idempotency_key or "", fingerprint=row.request_fingerprint
    )


def campaign_events_of(campaign_id: str) -> Iterable[Event]:
    """The log of a campaign, in sequence."""
    found = CampaignEvent.objects.filter(campaign_id=campaign_id).order_by("sequence")
    return (campaign_event_of(row) for row in found.iterator(chunk_size=1_000))
