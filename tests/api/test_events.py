"""Posting events: idempotent, fenced, ordered, all or none."""

from __future__ import annotations

import pytest

from runs.domain.vocabulary import Ev, Role, RunStatus
from runs.models import Lease, Refusal, Run, RunEvent
from tests import factories
from tests.api.calls import Caller, LeasedCaller, problem

pytestmark = pytest.mark.django_db

STARTED = {"worker_version": "1.0"}
GOOD = {"type": "worker_started", "payload": STARTED}


@pytest.fixture
def holder():
    return factories.run_in(RunStatus.LEASED)


@pytest.fixture
def caller(holder):
    return LeasedCaller(holder)


def count(run_id: str) -> int:
    return RunEvent.objects.filter(run_id=run_id).count()


def test_an_event_answers_with_itself_the_run_and_the_lease(caller):
    response = caller.event("worker_started", STARTED, occurred_at="2026-07-03T10:20:30+02:00")
    answer = response.json()
    assert response.status_code == 201
    assert answer["event"]["from_status"], answer["event"]["to_status"] == ("LEASED", "PREPARING")
    assert answer["event"]["occurred_at"] == "2026-07-03T08:20:30.000000Z"
    assert answer["event"]["actor"]["type"] == "worker"
    assert answer["follow_ups"] == []
    assert answer["run"]["status"] == "PREPARING"
    assert answer["run"]["sequence"] == answer["event"]["sequence"]
    assert "sandbox_ready" in answer["run"]["allowed_events"]
    assert answer["run"]["display"]["state"] == "starting"
    assert answer["lease"]["expires_at"] > answer["event"]["recorded_at"]


def test_the_same_key_and_request_get_the_same_answer(caller):
    first = caller.event("worker_started", STARTED)
    before = count(caller.run_id)
    again = caller.event("worker_started", STARTED, occurred_at="2026-07-03T10:20:30Z")
    assert again.status_code == 200
    assert again["Idempotency-Replayed"] == "true"
    assert again.json()["event"] == first.json()["event"]
    assert count(caller.run_id) == before


def test_the_same_request_in_another_spelling_gets_the_same_answer(caller):
    path, headers = (
        f"runs/{caller.run_id}/events",
        {"idempotency_key": "k", "lease_token": caller.lease_token},
    )
    one = b'{"type": "worker_started", "payload": {"worker_version": "1", "extra": {"a": 1, "b": [2.0]}}}'
    other = b'{"payload":{"extra":{"b":[2.0], "a":1},  "worker_version":"1"},"type":"worker_started"}'
    first, again = (caller.post(path, body, **headers) for body in (one, other))
    assert (first.status_code, again.status_code) == (201, 200), again.content
    assert again.json()["event"] == first.json()["event"]


def test_a_key_of_another_run_is_another_key(caller):
    caller.event("worker_started", STARTED, key="k")
    other = LeasedCaller(factories.run_in(RunStatus.LEASED))
    assert other.event("worker_started", STARTED, key="k").status_code == 201


def test_the_longest_key_is_taken_whole(caller):
    assert caller.event("worker_started", STARTED, key="k" * 255).status_code == 201
    assert caller.event("sandbox_ready", {"sandbox_id": "s", "base_commit": "a" * 40},
                        key="k" * 254).status_code == 201  # fmt: skip


def test_a_quoted_key_is_the_same_key(caller):
    caller.event("worker_started", STARTED, key="abc")
    assert caller.event("worker_started", STARTED, key='"abc"').status_code == 200


def test_the_same_key_for_another_request_is_refused(caller):
    caller.event("worker_started", STARTED)
    problem(caller.event("worker_started", {"worker_version": "2"}), 422, "idempotency_key_reused")
    problem(
        caller.event("sandbox_ready", {"sandbox_id": "s", "base_commit": "a" * 40}),
        422,
        "idempotency_key_reused",
    )


def test_the_same_key_from_another_account_is_refused(caller, holder):
    caller.event("worker_started", STARTED)
    holder.post(Ev.LEASE_RELEASED)
    other = factories.claim(factories.worker(), holder.run)
    problem(LeasedCaller(other).event("worker_started", STARTED), 422, "idempotency_key_reused")


def test_a_replay_is_answered_after_the_lease_is_gone_and_the_run_has_ended(caller, holder):
    first = caller.event("worker_started", STARTED)
    failure = {"category": "UNKNOWN", "reason": "broken", "summary": "It broke."}
    assert caller.event("non_retryable_failure", {"failure": failure}, key="end").status_code == 201
    again = caller.event("worker_started", STARTED)
    assert again.status_code == 200
    assert again.json()["event"] == first.json()["event"]
    assert again.json()["run"]["status"] == "FAILED"
    assert again.json()["lease"] is None
    refused = problem(caller.event("worker_started", STARTED, key="new"), 409, "run_terminal")
    assert refused["outcome"] == "failed"


def test_a_refused_request_leaves_its_key_free(caller):
    problem(caller.event("plan_created", {"plan_artifact_id": "art_" + "0" * 26}), 409, "illegal_transition")
    assert caller.event("worker_started", STARTED).status_code == 201


@pytest.mark.parametrize("key", [None, "", '""', "two words", "tab\there", "ü", "x" * 256])
def test_an_event_needs_a_key_of_visible_characters(caller, key):
    headers = {} if key is None else {"idempotency_key": key.encode().decode("latin-1")}
    response = caller.post(
        f"runs/{caller.run_id}/events", {"type": "worker_started", "payload": STARTED},
        lease_token=caller.lease_token, **headers,
    )  # fmt: skip
    problem(response, 400, "idempotency_key_missing")


def test_a_stale_reader_is_told_the_sequence(caller):
    refused = problem(caller.event("worker_started", STARTED, expected_sequence=1), 409, "sequence_conflict")
    sequence = refused["sequence"]
    assert caller.event("worker_started", STARTED, expected_sequence=sequence).status_code == 201


def test_a_worker_that_lost_its_lease_changes_nothing_and_is_counted(caller, holder):
    holder.post(Ev.LEASE_RELEASED)
    factories.claim(factories.worker(), holder.run)
    before = count(caller.run_id)
    refused = problem(caller.event("worker_started", STARTED), 409, "lease_lost")
    assert refused["fence"] == 2
    assert count(caller.run_id) == before
    counted = Refusal.objects.get()
    assert (counted.code, counted.run_id, counted.event_type) == (
        "lease_lost",
        caller.run_id,
        "worker_started",
    )
    assert (counted.account, counted.fence) == (holder.machine.account.pk, 1)


def test_an_expired_lease_is_never_revived(caller):
    Lease.objects.filter(run_id=caller.run_id).update(expires_at="2020-01-01T00:00:00Z")
    problem(caller.event("worker_started", STARTED), 409, "lease_lost")
    problem(caller.post(f"runs/{caller.run_id}/heartbeat", lease_token=caller.lease_token), 409, "lease_lost")


def test_a_role_posts_only_its_own_events(holder):
    verifier = factories.worker(Role.VERIFIER, Role.WORKER)
    holder.post(Ev.LEASE_RELEASED)
    other = LeasedCaller(factories.claim(verifier, holder.run))
    refused = problem(
        other.event("plan_created", {"plan_artifact_id": "art_" + "0" * 26}), 403, "actor_not_allowed"
    )
    assert refused["required_roles"] == ["agent_runtime"]


@pytest.mark.parametrize(
    "kind", ["cancel_requested", "approved", "note_added", "guard_waived", "priority_changed"]
)
def test_events_of_people_are_refused_here(caller, kind):
    payload = {"reason": "x", "text": "x", "priority": 1}
    problem(caller.event(kind, payload), 403, "actor_not_allowed")


def test_people_have_no_way_through_events(caller):
    admin = factories.person(is_superuser=True)
    person = Caller(factories.person_token(admin))
    body = {"type": "cancel_requested", "payload": {"reason": "x"}}
    response = person.post(f"runs/{caller.run_id}/events", body, idempotency_key="k")
    problem(response, 403, "actor_not_allowed")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"payload": {}}, "type"),
        ({"type": "no_such_event"}, "type"),
        ({"type": ["worker_started"]}, "type"),
        ({"type": "worker_started", "payload": []}, "payload"),
        ({"type": "worker_started", "payload": {}}, "payload.worker_version"),
        ({**GOOD, "expected_sequence": "1"}, "expected_sequence"),
        ({**GOOD, "expected_sequence": True}, "expected_sequence"),
        ({**GOOD, "occurred_at": "2026-07-03T10:20:30"}, "occurred_at"),
        ({**GOOD, "occurred_at": "0001-01-01T00:00:00+23:59"}, "occurred_at"),
        ({**GOOD, "occurred_at": 5}, "occurred_at"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(caller, body, field):
    response = caller.post(
        f"runs/{caller.run_id}/events", body, lease_token=caller.lease_token, idempotency_key="k"
    )
    assert field in problem(response, 422, "invalid")["errors"]


# --- batches --------------------------------------------------------------------------------------


def item(key: str, kind: str = "worker_started", **payload: object) -> dict[str, object]:
    return {"key": key, "type": kind, "payload": payload or STARTED}


def prepared(key: str) -> dict[str, object]:
    return item(key, "sandbox_ready", sandbox_id="s", base_commit="a" * 40)


def test_a_batch_is_applied_in_order(caller):
    response = caller.batch(item("a"), prepared("b"))
    answer = response.json()
    assert response.status_code == 201
    assert [one["event"]["type"] for one in answer["results"]] == ["worker_started", "sandbox_ready"]
    assert answer["run"]["status"] == "CONTEXT_BUILDING"
    assert answer["lease"]


def test_a_batch_is_all_or_none_and_names_the_item(caller):
    before = count(caller.run_id)
    refused = problem(caller.batch(item("a"), item("b")), 409, "illegal_transition")
    assert refused["index"] == 1
    assert count(caller.run_id) == before
    assert problem(caller.batch(item("a"), {"key": "b", "type": "x"}), 422, "invalid")["index"] == 1
    assert problem(caller.batch(item("a"), item("")), 400, "idempotency_key_missing")["index"] == 1
    assert problem(caller.batch(prepared("a")), 409, "illegal_transition")["index"] == 0


def test_keys_seen_before_are_replayed_in_place(caller):
    caller.event("worker_started", STARTED, key="a")
    answer = caller.batch(item("a"), prepared("b"))
    assert answer.status_code == 201
    assert [one["replayed"] for one in answer.json()["results"]] == [True, False]
    again = caller.batch(item("a"), prepared("b"))
    assert (again.status_code, again["Idempotency-Replayed"]) == (200, "true")


def test_nothing_follows_what_ends_the_lease(caller):
    refused = problem(caller.batch(item("a", "lease_released", reason="done"), item("b")), 422, "invalid")
    assert refused["index"] == 1


@pytest.mark.parametrize("events", [[], None, "x", [{}] * 101])
def test_a_batch_has_1_to_100_events(caller, events):
    response = caller.post(
        f"runs/{caller.run_id}/events/batch", {"events": events}, lease_token=caller.lease_token
    )
    problem(response, 422, "invalid")


# --- the log --------------------------------------------------------------------------------------


def test_the_log_reads_on_after_a_sequence(caller):
    caller.batch(item("a"), prepared("b"))
    whole = caller.get(f"runs/{caller.run_id}/events").json()
    assert [one["sequence"] for one in whole["results"]] == list(range(1, len(whole["results"]) + 1))
    first = caller.get(f"runs/{caller.run_id}/events?limit=2").json()
    rest = caller.get(first["next"].removeprefix("http://testserver")).json()
    assert first["results"] + rest["results"] == whole["results"][:4]
    last = whole["results"][-1]["sequence"]
    assert caller.get(f"runs/{caller.run_id}/events?after={last}").json()["results"] == []


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "wait_seconds=1.5", "after=%00"])
def test_an_odd_query_is_malformed(caller, query):
    problem(caller.get(f"runs/{caller.run_id}/events?{query}"), 400, "malformed")


def test_a_run_of_another_repository_is_not_found(caller):
    stranger = factories.worker(repositories=(factories.repository(),))
    other = Caller(stranger.token)
    problem(other.get(f"runs/{caller.run_id}/events"), 404, "not_found")
    body = {"type": "worker_started", "payload": STARTED}
    problem(other.post(f"runs/{caller.run_id}/events", body, idempotency_key="k"), 404, "not_found")
    assert Run.objects.get(pk=caller.run_id).status == "LEASED"
