"""Tasks over HTTP: made once, edited while they may be, acted on by those who may."""

from __future__ import annotations

from typing import Any

import pytest

from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Run, Task
from tests import factories
from tests.api.calls import Caller, problem

pytestmark = pytest.mark.django_db


def caller_for(*roles: PersonRole, **options: Any) -> Caller:
    return Caller(factories.person_token(factories.person(*roles, **options)))


@pytest.fixture
def submitter():
    return caller_for(PersonRole.SUBMITTER)


@pytest.fixture
def where():
    return factories.repository("clock")


def test_a_task_is_made_and_submitted_at_once(submitter, where):
    answer = submitter.post(
        "tasks", factories.contract(repository="clock", submit=True, labels=["migration"])
    )
    task = answer.json()
    assert answer.status_code == 201
    assert (task["status"], task["repository"], task["base_branch"]) == ("RUNNING", "clock", "main")
    assert task["run_ids"] == [task["latest_run_id"]]
    assert task["display"]["state"] == "queued"
    assert {"cancel", "edit"} <= {action["name"] for action in task["display"]["actions"]}
    assert submitter.get(f"runs/{task['latest_run_id']}").json()["status"] == "QUEUED"
    assert submitter.get(f"tasks/{task['id']}").json() == task


def test_a_rejected_task_says_every_reason(submitter, where):
    body = factories.contract(repository="clock", submit=True, verifiers=[], timeouts={"queue": 10**6})
    task = submitter.post("tasks", body).json()
    assert task["status"] == "REJECTED"
    assert len(task["rejection_reasons"]) == 2
    assert task["latest_run_id"] is None


def test_the_same_key_makes_one_task(submitter, where):
    body = factories.contract(repository="clock")
    first = submitter.post("tasks", body, idempotency_key="k")
    again = submitter.post("tasks", body, idempotency_key="k")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again["Idempotency-Replayed"] == "true"
    assert first.json()["id"] == again.json()["id"]
    other = factories.contract(repository="clock", title="Another")
    problem(submitter.post("tasks", other, idempotency_key="k"), 422, "idempotency_key_reused")
    assert caller_for(PersonRole.SUBMITTER).post("tasks", body, idempotency_key="k").status_code == 201


def test_one_unfinished_task_per_dedupe_key(submitter, where):
    body = factories.contract(repository="clock", dedupe_key="ticket-1")
    first = submitter.post("tasks", body).json()
    assert problem(submitter.post("tasks", body), 409, "duplicate_task")["task_id"] == first["id"]


def test_every_wrong_field_is_named(submitter, where):
    body = factories.contract(repository="clock", title="", priority=10, budget={"max_cost_usd": "-1"})
    errors = problem(submitter.post("tasks", body), 422, "invalid")["errors"]
    assert errors.keys() == {"title", "priority", "budget"}


def test_what_the_control_plane_says_of_a_task_nobody_else_can_say(submitter, where):
    body = factories.contract(repository="clock", status="COMPLETED", requested_by="bob", run_ids=["run_1"])
    made = submitter.post("tasks", body).json()
    assert (made["status"], made["run_ids"]) == ("DRAFT", [])
    assert made["created_by"] != "bob"
    assert "status" not in made["contract"]


@pytest.mark.parametrize("repository", [None, "", "unknown", 5, "repo_" + "0" * 26])
def test_a_task_needs_a_repository_that_is_known(submitter, repository):
    body = factories.contract(repository=repository)
    assert "repository" in problem(submitter.post("tasks", body), 422, "invalid")["errors"]


def test_a_repository_out_of_sight_is_as_unknown(where):
    elsewhere = caller_for(PersonRole.SUBMITTER, repository=factories.repository())
    problem(elsewhere.post("tasks", factories.contract(repository="clock")), 422, "invalid")


def test_a_draft_is_edited_submitted_or_deleted(submitter, where):
    path = f"tasks/{submitter.post('tasks', factories.contract(repository='clock')).json()['id']}"
    edited = submitter.send("PATCH", path, {"title": "Better", "priority": 9})
    assert (edited.json()["title"], edited.json()["priority"]) == ("Better", 9)
    problem(submitter.send("PATCH", path, {"repository": "other"}), 422, "invalid")
    assert submitter.post(f"{path}/submit").json()["status"] == "RUNNING"
    problem(submitter.send("PATCH", path, {"title": "Too late"}), 409, "not_allowed_now")
    assert submitter.send("PATCH", path, {"labels": ["a"]}).json()["labels"] == ["a"]
    assert problem(submitter.send("DELETE", path), 409, "not_allowed_now")["current_status"] == "RUNNING"
    draft = submitter.post("tasks", factories.contract(repository="clock")).json()["id"]
    assert submitter.send("DELETE", f"tasks/{draft}").status_code == 204
    problem(submitter.get(f"tasks/{draft}"), 404, "not_found")


def test_only_operators_jump_the_queue(submitter, where):
    task = submitter.post("tasks", factories.contract(repository="clock", submit=True)).json()
    path = f"tasks/{task['id']}"
    problem(submitter.send("PATCH", path, {"priority": 9}), 403, "permission_denied")
    assert caller_for(PersonRole.OPERATOR).send("PATCH", path, {"priority": 9}).json()["priority"] == 9


def test_people_cancel_what_they_asked_for_and_nothing_else(submitter, where):
    task = submitter.post("tasks", factories.contract(repository="clock", submit=True)).json()
    path = f"tasks/{task['id']}/cancel"
    refused = problem(caller_for(PersonRole.SUBMITTER).post(path, {"reason": "x"}), 403, "permission_denied")
    assert refused["required_roles"] == ["admin", "operator"]
    assert "reason" in problem(submitter.post(path, {}), 422, "invalid")["errors"]
    assert submitter.post(path, {"reason": "not needed"}).json()["status"] == "CANCELLED"
    problem(submitter.post(path, {"reason": "again"}), 409, "not_allowed_now")


def test_a_finished_task_is_run_again_archived_and_restored(submitter, where):
    task = submitter.post("tasks", factories.contract(repository="clock", submit=True)).json()
    path = f"tasks/{task['id']}"
    problem(submitter.post(f"{path}/run-again"), 409, "not_allowed_now")
    problem(submitter.post(f"{path}/retry"), 409, "not_allowed_now")
    submitter.post(f"{path}/cancel", {"reason": "x"})
    again = submitter.post(f"{path}/run-again", idempotency_key="again")
    assert again.status_code == 201
    assert again.json()["parent_id"] == task["id"]
    assert submitter.post(f"{path}/run-again", idempotency_key="again").json()["id"] == again.json()["id"]
    assert submitter.post(f"{path}/archive").json()["display"]["state"] == "archived"
    listed = [one["id"] for one in submitter.get("tasks").json()["results"]]
    assert task["id"] not in listed
    assert [one["id"] for one in submitter.get("tasks?display=archived").json()["results"]] == [task["id"]]
    assert submitter.post(f"{path}/restore").json()["archived_at"] is None


def test_a_further_instruction_reaches_the_run(submitter, where):
    task = submitter.post("tasks", factories.contract(repository="clock", submit=True)).json()
    answer = submitter.post(f"tasks/{task['id']}/instructions", {"text": "Leave the docs alone."})
    assert answer.status_code == 201
    assert [one["number"] for one in answer.json()["instructions"]] == [1, 2]
    assert Run.objects.get(pk=task["latest_run_id"]).state["instruction_no"] == 2
    problem(submitter.post(f"tasks/{task['id']}/instructions", {"text": " "}), 422, "invalid")


def test_machines_have_no_tasks(where):
    machine = Caller(factories.worker().token)
    problem(machine.post("tasks", factories.contract(repository="clock")), 403, "permission_denied")
    problem(machine.get("tasks"), 403, "permission_denied")


# --- people and runs ------------------------------------------------------------------------------


@pytest.fixture
def holder():
    return factories.run_in(RunStatus.EXECUTING)


def test_an_operator_pauses_resumes_and_stops_a_run(holder):
    operator, path = caller_for(PersonRole.OPERATOR), f"runs/{holder.run_id}"
    assert operator.post(f"{path}/pause", {"reason": "lunch"}).json()["directive"] == "pause"
    before = Run.objects.get(pk=holder.run_id).version
    assert operator.post(f"{path}/pause").json()["sequence"] == before
    assert operator.post(f"{path}/resume").json()["directive"] == "continue"
    assert operator.post(f"{path}/resume").json()["sequence"] == before + 1
    assert operator.post(f"{path}/wind-down").json()["directive"] == "wind_down"
    shown = operator.post(f"{path}/cancel", {"reason": "wrong idea"}).json()
    assert (shown["status"], shown["directive"]) == ("EXECUTING", "cancel")
    assert shown["display"]["state"] == "cancelling"
    problem(operator.post(f"{path}/pause"), 409, "not_allowed_now")


def test_a_stop_leaves_a_receipt(holder):
    operator, path = caller_for(PersonRole.OPERATOR), f"runs/{holder.run_id}"
    assert operator.get(f"{path}/receipt").json()["asked"] is None
    operator.post(f"{path}/cancel", {"reason": "wrong idea"})
    asked = operator.get(f"{path}/receipt").json()
    assert asked["asked"]["reason"] == "wrong idea"
    assert (asked["seen"], asked["process_group_gone"]) == ("unconfirmed", "unconfirmed")
    machine = Caller(holder.machine.token)
    machine.post(f"{path}/heartbeat", lease_token=holder.token)
    payload = {"cleanup": "done", "process_group_gone": True, "artifacts_saved": True}
    body = {"type": "run_cancelled", "payload": payload}
    ended = machine.post(f"{path}/events", body, lease_token=holder.token, idempotency_key="end")
    assert ended.json()["run"]["status"] == "CANCELLED"
    receipt = operator.get(f"{path}/receipt").json()
    assert asked["asked"] == receipt["asked"]
    assert receipt["seen"] <= receipt["process_group_gone"] == receipt["ended_at"]
    assert receipt["pull_request_reconciled"] is None


def test_a_remark_and_the_story(holder):
    reviewer, path = caller_for(PersonRole.REVIEWER), f"runs/{holder.run_id}"
    assert reviewer.post(f"{path}/note", {"text": "Looks slow."}).status_code == 200
    problem(reviewer.post(f"{path}/note", {"text": ""}), 422, "invalid")
    story = reviewer.get(f"{path}/timeline").json()
    sentences = [item["sentence"] for phase in story["phases"] for item in phase["items"]]
    assert any("Looks slow." in sentence or "note" in sentence.lower() for sentence in sentences)
    assert story["earlier"] is None
    attempts = reviewer.get(f"{path}/attempts").json()["results"]
    assert [(one["number"], one["state"]) for one in attempts] == [(1, "STARTED")]


def test_deleting_leaves_nothing_that_was_submitted():
    task = factories.task()
    operator = caller_for(PersonRole.OPERATOR)
    problem(operator.send("DELETE", f"tasks/{task.pk}"), 409, "not_allowed_now")
    assert Task.objects.filter(pk=task.pk).exists()
