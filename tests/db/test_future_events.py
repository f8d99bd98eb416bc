"""During an upgrade, events of the newer version are in the log: the older one shows them and moves on."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest
from django.urls import reverse

from agentplatform.ids import new_id
from runs import rebuild, store
from runs.domain.facts import Event, stamp
from runs.domain.vocabulary import RunStatus
from runs.models import RunEvent
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

RAW = "<b>warm</b>"


@pytest.fixture
def run(owner_connection):
    """A run whose last event is of a type that is not known here, written past today's triggers."""
    run = factories.run_in(RunStatus.EXECUTING).run
    last = list(store.events_of(run.pk))[-1]
    event = replace(
        last, id=new_id("evt"), sequence=last.sequence + 1, type="sandbox_warm", payload={"raw": RAW},
        facts={},
        key="", fingerprint="", schema_version=7, previous_hash=last.hash, from_status=last.to_status,
    )  # fmt: skip
    event = replace(event, hash=store.hash_of(event))
    head = store.mac(run.pk, event.sequence, event.hash)
    state = {**run.state, "sequence": event.sequence}
    with owner_connection.transaction():
        owner_connection.execute("SET LOCAL session_replication_role = replica")
        _insert(owner_connection, event)
        owner_connection.execute(
            "UPDATE runs SET version = %s, chain_hash = %s, chain_mac = %s,"
            " state = jsonb_set(jsonb_set(state, '{sequence}', %s), '{log_bytes}',"
            " to_jsonb((state->>'log_bytes')::int + %s)) WHERE id = %s",
            [
                event.sequence, event.hash, head, str(state["sequence"]),
                len('{"raw":"' + RAW + '"}') + len("{}"), run.pk,
            ],
        )  # fmt: skip
    run.refresh_from_db(fields=["state", "version"])
    return run


def _insert(owner: psycopg.Connection, event: Event) -> None:
    columns = {
        "id": event.id, "run_id": event.run_id, "sequence": event.sequence, "event_type": event.type,
        "from_status": event.from_status, "to_status": event.to_status, "attempt": event.attempt,
        "actor_type": event.actor.type, "actor_id": event.actor.id, "actor_name": event.actor.name,
        "fence": event.fence, "request_fingerprint": "", "parent": event.parent,
        "payload": '{"raw": "' + RAW + '"}', "facts": "{}",
        "schema_version": event.schema_version, "occurred_at": event.occurred_at,
        "recorded_at": event.recorded_at, "previous_hash": event.previous_hash, "hash": event.hash,
    }  # fmt: skip
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    owner.execute(f"INSERT INTO run_events ({names}) VALUES ({marks})".encode(), list(columns.values()))


def test_an_unknown_event_is_shown_as_such_and_breaks_nothing(run, client):
    person = factories.person(is_superuser=True, is_staff=True)
    client.force_login(person)
    for tab in ("timeline", "steps", "patch", "evidence", "events"):
        page = client.get(reverse("run", args=[run.pk]), {"tab": tab})
        assert page.status_code == 200, tab
    raw = page.content.decode()
    assert "sandbox_warm" in raw
    assert "unknown to this version" in raw
    assert RAW not in raw
    for path in ("", "/timeline", "/events", "/resume", "/receipt"):
        assert client.get(f"/api/v1/runs/{run.pk}{path}").status_code == 200, path
    for page in ("admin:runs_runevent_changelist", "admin:runs_run_changelist"):
        assert client.get(reverse(page)).status_code == 200
    assert client.get(reverse("run_log", args=[run.pk])).status_code == 200


def test_rows_still_equal_the_log_and_the_chain_holds(run):
    assert rebuild.differences(run.pk) == []
    assert list(rebuild.breaks(run.pk)) == []
    event = RunEvent.objects.get(run=run, event_type="sandbox_warm")
    assert stamp(event.recorded_at) <= run.state["updated_at"]
