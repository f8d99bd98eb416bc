"""Beat may be started often: one acts, the others stand by and take over where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from celery import Celery
from celery.schedules import crontab

from agentplatform.beat import Scheduler, Turn
from runs.models import PeriodicTask

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Beat(Scheduler):
    """It notes what it would send."""

    producer = None

    def __init__(self, since: datetime) -> None:
        self.sent: list[str] = []
        app = Celery("beat", broker="memory://", set_as_current=False)
        app.conf.beat_schedule = {
            "often": {"task": "often", "schedule": 0.0},
            "nightly": {"task": "nightly", "schedule": crontab(minute="0", hour="3")},
        }
        super().__init__(app)
        for entry in self.schedule.values():
            entry.last_run_at = since

    def apply_async(self, entry, producer=None, advance=True, **kwargs):
        self.sent.append(entry.name)

    def go_on(self) -> list[str]:
        """Some ticks, and what was sent in them."""
        self.sent.clear()
        for _ in range(6):
            self.tick()
        return sorted(set(self.sent))


@pytest.fixture
def start() -> Iterator[Callable[..., Beat]]:
    begun: list[Beat] = []

    def begin(since: datetime = LONG_AGO) -> Beat:
        begun.append(Beat(since))
        return begun[-1]

    yield begin
    for beat in begun:
        beat.close()


def end_session_of(beat: Beat, owner: psycopg.Connection) -> None:
    session = beat._turn._session
    assert session is not None
    owner.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])


def test_one_acts_and_the_next_takes_over_when_it_ends(start):
    first, second = start(), start()
    assert first.go_on() == ["nightly", "often"]
    assert second.go_on() == []
    first.close()
    assert second.go_on() == ["often"]
    assert first.go_on() == []


def test_who_is_cut_off_acts_no_more(start, owner_connection):
    first, second = start(), start()
    assert "often" in first.go_on()
    end_session_of(first, owner_connection)
    assert "often" in second.go_on()
    assert first.go_on() == []


def test_the_database_ends_the_session_of_one_that_says_nothing():
    turn = Turn()
    assert turn.is_ours()
    try:
        assert turn._session is not None
        assert turn._session.execute("SHOW idle_session_timeout").fetchone() == ("20s",)
    finally:
        turn.give_up()


def test_what_the_night_missed_is_done_at_the_start_and_once(start):
    yesterday = datetime.now(UTC) - timedelta(days=1, hours=1)
    PeriodicTask.objects.create(name="nightly", sent_at=yesterday)
    just_started = datetime.now(UTC)
    first = start(just_started)
    assert first.go_on() == ["nightly", "often"]
    assert PeriodicTask.objects.get().sent_at > just_started
    first.close()
    assert start(LONG_AGO).go_on() == ["often"]


def test_without_a_database_nothing_is_sent_and_it_goes_on_afterwards(start, settings):
    beat = start()
    there, settings.DATABASE_URL = settings.DATABASE_URL, "postgresql://nobody@127.0.0.1:9/nothing"
    assert beat.go_on() == []
    settings.DATABASE_URL = there
    assert "often" in beat.go_on()
