"""The relay: domain events from the outbox to their consumers (lifecycle contract, section 14).

In order within a run or task, at least once, each with a stable id to deduplicate by. The database is the
truth; whoever calls ``relay`` (Celery's beat, a command) is only a nudge, and so are the tasks sent here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

import structlog
from celery import current_app

from agentplatform import stopping
from agentplatform.clock import database_now
from agentplatform.ids import new_id
from agentplatform.tracing import continued
from runs import store
from runs.domain.facts import Json
from runs.models import Delivery, OutboxMessage

log = structlog.get_logger(__name__)

MAX_TRIES: Final = 12
FIRST_WAIT: Final = timedelta(seconds=5)
LONGEST_WAIT: Final = timedelta(hours=1)
#: How long a sender that died keeps its messages from the next one, unless its consumer needs longer.
CLAIM_SECONDS: Final = 8.0
BATCH: Final = 50


@dataclass(frozen=True, slots=True)
class Message:
    """A domain event. ``id`` is the same at every try; ``sequence`` grows within ``stream``."""

    id: str
    stream: str
    sequence: int
    name: str
    payload: Json
    created_at: datetime
    traceparent: str = ""  #: the trace that it was written in


Handler = Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class _Consumer:
    handle: Handler
    claim_seconds: float


@dataclass(slots=True)
class Relayed:
    """What one relay did: numbers of messages by consumer."""

    delivered: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    parked: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)  #: sent, but the claim had run out meanwhile


_consumers: dict[str, _Consumer] = {}


def register(
    name: str,
    handler: Handler,
    *,
    wants: Collection[str] | None = None,
    claim_seconds: float = CLAIM_SECONDS,
) -> None:
    """Let ``handler`` have the domain events named in ``wants`` from now on, or every one.

    It may see an event twice and deduplicates by its id. It raises when it could not take it, and is tried
    again later. ``claim_seconds`` is above the longest that one message may take it.
    """
    _consumers[name] = _Consumer(handler, claim_seconds)
    store.CONSUMERS[name] = None if wants is None else frozenset(wants)


def consumers() -> tuple[str, ...]:
    """Their names."""
    return tuple(_consumers)


_senders: list[Callable[[Relayed], None]] = []


def sends_out(send: Callable[[Relayed], None]) -> None:
    """Let ``send`` be called where something may go out: mail, chat, webhooks. It adds to the numbers."""
    if send not in _senders:
        _senders.append(send)


def send_out() -> Relayed:
    """Let everybody send what is due. Apart from ``relay``: others' servers are slow, consumers are not."""
    done = Relayed()
    for send in stopping.until_asked(_senders):
        send(done)
    return done


def unregister(name: str) -> None:
    """Stop giving events to a consumer; what was published for it stays until it is back."""
    _consumers.pop(name, None)
    store.CONSUMERS.pop(name, None)


def relay(*, limit: int | None = None) -> Relayed:
    """Deliver what is due, until nothing is left, ``limit`` messages were sent to a consumer, or the process
    is asked to end.

    Never call it in a transaction: what was sent must be marked at once.
    """
    done = Relayed()
    for name, consumer in list(_consumers.items()):
        sent = 0
        while (limit is None or sent < limit) and not stopping.is_asked():
            count = _send_batch(name, consumer, min(BATCH, limit - sent if limit else BATCH), done)
            if not count:
                break
            sent += count
    return done


def _send_batch(name: str, consumer: _Consumer, limit: int, done: Relayed) -> int:
    """Claim, send and mark some messages; how many were claimed. Those it has no time for come again."""
    claimed_at = monotonic()
    claim = new_id("claim")
    deliveries = store.claim_deliveries(name, claim=claim, seconds=consumer.claim_seconds, limit=limit)
    for delivery in deliveries:
        if monotonic() - claimed_at > consumer.claim_seconds / 2 or stopping.is_asked():
            store.settle_delivery(delivery)
            continue
        _count(_send(name, consumer, delivery, done), name)
    return len(deliveries)


def _count(numbers: dict[str, int], name: str) -> None:
    numbers[name] = numbers.get(name, 0) + 1


def _send(name: str, consumer: _Consumer, delivery: Delivery, done: Relayed) -> dict[str, int]:
    """Send one message and mark it; the numbers that it adds to."""
    if not store.begin_try(delivery):
        return done.lost
    if delivery.tries > MAX_TRIES:
        return _postpone(delivery, "Each of its senders died.", done)
    try:
        message = _message(delivery)
        with continued(f"{name} hears {message.name}", parent=message.traceparent, stream=message.stream):
            consumer.handle(message)
    except Exception as error:
        log.warning("delivery_failed", consumer=name, message=delivery.message.message_id, exc_info=True)
        return _postpone(delivery, f"{type(error).__name__}: {error}"[:2_000], done)
    now = database_now()
    marked = store.settle_delivery(delivery, state=Delivery.DELIVERED, delivered_at=now, error="")
    return done.delivered if marked else done.lost


def _postpone(delivery: Delivery, error: str, done: Relayed) -> dict[str, int]:
    if delivery.tries < MAX_TRIES:
        again_at = database_now() + wait_after(delivery.tries)
        marked = store.settle_delivery(delivery, next_try_at=again_at, error=error)
        return done.failed if marked else done.lost
    log.error("delivery_parked", consumer=delivery.consumer, message=delivery.message.message_id)
    marked = store.settle_delivery(delivery, state=Delivery.PARKED, error=error)
    return done.parked if marked else done.lost


def wait_after(tries: int) -> timedelta:
    """How long to wait after the ``tries``-th failure: 5 s, 10 s, 20 s … 1 h."""
    return min(FIRST_WAIT * int(2 ** (tries - 1)), LONGEST_WAIT)


# --- receivers that are rows, such as webhooks: each has a line of its own ---------------------------


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message claimed for one receiver. Who holds it says how the try ended, once."""

    message: Message
    tries: int  #: this one included
    _delivery: Delivery

    def delivered(self) -> bool:
        """It arrived. False where the claim had run out and another sender has it."""
        return store.settle_delivery(
            self._delivery, state=Delivery.DELIVERED, delivered_at=database_now(), error=""
        )

    def postponed(self, until: datetime, error: str) -> bool:
        """It comes again, and all of its stream waits for it."""
        return store.settle_delivery(self._delivery, next_try_at=until, error=error[:2_000])

    def parked(self, error: str) -> bool:
        """It is not tried again, until somebody sends it anew; later ones of its stream go on."""
        return store.settle_delivery(self._delivery, state=Delivery.PARKED, error=error[:2_000])

    def given_back(self) -> bool:
        """There was no time for it: as if it had not been claimed."""
        return store.settle_delivery(self._delivery, tries=self._delivery.tries - 1)


def pass_on(message: Message, receivers: Collection[str]) -> None:
    """Put a message in line for each of these receivers; in whose line it stands already, it stays."""
    store.pass_on(message.id, receivers)


def take(receiver: str, *, seconds: float, limit: int) -> list[Parcel]:
    """What is due for a receiver, the first of each stream, kept from other senders for ``seconds``."""
    claimed = store.claim_deliveries(receiver, claim=new_id("claim"), seconds=seconds, limit=limit)
    begun = [delivery for delivery in claimed if store.begin_try(delivery)]
    return [Parcel(_message(delivery), delivery.tries, delivery) for delivery in begun]


def _message(delivery: Delivery) -> Message:
    row = delivery.message
    return Message(
        row.message_id, row.stream, row.sequence, row.name, row.payload, row.created_at, row.traceparent
    )


def trace_of(stream: str) -> str:
    """The trace that a run or task was asked for in, for whoever goes on with it; "" where there is none.

    The first: whoever claims comes with a trace of their own, which is another story.
    """
    rows = OutboxMessage.objects.filter(stream=stream).exclude(traceparent="").order_by("id")
    return rows.values_list("traceparent", flat=True).first() or ""


# --- the consumers of this app --------------------------------------------------------------------


def nudge_pull_requests(message: Message) -> None:
    """An approved patch waits: let the git integration look now instead of at the next beat."""
    if message.name == "RunPrCreating":
        current_app.send_task("runs.tasks.create_pull_requests", expires=60)
