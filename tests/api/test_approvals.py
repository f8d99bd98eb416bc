"""Approvals over HTTP: the queue, decisions about exactly what was shown, waivers by name."""

from __future__ import annotations

from typing import Any

import pytest

from runs.domain.vocabulary import PersonRole, RunStatus
from tests import factories
from tests.api.calls import Caller, problem

pytestmark = pytest.mark.django_db


def caller_for(somebody: Any) -> Caller:
    return Caller(factories.person_token(somebody))


@pytest.fixture
def requester():
    return factories.person(PersonRole.SUBMITTER, PersonRole.REVIEWER)


@pytest.fixture
def reviewer():
    return caller_for(factories.person(PersonRole.REVIEWER))


@pytest.fixture
def holder(requester):
    return factories.run_in(RunStatus.WAITING_FOR_APPROVAL, by=requester)


@pytest.fixture
def request_(holder, reviewer):
    (found,) = reviewer.get("approvals").json()["results"]
    return found


def decide(caller: Caller, shown: dict[str, Any], decision: str, **more: Any) -> Any:
    body = {
        "decision": decision,
        "version": shown["version"],
        "subject_sha256": shown["subject_sha256"],
        **more,
    }
    return caller.post(f"approvals/{shown['id']}/decisions", body)


def test_the_queue_shows_what_waits_and_why(request_, holder, reviewer, requester):
    assert (request_["run_id"], request_["gate"], request_["status"]) == (holder.run_id, "patch", "open")
    assert request_["may_decide"] is True
    assert {guard["name"]: guard["passed"] for guard in request_["guards"]}["auto_pr_task"] is False
    assert reviewer.get(f"approvals/{request_['id']}").json() == request_
    mine = caller_for(requester)
    assert mine.get(f"approvals/{request_['id']}").json()["may_decide"] is False
    assert mine.get("approvals?mine=true").json()["results"] == []
    for query in ("mine=true", "status=open&gate=patch", f"repository={holder.run.repository.name}"):
        assert len(reviewer.get(f"approvals?{query}").json()["results"]) == 1, query
    assert reviewer.get("approvals?status=approved").json()["results"] == []
    problem(reviewer.get("approvals?mine=perhaps"), 400, "malformed")
    problem(reviewer.get("approvals?gate=garden"), 400, "malformed")


def test_an_approval_moves_the_run_once(request_, holder, reviewer):
    answer = decide(reviewer, request_, "approve")
    assert answer.status_code == 200
    assert answer.json()["status"] == "approved"
    assert holder.run.status == RunStatus.PR_CREATING
    again = decide(reviewer, request_, "approve")
    assert (again.status_code, again["Idempotency-Replayed"]) == (200, "true")
    late = caller_for(factories.person(PersonRole.REVIEWER))
    problem(decide(late, request_, "reject", comment="no"), 409, "approval_decided")


def test_whoever_asked_cannot_approve(request_, requester, holder):
    problem(decide(caller_for(requester), request_, "approve"), 403, "approval_forbidden")
    assert holder.run.status == RunStatus.WAITING_FOR_APPROVAL


def test_changes_need_a_comment_and_send_the_run_back(request_, holder, reviewer):
    problem(decide(reviewer, request_, "request_changes"), 422, "invalid")
    assert decide(reviewer, request_, "request_changes", comment="Keep the name.").status_code == 200
    assert holder.run.status == RunStatus.EXECUTING


@pytest.mark.parametrize("stale", [{"version": 2}, {"subject_sha256": "0" * 64}], ids=["version", "digest"])
def test_a_decision_about_something_else_is_superseded(request_, holder, reviewer, stale):
    problem(decide(reviewer, {**request_, **stale}, "approve"), 409, "approval_superseded")
    assert holder.run.status == RunStatus.WAITING_FOR_APPROVAL


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"decision": "perhaps"}, "decision"),
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"subject_sha256": None}, "subject_sha256"),
        ({"comment": 5}, "comment"),
        ({"override": "yes"}, "override"),
        ({"arguments": []}, "arguments"),
    ],
)
def test_odd_decisions_are_refused_by_field(request_, reviewer, body, field):
    good = {"decision": "reject", "version": 1, "subject_sha256": request_["subject_sha256"], "comment": "no"}
    response = reviewer.post(f"approvals/{request_['id']}/decisions", {**good, **body})
    assert field in problem(response, 422, "invalid")["errors"]


def test_an_operator_waives_a_failing_guard_by_name():
    holder = factories.run_in(RunStatus.JUDGING, forbidden_paths=["*.py"])
    holder.judge()
    operator = caller_for(factories.person(PersonRole.OPERATOR))
    reviewer = caller_for(factories.person(PersonRole.REVIEWER))
    (shown,) = operator.get("approvals").json()["results"]
    refused = problem(decide(reviewer, shown, "approve"), 409, "guard_failed")
    assert [guard["name"] for guard in refused["guards"]] == ["paths"]
    path, body = f"approvals/{shown['id']}/waivers", {"guard": "paths", "reason": "agreed", "version": 1}
    problem(reviewer.post(path, body), 403, "permission_denied")
    problem(operator.post(path, {**body, "reason": " "}), 422, "invalid")
    problem(operator.post(path, {**body, "guard": "gravity"}), 422, "invalid")
    waived = operator.post(path, body).json()
    assert waived["version"] == 2
    problem(decide(reviewer, shown, "approve"), 409, "approval_superseded")
    assert decide(reviewer, waived, "approve").status_code == 200


def test_remarks_on_lines_are_part_of_the_decision(request_, holder, reviewer):
    remark = {"path": "clock.py", "line": 5, "text": "Name the zone."}
    wrong = decide(reviewer, request_, "request_changes", remarks=[{**remark, "path": "other.py"}])
    assert problem(wrong, 422, "invalid")["errors"] == {"remarks": ["other.py is no file of this patch"]}
    assert decide(reviewer, request_, "request_changes", remarks=[{**remark, "line": 0}]).status_code == 422
    answer = decide(reviewer, request_, "request_changes", comment="Nearly.", remarks=[remark])
    (said,) = answer.json()["decisions"]
    assert said["comment"].startswith("Nearly.\n\nclock.py:5\n> ")
    assert holder.run.task.instructions.get(number=2).text == said["comment"]
