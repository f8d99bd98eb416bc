"""Claim, heartbeat, release, resume over HTTP."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from runs import service
from runs.auth import of_person
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, Role, RunStatus
from runs.models import Refusal, Run
from tests import factories
from tests.api.calls import Caller, LeasedCaller, as_machine, problem

pytestmark = pytest.mark.django_db


def test_a_claim_answers_with_all_that_is_needed_to_begin():
    run = factories.queued_run()
    machine = factories.worker()
    answer = as_machine(machine).post("leases", {})
    assert answer.status_code == 201
    lease, shown, resume = (answer.json()[name] for name in ("lease", "run", "resume"))
    assert lease["run_id"] == shown["id"] == run.pk
    assert lease["fence"] == shown["fence"] == 1
    assert lease["heartbeat_interval_seconds"] == 15
    assert shown["status"] == "LEASED"
    assert shown["worker"] == machine.account.name
    assert "token" not in shown
    assert resume["repository"]["url"] == factories.shared_origin().url
    assert resume["task"]["contract"]["instruction"] == resume["instructions"][0]["text"]
    assert (resume["attempt"], resume["checkpoint"], resume["pending"]) == (None, None, [])
    assert as_machine(factories.worker()).post("leases", {}).status_code == 204


def test_a_lost_answer_is_got_again_with_the_same_key():
    factories.queued_run()
    factories.queued_run()
    caller = as_machine(factories.worker())
    first = caller.post("leases", {}, idempotency_key="claim-1")
    again = caller.post("leases", {}, idempotency_key="claim-1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again["Idempotency-Replayed"] == "true"
    assert again.json()["lease"] == first.json()["lease"]


def test_a_key_whose_lease_has_ended_makes_no_other_claim():
    factories.queued_run()
    caller = as_machine(factories.worker())
    lease = caller.post("leases", {}, idempotency_key="claim-1").json()["lease"]
    caller.post(f"runs/{lease['run_id']}/release", {"reason": "bye"}, lease_token=lease["token"])
    problem(caller.post("leases", {}, idempotency_key="claim-1"), 409, "lease_lost")


def test_roles_narrow_and_never_widen():
    factories.queued_run()
    verifier = as_machine(factories.worker(Role.VERIFIER, Role.WORKER))
    assert verifier.post("leases", {"roles": ["verifier"]}).status_code == 204
    assert problem(verifier.post("leases", {"roles": ["judge"]}), 403, "actor_not_allowed")["required_roles"]
    assert verifier.post("leases", {"roles": ["worker"]}).status_code == 201


@pytest.mark.parametrize(
    "body",
    [{"roles": "worker"}, {"roles": ["admin"]}, {"labels": [1]}, {"wait_seconds": 31}, {"wait_seconds": "1"}],
)
def test_odd_claims_are_refused(body):
    problem(as_machine(factories.worker()).post("leases", body), 422, "invalid")


def test_people_lease_nothing():
    person = factories.person(PersonRole.ADMIN)
    problem(Caller(factories.person_token(person)).post("leases", {}), 403, "actor_not_allowed")


@pytest.mark.django_db(transaction=True)
def test_a_waiting_claimer_gets_the_run_that_comes():
    machine, where = factories.worker(), factories.repository()
    answers = []

    def ask():
        answers.append(as_machine(machine).post("leases", {"wait_seconds": 20}))
        connection.close()

    waiting = threading.Thread(target=ask)
    waiting.start()
    run = factories.queued_run(where)
    waiting.join(15)
    assert [answer.status_code for answer in answers] == [201]
    assert answers[0].json()["run"]["id"] == run.pk


# --- heartbeat ------------------------------------------------------------------------------------


def test_a_heartbeat_renews_and_tells_the_directive():
    holder = factories.run_in(RunStatus.PREPARING)
    caller = LeasedCaller(holder)
    path = f"runs/{holder.run_id}/heartbeat"
    first = caller.post(path, lease_token=caller.lease_token).json()
    assert (first["directive"], first["reason"]) == ("continue", None)
    operator = factories.person(PersonRole.OPERATOR)
    service.run_direct(
        run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="wrong branch", by=of_person(operator).caller
    )
    second = caller.post(path, {}, lease_token=caller.lease_token).json()
    assert (second["directive"], second["reason"]) == ("cancel", "wrong branch")
    assert second["expires_at"] > first["expires_at"]


@pytest.mark.parametrize("token", [None, "", "x", "lease_0.ü"])
def test_a_heartbeat_needs_the_lease(token):
    holder = factories.run_in(RunStatus.LEASED)
    headers = {} if token is None else {"lease_token": token.encode().decode("latin-1")}
    response = Caller(holder.machine.token).post(f"runs/{holder.run_id}/heartbeat", **headers)
    assert problem(response, 409, "lease_lost")["fence"] == 1
    assert Refusal.objects.get().run_id == holder.run_id


def test_a_released_run_is_claimed_again_under_a_higher_fence():
    holder = factories.run_in(RunStatus.LEASED)
    caller = LeasedCaller(holder)
    answer = caller.post(f"runs/{holder.run_id}/release", {"reason": "draining"}, lease_token=holder.token)
    assert answer.status_code == 200
    assert answer.json()["run"]["status"] == "QUEUED"
    assert as_machine(factories.worker()).post("leases", {}).json()["lease"]["fence"] == 2


# --- resume ---------------------------------------------------------------------------------------


def test_a_taker_learns_where_things_stand():
    holder = factories.run_in(RunStatus.EXECUTING)
    call: dict[str, Any] = {"tool": "script", "arguments": {"command": "true"}, "label": "Run the script"}
    holder.post(Ev.TOOL_REQUESTED, operation_id="op-1", **call)
    holder.post(Ev.TOOL_COMPLETED, operation_id="op-1", outcome="succeeded", exit_code=0)
    checkpoint = holder.upload(ArtifactKind.CHECKPOINT, b"diff")
    holder.post(Ev.CHECKPOINT_SAVED, checkpoint_artifact_id=checkpoint, base_commit=holder.base_commit)
    holder.post(Ev.TOOL_REQUESTED, operation_id="op-2", **{**call, "arguments": {"command": "false"}})
    holder.post(Ev.LEASE_RELEASED, reason="draining")
    taker = factories.claim(factories.worker(), holder.run)
    resume = LeasedCaller(taker).get(f"runs/{holder.run_id}/resume").json()
    assert resume["attempt"]["number"] == 1
    assert resume["attempt"]["used"]["tool_calls"] == 2
    assert [(one["operation_id"], one["state"]) for one in resume["pending"]] == [("op-2", "RUNNING")]
    assert resume["pending"][0]["arguments"] == {"command": "false"}
    assert resume["checkpoint"] == {"id": checkpoint, "sha256": resume["checkpoint"]["sha256"], "size": 4}
    assert resume["plan"].keys() == {"id", "sha256", "size"}
    assert (resume["operations"], resume["lost"], resume["patch"]) == ([], [], None)
    assert resume["policy"]["lease_seconds"] == 60
    assert Run.objects.get(pk=holder.run_id).fence == 2
