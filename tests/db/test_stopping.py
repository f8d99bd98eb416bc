"""Who is asked to end finishes what is in hand, begins nothing, and leaves the rest to others."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta

import pytest

from agentplatform import stopping
from agentplatform.clock import database_now
from runs import outbox, timeouts
from runs.domain.vocabulary import RunStatus
from runs.models import Delivery, Lease
from runs.outbox import Message
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nobody_asked_yet(monkeypatch):
    monkeypatch.setattr(stopping, "_asked", threading.Event())


def test_a_relay_sends_the_message_in_hand_and_frees_the_others(monkeypatch):
    seen: list[Message] = []

    def handle(message: Message) -> None:
        seen.append(message)
        if len(seen) == 1:
            stopping.ask()

    outbox.register("effects", handle, wants={"RunQueued"})
    try:
        for _ in range(3):
            factories.queued_run()
        assert outbox.relay().delivered["effects"] == 1
        free = Delivery.objects.filter(consumer="effects", state=Delivery.PENDING, claimed_until=None)
        assert (len(seen), list(free.values_list("tries", flat=True))) == (1, [0, 0])
        monkeypatch.setattr(stopping, "_asked", threading.Event())
        outbox.relay()
    finally:
        outbox.unregister("effects")
    assert not free.exists()


def test_a_sweep_ends_after_the_run_in_hand(monkeypatch):
    for _ in range(3):
        factories.run_in(RunStatus.PREPARING)
    long_ago = database_now() - timedelta(hours=1)
    Lease.objects.update(acquired_at=long_ago, heartbeat_at=long_ago, expires_at=long_ago)
    lose = timeouts._lose_lease

    def lose_and_ask(run_id: str) -> timeouts.Swept | None:
        stopping.ask()
        return lose(run_id)

    monkeypatch.setattr(timeouts, "_lose_lease", lose_and_ask)
    assert len(timeouts.sweep()) == 1
    assert Lease.objects.filter(ended_at=None).count() == 2


def test_a_command_hears_the_first_signal_and_dies_of_the_second():
    before = signal.getsignal(signal.SIGTERM)
    with stopping.on_signal():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.is_asked()
        assert list(stopping.until_asked([1, 2])) == []
        assert signal.getsignal(signal.SIGTERM) == before
    assert not stopping.is_asked()
