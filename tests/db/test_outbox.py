"""The relay: in order within a stream, at least once, tried again on a schedule, then parked."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pytest
from django.db.models import F

from runs import auth, outbox, service, store
from runs.domain.errors import Refusal
from runs.domain.vocabulary import RunStatus
from runs.models import Delivery, OutboxMessage
from runs.outbox import Handler, Message
from tests import factories

pytestmark = pytest.mark.django_db


@contextmanager
def consumer(handler: Handler, name: str = "effects") -> Iterator[None]:
    outbox.register(name, handler)
    try:
        yield
    finally:
        outbox.unregister(name)


def make_due() -> None:
    """As if the schedule's time had passed."""
    Delivery.objects.filter(state=Delivery.PENDING).update(next_try_at=F("next_try_at") - timedelta(hours=2))


def state_of(name: str = "effects") -> set[str]:
    return set(Delivery.objects.filter(consumer=name).values_list("state", flat=True))


def test_every_domain_event_is_delivered_in_order_and_once():
    seen: list[Message] = []
    with consumer(seen.append):
        first, second = factories.run_in(RunStatus.PLANNING), factories.run_in(RunStatus.LEASED)
        done = outbox.relay()
        assert outbox.relay().delivered.get("effects", 0) == 0
    assert done.delivered["effects"] == len(seen) == OutboxMessage.objects.count()
    assert len({message.id for message in seen}) == len(seen)
    names = [message.name for message in seen if message.stream == first.run_id]
    assert names == ["RunQueued", "RunLeased", "RunPreparing", "RunContextBuilding", "RunContextReady"]
    assert [m.name for m in seen if m.stream == second.run_id] == ["RunQueued", "RunLeased"]


def test_a_consumer_that_is_not_there_keeps_nothing_from_others():
    seen: list[Message] = []
    with consumer(seen.append, "away"):
        factories.queued_run()
    with consumer(seen.append, "here"):
        factories.queued_run()
        outbox.relay()
    assert (state_of("away"), state_of("here")) == ({"pending"}, {"delivered"})


def test_a_consumer_is_given_only_what_it_wants():
    seen: list[str] = []
    outbox.register("picky", lambda message: seen.append(message.name), wants={"RunLeased"})
    try:
        factories.run_in(RunStatus.PLANNING)
        outbox.relay()
    finally:
        outbox.unregister("picky")
    assert seen == ["RunLeased"]
    assert Delivery.objects.filter(consumer="picky").count() == 1


def test_what_is_passed_on_waits_in_the_receivers_own_line_once():
    seen: list[Message] = []
    with consumer(seen.append):
        run_id = factories.run_in(RunStatus.PREPARING).run_id
        outbox.relay()
    mine = [message for message in seen if message.stream == run_id]
    for message in (*mine, *mine):
        outbox.pass_on(message, ["door"])
    first, *rest = outbox.take("door", seconds=60, limit=10)
    assert (first.message, rest) == (mine[0], [])
    assert first.delivered()
    (second,) = outbox.take("door", seconds=60, limit=10)
    assert second.message == mine[1]
    assert second.given_back()
    (second,) = outbox.take("door", seconds=60, limit=10)
    assert second.tries == 1


def test_what_failed_comes_again_before_anything_later_of_its_stream():
    seen: list[str] = []
    broken = True

    def handle(message: Message) -> None:
        if broken and message.name == "RunQueued":
            raise ConnectionError("no answer")
        seen.append(message.name)

    with consumer(handle):
        run_id = factories.run_in(RunStatus.LEASED).run_id
        assert outbox.relay().failed == {"effects": 1}
        assert not any(name.startswith("Run") for name in seen)
        waiting = Delivery.objects.get(stream=run_id, error__startswith="ConnectionError: no answer")
        assert (waiting.tries, waiting.claim) == (1, "")
        broken = False
        make_due()
        outbox.relay()
    assert seen[-2:] == ["RunQueued", "RunLeased"]
    assert state_of() == {"delivered"}


def test_a_poison_message_is_parked_after_its_schedule_and_others_flow():
    seen: list[str] = []

    def handle(message: Message) -> None:
        if message.name == "RunQueued":
            raise ValueError("poison")
        seen.append(message.name)

    with consumer(handle):
        factories.run_in(RunStatus.LEASED)
        parked = 0
        for _ in range(outbox.MAX_TRIES):
            parked += outbox.relay().parked.get("effects", 0)
            make_due()
        outbox.relay()
    assert parked == 1
    assert Delivery.objects.get(state=Delivery.PARKED).tries == outbox.MAX_TRIES
    assert "RunLeased" in seen


def test_the_schedule_doubles_up_to_an_hour():
    waits = [outbox.wait_after(tries).total_seconds() for tries in range(1, outbox.MAX_TRIES)]
    assert waits[:4] == [5, 10, 20, 40]
    assert waits[-1] == 3600


def test_a_sender_that_lost_its_claim_writes_nothing():
    def handle(message: Message) -> None:
        Delivery.objects.filter(message__message_id=message.id, consumer="effects").update(
            claim="claim_of_another"
        )

    with consumer(handle):
        factories.queued_run()
        done = outbox.relay(limit=1)
    taken = Delivery.objects.filter(claim="claim_of_another")
    assert done.lost == {"effects": len(taken)}
    assert {(delivery.state, delivery.delivered_at) for delivery in taken} == {(Delivery.PENDING, None)}


def test_what_kills_every_sender_is_parked_too():
    with consumer(lambda message: None):
        factories.queued_run()
        head = Delivery.objects.filter(consumer="effects").order_by("message_id")[0]
        Delivery.objects.filter(pk=head.pk).update(tries=outbox.MAX_TRIES)
        assert outbox.relay().parked == {"effects": 1}


def test_what_was_claimed_beside_a_deadly_message_has_not_been_tried():
    class KilledError(BaseException):
        """As a signal does: nothing is marked after it."""

    def handle(message: Message) -> None:
        raise KilledError

    with consumer(handle):
        for _ in range(3):
            factories.queued_run()
        with pytest.raises(KilledError):
            outbox.relay()
    tries = Delivery.objects.filter(consumer="effects").order_by("message_id").values_list("tries", flat=True)
    assert list(tries) == [1] + [0] * (len(tries) - 1)


def test_a_claim_is_kept_from_others_until_it_runs_out():
    with consumer(lambda message: None):
        factories.queued_run()
        claim = partial(store.claim_deliveries, "effects", claim="claim_1", seconds=60, limit=10)
        claimed = claim()
        assert claimed
        assert claim() == []
        Delivery.objects.update(claimed_until=F("claimed_until") - timedelta(seconds=61))
        assert {d.pk for d in claim()} == {d.pk for d in claimed}


def test_a_refused_change_publishes_nothing():
    run = factories.queued_run()
    before = OutboxMessage.objects.count()
    with pytest.raises(Refusal):
        service.task_retry(task_id=run.task_id, by=auth.of_person(factories.person()).caller)
    assert OutboxMessage.objects.count() == before
