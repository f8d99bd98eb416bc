"""How the database reads a run's log: from one partition, by an index, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from runs import outbox, partitions, rebuild, store
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Run
from runs.store import taking
from tests import factories as make

pytestmark = pytest.mark.django_db
Statement = tuple[str, Any]
#: What the trigger asks before each event; kept in line with it by the test below.
GUARD = "SELECT sequence, to_status FROM run_events WHERE run_id = %s ORDER BY sequence DESC LIMIT 1"


@contextmanager
def statements() -> Iterator[list[Statement]]:
    """All statements that name the log, while it is open."""
    found: list[Statement] = []

    def note(execute: Callable[..., Any], text: str, params: Any, many: bool, context: Any) -> Any:
        if '"run_events"' in text or "FROM run_events" in text:
            found.append((text, params))
        return execute(text, params, many, context)

    with connection.execute_wrapper(note):
        yield found


def plan_of(statement: Statement) -> list[dict[str, Any]]:
    """Every node of a statement's plan, were the table too long to be read from end to end."""
    text, params = statement
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", params)
        (answer,) = cursor.fetchone()
    top = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return list(_nodes(top))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def assert_reads_one_partition(statement: Statement) -> None:
    nodes = [node for node in plan_of(statement) if node.get("Relation Name", "").startswith("run_events")]
    assert len({node["Relation Name"] for node in nodes}) == 1, (statement, nodes)
    assert all("Index" in node["Node Type"] or "Bitmap" in node["Node Type"] for node in nodes), nodes


READS: dict[str, Callable[[Any, Run], object]] = {
    "page": lambda browser, run: browser.get(f"/runs/{run.pk}/"),
    "tab of events": lambda browser, run: browser.get(f"/runs/{run.pk}/?tab=events"),
    "whole log": lambda browser, run: b"".join(browser.get(f"/runs/{run.pk}/events.jsonl").streaming_content),
    "key": lambda _, run: store.find_keys(run.pk, ["one", "two"]),
    "follow-ups": lambda _, run: store.following(run.pk, 3),
    "fold": lambda _, run: rebuild.differences(run.pk, whole=True),
    "chain": lambda _, run: list(rebuild.breaks(run.pk)),
    "notices": lambda _, run: outbox.relay(),
}  # fmt: skip


@pytest.fixture
def waiting() -> Run:
    """A run with a history, at its patch gate; its events have one partition of several."""
    partitions.make_ahead()
    assert len(partitions.partitions()) > partitions.AHEAD
    return make.run_in(RunStatus.WAITING_FOR_APPROVAL).run


def test_whoever_reads_a_runs_log_reads_one_partition_by_an_index(waiting: Run, client: Client):
    client.force_login(make.person(PersonRole.ADMIN))
    for name, read in READS.items():
        with statements() as found:
            read(client, waiting)
        assert found, name
        for statement in found:
            assert_reads_one_partition(statement)


def test_what_an_event_asks_before_it_is_written_reads_one_partition(waiting: Run):
    words = {"run": waiting.pk, "keys": ["key"], "artifacts": ["a"], "operations": ["o"]}
    assert_reads_one_partition((taking._read_text(), words))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_functiondef(tgfoid) FROM pg_trigger WHERE tgrelid = 'run_events'::regclass"
            " AND starts_with(tgname, 'pgtrigger_run_events_legal')"
        )
        guard = " ".join(cursor.fetchone()[0].replace("INTO before_sequence, before_status", "").split())
    assert GUARD.replace("%s", "NEW.run_id") in guard
    assert_reads_one_partition((GUARD, [waiting.pk]))
