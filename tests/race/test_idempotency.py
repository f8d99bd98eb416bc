"""One key at once, and two posts of one moment: one event, and everybody is told the truth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest

from runs import service
from runs.domain.commands import Command
from runs.domain.errors import IdempotencyKeyReused, IllegalTransition, SequenceConflict
from runs.domain.vocabulary import MACHINE_ROLES, Ev, RunStatus
from runs.models import OutboxMessage, RunEvent
from tests.driver import Driver
from tests.race.connections import at_once, behind

pytestmark = pytest.mark.django_db(transaction=True)


def _command(driver: Driver, event: Ev, key: str, **more: Any) -> Command:
    return Command(event, driver.payload(event), driver.caller(*MACHINE_ROLES), key, driver.token, **more)


def test_twenty_posts_of_one_key_are_one_event():
    driver = Driver.at(RunStatus.LEASED)
    before = OutboxMessage.objects.count()
    post = partial(service.apply_event, driver.run_id, _command(driver, Ev.WORKER_STARTED, "same"))
    answers = at_once(*[post] * 20)
    assert [a for a in answers if not isinstance(a, service.Outcome)] == []
    assert len({a.event.id for a in answers}) == 1
    assert sorted(a.replayed for a in answers) == [False] + [True] * 19
    assert RunEvent.objects.filter(run_id=driver.run_id, idempotency_key="same").count() == 1
    assert OutboxMessage.objects.count() == before + 1


def test_a_key_of_another_request_is_refused_even_at_once():
    driver = Driver.at(RunStatus.LEASED)
    first = _command(driver, Ev.WORKER_STARTED, "same")
    other = Command(Ev.LEASE_RELEASED, {}, driver.caller(*MACHINE_ROLES), "same", driver.token)
    posts = [partial(service.apply_event, driver.run_id, command) for command in (first, other) * 4]
    answers = at_once(*posts)
    taken = {type(a) for a in answers}
    assert taken == {service.Outcome, IdempotencyKeyReused}
    assert RunEvent.objects.filter(run_id=driver.run_id, idempotency_key="same").count() == 1


def test_two_posts_of_one_moment_have_one_winner():
    for expected in (None, 3):
        driver = Driver.at(RunStatus.LEASED)
        assert driver.state.sequence == 3
        posts = [
            partial(
                service.apply_event,
                driver.run_id,
                _command(driver, Ev.WORKER_STARTED, key, expected_sequence=expected),
            )
            for key in ("a", "b")
        ]
        answers = at_once(*posts)
        loser = next(a for a in answers if not isinstance(a, service.Outcome))
        assert isinstance(loser, IllegalTransition if expected is None else SequenceConflict)
        assert driver.types().count(Ev.WORKER_STARTED) == 1


def test_a_late_twin_waits_and_is_answered_from_the_log(owner_connection: psycopg.Connection):
    driver = Driver.at(RunStatus.LEASED)
    post = partial(service.apply_event, driver.run_id, _command(driver, Ev.WORKER_STARTED, "same"))
    first, *late = behind(owner_connection, post, post, post)
    assert [(twin.replayed, twin.event.id) for twin in late] == [(True, first.event.id)] * 2


def test_a_twin_of_what_came_to_nothing_is_applied_as_the_first(owner_connection: psycopg.Connection):
    driver = Driver.at(RunStatus.LEASED)
    post = partial(service.apply_event, driver.run_id, _command(driver, Ev.WORKER_STARTED, "same"))
    lost, twin = behind(owner_connection, post, post, commits=False)
    assert (twin.replayed, twin.event.id == lost.event.id) == (False, False)
    assert driver.types().count(Ev.WORKER_STARTED) == 1


@pytest.mark.parametrize(
    ("key", "expected", "refusal"),
    [("same", None, IdempotencyKeyReused), ("b", None, IllegalTransition), ("b", 3, SequenceConflict)],
)
def test_another_post_of_that_moment_waits_and_is_judged_by_what_came_first(
    owner_connection: psycopg.Connection, key: str, expected: int | None, refusal: type[Exception]
):
    driver = Driver.at(RunStatus.LEASED)
    first = _command(driver, Ev.WORKER_STARTED, "same")
    second = replace(first, key=key, payload={"worker_version": "2"}, expected_sequence=expected)
    _, refused = behind(
        owner_connection,
        partial(service.apply_event, driver.run_id, first),
        partial(service.apply_event, driver.run_id, second),
    )
    assert isinstance(refused, refusal)
    assert driver.types().count(Ev.WORKER_STARTED) == 1


def test_a_refused_request_leaves_its_key_free():
    driver = Driver.at(RunStatus.LEASED)
    with pytest.raises(IllegalTransition):
        driver.post(Ev.PATCH_CREATED, {"patch_artifact_id": "art_" + "0" * 26}, key="k")
    driver.post(Ev.WORKER_STARTED, key="k")
    assert driver.types()[-1] == Ev.WORKER_STARTED
