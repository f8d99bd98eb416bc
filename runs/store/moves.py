"""What the logs of tasks and of campaigns have in common: a move as a row, and a row as a move."""

from __future__ import annotations

from runs.domain.facts import Actor, Event, Json, stamp
from runs.models import CampaignEvent, TaskEvent


def move_columns(event: Event, *, owner: str) -> Json:
    """The columns of a move; ``owner`` names the one that says whose it is."""
    return {
        "id": event.id,
        owner: event.run_id,
        "sequence": event.sequence,
        "event_type": event.type,
        "from_status": event.from_status,
        "to_status": event.to_status,
        "actor_type": event.actor.type,
        "actor_id": event.actor.id,
        "actor_name": event.actor.name,
        "payload": event.payload,
        "facts": event.facts,
        "schema_version": event.schema_version,
        "recorded_at": event.recorded_at,
        "previous_hash": event.previous_hash,
        "hash": event.hash,
    }


def move_of(row: TaskEvent | CampaignEvent, *, owner: str, key: str = "", fingerprint: str = "") -> Event:
    """A stored move as the domain sees it; ``owner`` is the id of the task or campaign."""
    at = stamp(row.recorded_at)
    return Event(
        run_id=owner,
        sequence=row.sequence,
        type=row.event_type,
        from_status=row.from_status,
        to_status=row.to_status,
        attempt=0,
        actor=Actor(row.actor_type, row.actor_id, row.actor_name),
        fence=0,
        payload=row.payload,
        facts=row.facts,
        recorded_at=at,
        occurred_at=at,
        schema_version=row.schema_version,
        id=row.pk,
        key=key,
        fingerprint=fingerprint,
        previous_hash=row.previous_hash,
        hash=row.hash,
    )
