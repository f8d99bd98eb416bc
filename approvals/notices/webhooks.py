"""Webhooks: domain events for other programs, signed as Standard Webhooks say.

Each webhook has its own line in the outbox, in order within a run or task, at least once. ``webhook-id`` is
the same at every try. One that does not answer holds up nobody else: it is asked again less and less often,
then paused, with one notice to its owner; nothing of its line is dropped.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Final

import structlog
from django.conf import settings
from django.db.models import Q
from django.urls import reverse
from standardwebhooks import Webhook as Signer

from agentplatform import stopping
from agentplatform.clock import database_now
from approvals.notices.guard import SECONDS, AddressRefusedError, post
from approvals.notices.letters import address
from approvals.notices.models import Webhook
from approvals.notices.tell import News, tell
from approvals.notices.words import Kind
from runs import outbox
from runs.domain.facts import Json
from runs.models import Run, Task, TaskEvent
from runs.outbox import MAX_TRIES, Message, Parcel, Relayed, wait_after

log = structlog.get_logger(__name__)

#: What a webhook is told without saying what it wants: one message for each cause that people hear of.
DEFAULT_EVENTS: Final = ("TaskCompleted", "TaskFailed", "TaskRejected", "TaskWaiting")
#: Failures one after the other, after which a webhook is paused.
MOST_FAILURES: Final = MAX_TRIES
#: How long the old secret still signs, too, after a new one was made.
OVERLAP: Final = timedelta(days=1)
CLAIM_SECONDS: Final = 3 * SECONDS
BATCH: Final = 20
#: How long one round of sending may take, and one webhook of it.
ROUND_SECONDS: Final = 25.0
TURN_SECONDS: Final = 5.0
LONGEST_PAUSE: Final = timedelta(hours=1)
_ARRIVED: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)
_LATER: Final = frozenset({408, 425, 429, *range(500, 600)})


# --- in line ------------------------------------------------------------------------------------------


def put_in_line(message: Message) -> None:
    """Give the message to every webhook that wants it; a consumer of the outbox."""
    repository_id = _repository_of(message)
    if repository_id is None:
        return
    wanted = Q(events__contains=[message.name])
    if message.name in DEFAULT_EVENTS:
        wanted |= Q(events=[])
    here = Q(repositories=None) | Q(repositories=repository_id)
    webhooks = Webhook.objects.filter(wanted, here, is_active=True).distinct()
    outbox.pass_on(message, [webhook.receiver for webhook in webhooks])


def _repository_of(message: Message) -> str | None:
    model = Run if "run_id" in message.payload else Task
    return model.objects.filter(pk=message.stream).values_list("repository_id", flat=True).first()


# --- send ---------------------------------------------------------------------------------------------


def send_webhooks(done: Relayed) -> None:
    """Send what is due: those that answer first, those that fail one try each; adds to the numbers."""
    began, now = monotonic(), database_now()
    due = Webhook.objects.filter(Q(not_before=None) | Q(not_before__lte=now), is_active=True, paused_at=None)
    for webhook in stopping.until_asked(due.order_by("failures", "pk")):
        if monotonic() - began > ROUND_SECONDS:
            return
        if _hold(webhook, now):
            _send_line(_Turn(webhook, done))


def _hold(webhook: Webhook, now: datetime) -> bool:
    """Keep it from other senders while one asks it; the condition makes one of them win."""
    mine = Webhook.objects.filter(pk=webhook.pk, not_before=webhook.not_before)
    webhook.not_before = now + timedelta(seconds=TURN_SECONDS + CLAIM_SECONDS)
    return bool(mine.update(not_before=webhook.not_before))


@dataclass(slots=True)
class _Turn:
    """A webhook while it is asked: the numbers that are counted, and how long it asked to be left alone."""

    webhook: Webhook
    done: Relayed
    pause: timedelta | None = None

    def count(self, numbers: dict[str, int]) -> None:
        name = f"webhook {self.webhook.name}"
        numbers[name] = numbers.get(name, 0) + 1


def _send_line(turn: _Turn) -> None:
    """Its messages, until the first that fails, nothing is left or its turn is over."""
    webhook, began = turn.webhook, monotonic()
    goes_on = True
    while goes_on and not _is_over(began):
        limit = 1 if webhook.failures else BATCH
        parcels = outbox.take(webhook.receiver, seconds=CLAIM_SECONDS, limit=limit)
        goes_on = bool(parcels)
        for parcel in parcels:
            if not goes_on or _is_over(began):
                parcel.given_back()
            else:
                goes_on = _send_one(turn, parcel)
    Webhook.objects.filter(pk=webhook.pk, not_before=webhook.not_before).update(not_before=_again(turn))


def _is_over(began: float) -> bool:
    return monotonic() - began > TURN_SECONDS or stopping.is_asked()


def _again(turn: _Turn) -> datetime | None:
    """When it is asked again: at once, or after a while that grows, by up to a quarter of chance."""
    if not turn.webhook.failures:
        return None
    pause = turn.pause or wait_after(turn.webhook.failures)
    return database_now() + pause * (1 + random.random() / 4)  # noqa: S311  no secret


def _send_one(turn: _Turn, parcel: Parcel) -> bool:
    """One try. True when the next may go at once."""
    webhook, message = turn.webhook, parcel.message
    try:
        body = body_of(message)
        status, retry_after = post(webhook.url, content=body, headers=headers_of(webhook, message, body))
    except (AddressRefusedError, TypeError, ValueError) as error:
        # What cannot be sent, as it is or where it goes: no repeat will mend it.
        log.warning("webhook_refused", webhook=webhook.pk, error=str(error))
        return _never(turn, parcel, f"{type(error).__name__}: {error}")
    except Exception as error:
        log.warning("webhook_failed", webhook=webhook.pk, tries=parcel.tries, exc_info=True)
        return _later(turn, parcel, f"{type(error).__name__}: {error}")
    if status in _ARRIVED:
        turn.count(turn.done.delivered if parcel.delivered() else turn.done.lost)
        _note(webhook, failures=0, last_error="", last_success_at=database_now())
        return True
    if status in _REDIRECTS:
        return _later(turn, parcel, f"It answered {status}, a redirect, which is not followed.")
    if status in _LATER:
        turn.pause = _asked_pause(retry_after)
        return _later(turn, parcel, f"It answered {status}.")
    return _never(turn, parcel, f"It answered {status}.")


def _later(turn: _Turn, parcel: Parcel, error: str) -> bool:
    """It comes again, on a schedule of its own; the webhook, too, is left alone for a while."""
    pauses = turn.webhook.failures + 1 >= MOST_FAILURES
    if parcel.tries >= MAX_TRIES and not pauses:  # others arrive: it is this message that does not
        return _never(turn, parcel, error)
    # Longer than the webhook waits: the next try is another's, so that one bad message stops no line.
    kept = parcel.postponed(database_now() + 2 * wait_after(parcel.tries), error)
    turn.count(turn.done.failed if kept else turn.done.lost)
    _count_failure(turn.webhook, error)
    return False


def _never(turn: _Turn, parcel: Parcel, error: str) -> bool:
    """Parked: an admin can send it again."""
    turn.count(turn.done.parked if parcel.parked(error) else turn.done.lost)
    _count_failure(turn.webhook, error)
    return False


def _count_failure(webhook: Webhook, error: str) -> None:
    _note(webhook, failures=webhook.failures + 1, last_error=error[:2_000])
    if webhook.failures >= MOST_FAILURES:
        _note(webhook, paused_at=database_now())
        _tell_owner(webhook)


def _note(webhook: Webhook, **columns: object) -> None:
    for column, value in columns.items():
        setattr(webhook, column, value)
    Webhook.objects.filter(pk=webhook.pk).update(**columns)


def _tell_owner(webhook: Webhook) -> None:
    """Once for each pause, in the inbox alone: a failure to tell makes no further telling."""
    news = News(
        cause=f"{webhook.pk}:{webhook.paused_at:%Y%m%d%H%M%S}",
        kind=Kind.BLOCKED,
        subject=webhook.pk,
        title=f"Webhook {webhook.name}",
        sentence=f"It is paused after {webhook.failures} failures, the last: {webhook.last_error[:200]}",
        href=reverse("admin:approvals_webhook_change", args=[webhook.pk]),
        repository_id=None,
    )
    tell(news, {webhook.owner: "You are its owner."}, rooms=False, letters=False)


def _asked_pause(retry_after: str) -> timedelta | None:
    """What Retry-After asks for, seconds or a date; no longer than an hour."""
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10:  # noqa: PLR2004
        pause = timedelta(seconds=int(retry_after))
    else:
        try:
            pause = parsedate_to_datetime(retry_after).astimezone(UTC) - database_now()
        except (TypeError, ValueError):
            return None
    return min(max(pause, timedelta(seconds=1)), LONGEST_PAUSE)


# --- body and signature -------------------------------------------------------------------------------


def body_of(message: Message) -> bytes:
    """What is sent: the state at that event, not today's. ``sequence`` grows within ``stream``, so that a
    receiver can tell an older state from a newer one."""
    is_run = "run_id" in message.payload
    data: Json = {
        **message.payload,
        "stream": message.stream,
        "sequence": message.sequence,
        "url": address(reverse("run" if is_run else "task", args=[message.stream])),
    }
    if message.name == "TaskWaiting":
        data |= _why_waiting(message)
    sent = {"type": message.name, "timestamp": message.payload["occurred_at"], "data": data}
    return json.dumps(sent, allow_nan=False, separators=(",", ":")).encode()


def _why_waiting(message: Message) -> Json:
    facts = TaskEvent.objects.get(task_id=message.stream, sequence=message.sequence).facts
    return {"gate": facts.get("gate"), "blocked": (facts.get("blocked") or {}).get("rule")}


def headers_of(webhook: Webhook, message: Message, body: bytes) -> dict[str, str]:
    """Id, time and signatures: with the secret in force and, for a day, with the one before."""
    now = database_now()
    numbers = [webhook.secret_number]
    if webhook.old_secret_until and webhook.old_secret_until > now:
        numbers.append(webhook.secret_number - 1)
    signed = (Signer(secret_of(webhook.pk, n)).sign(message.id, now, body.decode()) for n in numbers)
    return {
        "Content-Type": "application/json",
        "User-Agent": "AgentPlatform-Webhooks",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": _joined(signed),
        **({"traceparent": message.traceparent} if message.traceparent else {}),
    }


def _joined(signatures: Iterable[str]) -> str:
    return " ".join(signatures)


def secret_of(webhook_id: str, number: int) -> str:
    """The secret of that number, ``whsec_…``: made from the server's key each time, stored nowhere."""
    text = f"agentplatform.webhook {webhook_id} {number}".encode()
    digest = hmac.new(settings.SECRET_KEY.encode(), text, hashlib.sha256).digest()
    return f"whsec_{base64.b64encode(digest).decode()}"


def secret_renew(webhook: Webhook) -> str:
    """A new secret, shown now; the old one signs along for a day."""
    number, until = webhook.secret_number + 1, database_now() + OVERLAP
    _note(webhook, secret_number=number, old_secret_until=until)
    return secret_of(webhook.pk, number)


def webhook_resume(webhook: Webhook) -> None:
    """Ask it again from where its line stopped."""
    _note(webhook, failures=0, paused_at=None, not_before=None)
