"""A relay killed between send and mark: each consumer has each effect, in order, and none is left."""

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from django.db import connection, transaction

from runs import auth, outbox, service
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Delivery, OutboxMessage, Run
from runs.outbox import Message
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 10


def into(file: Path, *, die_after: int = 0) -> Callable[[Message], None]:
    """A consumer whose effect is a line in a file; it is killed right after its ``die_after``-th."""
    left = [die_after]

    def handle(message: Message) -> None:
        with file.open("a") as lines:
            lines.write(f"{message.stream} {message.sequence} {message.id}\n")
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return handle


def relay_until_killed(file: Path, die_after: int) -> None:
    outbox.register("effects", into(file, die_after=die_after))
    outbox.relay()


@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(100, marks=pytest.mark.long)])
def test_a_relay_killed_between_send_and_mark_loses_nothing_and_keeps_the_order(tmp_path, rounds):
    seed = random.randrange(10**9)
    dice, file = random.Random(seed), tmp_path / "effects"
    outbox.register("effects", into(file))
    try:
        for _ in range(rounds):
            factories.run_in(dice.choice([RunStatus.LEASED, RunStatus.CONTEXT_BUILDING]))
            connection.close()  # the child must not share it
            child = multiprocessing.get_context("fork").Process(
                target=relay_until_killed, args=(file, dice.randint(1, 3))
            )
            child.start()
            child.join()
            assert child.exitcode == -signal.SIGKILL, f"seed {seed}"
            # The claims of the dead run out.
            Delivery.objects.filter(state=Delivery.PENDING).update(claimed_until=None)
        outbox.relay()
    finally:
        outbox.unregister("effects")
    _check(file, seed)
    assert not Delivery.objects.exclude(state=Delivery.DELIVERED).exists(), f"seed {seed}"


def test_two_relays_at_once_send_nothing_twice_and_keep_the_order(tmp_path):
    file = tmp_path / "effects"
    outbox.register("effects", into(file))
    try:
        for _ in range(6):
            factories.run_in(RunStatus.CONTEXT_BUILDING)
        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=_relay_at, args=(barrier,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outbox.relay()
    finally:
        outbox.unregister("effects")
    assert len(file.read_text().splitlines()) == OutboxMessage.objects.count()
    _check(file, seed=0)


def test_nothing_is_sent_before_its_commit_nor_after_a_rollback():
    seen: list[tuple[str, str]] = []

    def handle(message: Message) -> None:
        """A receiver that asks at once what became of the run."""
        seen.append((message.name, Run.objects.get(pk=run.pk).status))

    run = factories.queued_run()
    person = auth.of_person(run.task.created_by).caller
    cancel = partial(
        service.run_direct, run_id=run.pk, event=Ev.CANCEL_REQUESTED, reason="not needed", by=person
    )
    outbox.register("effects", handle)
    try:
        for commits in (False, True):
            with transaction.atomic():
                cancel()
                for _ in range(5):  # a sender that polls hard meanwhile, on a connection of its own
                    _in_a_thread(outbox.relay)
                assert seen == []
                transaction.set_rollback(not commits)
            outbox.relay()
            assert bool(seen) is commits
    finally:
        outbox.unregister("effects")
    assert ("RunCancelled", "CANCELLED") in seen
    assert {status for _, status in seen} == {"CANCELLED"}


def _in_a_thread(action: Callable[[], object]) -> None:
    def work() -> None:
        try:
            action()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _relay_at(barrier: threading.Barrier) -> None:
    try:
        barrier.wait()
        outbox.relay()
    finally:
        connection.close()


def _check(file: Path, seed: int) -> None:
    """After deduplication by id: every message once, and each stream in the order of its events."""
    lines = [line.split() for line in dict.fromkeys(file.read_text().splitlines())]
    assert {line[2] for line in lines} == set(OutboxMessage.objects.values_list("message_id", flat=True)), (
        seed
    )
    for stream in {line[0] for line in lines}:
        sequences = [int(line[1]) for line in lines if line[0] == stream]
        assert sequences == sorted(sequences), f"seed {seed}"
