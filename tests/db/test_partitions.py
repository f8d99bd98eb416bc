"""Events lie in partitions by the time of their run: made ahead, never missing, guarded as the whole is."""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from psycopg import sql

from agentplatform import ids
from agentplatform.clock import database_now
from runs import partitions, rebuild
from runs.domain.vocabulary import RunStatus
from runs.models import Run
from runs.selectors.attention import AttentionCollector, attention
from tests.driver import Driver

pytestmark = pytest.mark.django_db(transaction=True)


def places(run_id: str) -> set[str]:
    """The partitions that hold a run's events."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT relname FROM run_events e JOIN pg_class c ON c.oid = e.tableoid"
            " WHERE run_id = %s",
            [run_id],
        )
        return {name for (name,) in cursor.fetchall()}


def gauges() -> dict[str, float]:
    return {
        metric.name: metric.samples[0].value for metric in AttentionCollector().collect() if metric.samples
    }


@pytest.fixture
def _ids_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_last", 0)


@pytest.fixture
def late_run(monkeypatch: pytest.MonkeyPatch, _ids_of_their_own: None) -> Callable[[], Run]:
    """Makes a run for which there is no partition, as if nobody had made any for a long time."""
    behind = partitions.partitions()[-1].ends - database_now() + timedelta(hours=1)
    monkeypatch.setattr(partitions, "AHEAD", behind // timedelta(days=30) + 1)

    def make() -> Run:
        real = time.time_ns
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda: real() + int(behind.total_seconds() * 10**9))
            return Driver.at(RunStatus.EXECUTING).run

    return make


def test_partitions_are_made_ahead_without_a_gap_and_once():
    partitions.make_ahead()
    found = partitions.partitions()
    now = database_now()
    assert sum(1 for one in found if one.begins and one.begins > now) >= partitions.AHEAD - 1
    assert found[-1].ends >= now + partitions.AHEAD * timedelta(days=30)
    assert all(one.beyond == next_one.first for one, next_one in itertools.pairwise(found))
    assert partitions.make_ahead() == []
    assert gauges()["agentplatform_partitions_end_timestamp_seconds"] == found[-1].ends.timestamp()


def test_a_run_of_today_lies_in_the_partition_of_today():
    run = Driver.at(RunStatus.EXECUTING).run
    assert [one.name for one in partitions.partitions() if one.first <= run.pk < one.beyond] == [
        *places(run.pk)
    ]


def test_events_without_a_partition_are_kept_told_of_and_taken_up_by_the_next(late_run):
    run = late_run()
    assert places(run.pk) == {"run_events_default"}
    assert partitions.strays() == run.version == gauges()["agentplatform_events_without_partition"]
    assert any("manage.py partitions" in item["text"] for item in attention())

    made = partitions.make_ahead()
    assert places(run.pk) == {made[0].name}
    assert partitions.strays() == 0
    assert list(rebuild.breaks(run.pk)) == []
    assert not any("manage.py partitions" in item["text"] for item in attention())


def test_more_of_them_than_is_moved_by_the_way_wait_for_the_command(late_run):
    run = late_run()
    before = partitions.partitions()
    with pytest.raises(OperationalError, match="wait in the default partition"):
        partitions.make_ahead(most=run.version - 1)
    assert partitions.partitions() == before
    assert partitions.strays() == run.version
    out = io.StringIO()
    call_command("partitions", stdout=out)
    assert partitions.strays() == 0
    assert f"{places(run.pk).pop()}: runs from " in out.getvalue()
    assert "In no partition" not in out.getvalue()


def test_whoever_holds_a_table_makes_the_task_come_again(owner_connection):
    """A lock that is not had in two seconds is let go: nobody queues behind a statement that itself waits."""
    with owner_connection.transaction():
        owner_connection.execute("LOCK TABLE runs IN ROW EXCLUSIVE MODE")
        with pytest.raises(OperationalError, match="lock timeout"):
            _make_one_more()


def _make_one_more() -> None:
    last = partitions.partitions()[-1]
    beyond = ids.first_id("run", last.ends + timedelta(days=1))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT add_event_partition('one_more', %s, %s, 0)", [last.beyond, beyond])


# --- guards ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement", ["SELECT FROM {}", "INSERT INTO {} SELECT * FROM run_events", "DROP TABLE {}"]
)
@pytest.mark.parametrize("partition", ["run_events_first", "run_events_default"])
def test_the_apps_role_reaches_no_partition_by_its_name(statement: str, partition: str):
    with pytest.raises(DatabaseError, match="permission denied for schema partitions"):
        connection.cursor().execute(statement.format(f"partitions.{partition}"))


@pytest.mark.parametrize(
    "statement",
    ["UPDATE {} SET payload = '{{}}'", "DELETE FROM {}", "TRUNCATE {}"],
    ids=lambda text: text[:6],
)
def test_no_partition_can_be_rewritten_even_by_the_owner(
    statement: str, owner_connection: psycopg.Connection
):
    Driver.started()
    partitions.make_ahead()
    names = [*(one.name for one in partitions.partitions()), "run_events_default"]
    rows = "SELECT tableoid::regclass::text FROM run_events"
    filled = {name for (name,) in owner_connection.execute(rows).fetchall()}
    for name in (f"partitions.{name}" for name in names):
        if statement.startswith("TRUNCATE") or name in filled:
            with pytest.raises(psycopg.errors.RaiseException):
                owner_connection.execute(sql.SQL(statement.format(name)))


def test_every_partition_has_the_keys_and_triggers_of_the_first(owner_connection: psycopg.Connection):
    partitions.make_ahead()
    shapes = owner_connection.execute(_SHAPES).fetchall()
    assert len(shapes) >= partitions.AHEAD + 1
    assert len({keys for _, keys, _ in shapes}) == 1, shapes
    assert len({triggers for _, _, triggers in shapes}) == 1, shapes


_SHAPES = """
SELECT c.relname,
    (SELECT string_agg(replace(pg_get_constraintdef(k.oid), c.relname, ''), '; ' ORDER BY contype, conkey)
        FROM pg_constraint k WHERE conrelid = c.oid AND contype <> 'n'),
    (SELECT string_agg(concat(t.tgname, t.tgtype, t.tgenabled), '; ' ORDER BY tgname)
        FROM pg_trigger t WHERE tgrelid = c.oid AND NOT tgisinternal)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'run_events'::regclass
"""
