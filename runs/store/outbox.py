"""Domain events, their deliveries, and refusals."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection
from django.db.models import F
from psycopg import Cursor

from agentplatform.ids import new_id
from agentplatform.tracing import traceparent
from runs.domain.facts import Event, Json
from runs.domain.table import domain_event
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Delivery, OutboxMessage, Refusal

#: Consumers and the names of the domain events that each wants, None for all; filled by wiring.
CONSUMERS: dict[str, frozenset[str] | None] = {}


def publish_run(cursor: Cursor[Any], events: Sequence[Event]) -> None:
    """Domain events of these transitions, in the same transaction."""
    named = [(event, _name(event)) for event in events]
    publish(cursor, [(event, name, {"run_id": event.run_id}) for event, name in named if name])


def _name(event: Event) -> str:
    source = RunStatus(event.from_status) if event.from_status else None
    return domain_event(Ev(event.type), source, RunStatus(event.to_status))


_PUBLISH = """
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS x(message_id text, stream text, sequence bigint, name text,
        payload jsonb, created_at timestamptz, traceparent text, consumers text[])
), made AS (
    INSERT INTO outbox (message_id, stream, sequence, name, payload, created_at, traceparent)
    SELECT message_id, stream, sequence, name, payload, created_at, traceparent FROM given ORDER BY sequence
    RETURNING id, message_id
)
INSERT INTO deliveries (message_id, consumer, stream, state, tries, next_try_at, claim, error)
SELECT made.id, consumer, given.stream, 'pending', 0, given.created_at, '', ''
FROM made JOIN given USING (message_id) CROSS JOIN LATERAL unnest(given.consumers) consumer
"""


def publish(cursor: Cursor[Any], items: Sequence[tuple[Event, str, Json]]) -> None:
    """Outbox rows and one delivery per consumer; one statement."""
    if items:
        cursor.execute(_PUBLISH, [json.dumps([_message(*item) for item in items])])


def _message(event: Event, name: str, ids: Json) -> Json:
    return {
        "message_id": new_id("msg"),
        "stream": event.run_id,
        "sequence": event.sequence,
        "name": name,
        "payload": {
            **ids,
            "event_id": event.id,
            "event_type": event.type,
            "sequence": event.sequence,
            "from_status": event.from_status,
            "status": event.to_status,
            "occurred_at": event.recorded_at,
        },
        "created_at": event.recorded_at,
        "traceparent": traceparent(),
        "consumers": [consumer for consumer, wanted in CONSUMERS.items() if wanted is None or name in wanted],
    }


def pass_on(message_id: str, consumers: Collection[str]) -> None:
    """A message that was published before, for further consumers; those who have it keep theirs."""
    message = OutboxMessage.objects.get(message_id=message_id)
    Delivery.objects.bulk_create(
        [
            Delivery(
                message=message, consumer=consumer, stream=message.stream, next_try_at=message.created_at
            )
            for consumer in consumers
        ],
        ignore_conflicts=True,
    )


def record_refusal(**columns: Any) -> None:
    """One refused call, in a table of its own."""
    Refusal.objects.create(**columns)


# --- deliveries -----------------------------------------------------------------------------------

_CLAIM = """
UPDATE deliveries SET claim = %(claim)s,
    claimed_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE id IN (
    SELECT d.id FROM deliveries d
    WHERE d.consumer = %(consumer)s AND d.state = 'pending' AND d.next_try_at <= clock_timestamp()
    AND (d.claimed_until IS NULL OR d.claimed_until < clock_timestamp())
    AND NOT EXISTS (
        SELECT 1 FROM deliveries e WHERE e.consumer = d.consumer AND e.stream = d.stream
        AND e.state = 'pending' AND e.message_id < d.message_id
    )
    ORDER BY d.message_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
RETURNING id
"""


def claim_deliveries(consumer: str, *, claim: str, seconds: float, limit: int) -> list[Delivery]:
    """Due deliveries of a consumer, the first of each stream, claimed for ``seconds``; oldest first.

    A later message of a stream waits for every earlier one that is neither delivered nor parked.
    """
    words: dict[str, str | float] = {"consumer": consumer, "claim": claim, "seconds": seconds, "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, words)
        ids = [row[0] for row in cursor.fetchall()]
    return list(Delivery.objects.select_related("message").filter(pk__in=ids).order_by("message_id"))


def begin_try(delivery: Delivery) -> bool:
    """Count a try before it is made, if the claim is still ours: a sender that dies of it has tried.

    What was claimed with it and not begun has not: it must not be given up for another message's sake.
    """
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=Delivery.PENDING)
    begun = bool(mine.update(tries=F("tries") + 1))
    delivery.tries += begun
    return begun


def settle_delivery(delivery: Delivery, **columns: Any) -> bool:
    """Write the end of a try, if the claim is still ours; False where another sender took it over."""
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=Delivery.PENDING)
    return bool(mine.update(claim="", claimed_until=None, **columns))
