"""Domain events and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentplatform.ids import new_id
from runs.domain.facts import Event, Json, moment
from runs.domain.table import domain_event
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Delivery, OutboxMessage, Refusal

CONSUMERS: list[str] = []  #: names of outbox consumers; filled by wiring


def publish_run(events: Sequence[Event]) -> None:
    """Domain events of these transitions, in the same transaction."""
    named = [(event, _name(event)) for event in events]
    publish([(event, name, {"run_id": event.run_id}) for event, name in named if name])


def _name(event: Event) -> str:
    source = RunStatus(event.from_status) if event.from_status else None
    return domain_event(Ev(event.type), source, RunStatus(event.to_status))


def publish(items: Sequence[tuple[Event, str, Json]]) -> None:
    """Outbox rows and one delivery per consumer."""
    if not items:
        return
    messages = OutboxMessage.objects.bulk_create(
        [
            OutboxMessage(
                message_id=new_id("msg"),
                stream=event.run_id,
                sequence=event.sequence,
                name=name,
                payload={
                    **ids,
                    "event_id": event.id,
                    "event_type": event.type,
                    "sequence": event.sequence,
                    "from_status": event.from_status,
                    "status": event.to_status,
                    "occurred_at": event.recorded_at,
                },
                created_at=moment(event.recorded_at),
            )
            for event, name, ids in items
        ]
    )
    Delivery.objects.bulk_create(
        [
            Delivery(
                message=message, consumer=consumer, stream=message.stream, next_try_at=message.created_at
            )
            for message in messages
            for consumer in CONSUMERS
        ]
    )


def record_refusal(**columns: Any) -> None:
    """One refused call, in a table of its own."""
    Refusal.objects.create(**columns)
