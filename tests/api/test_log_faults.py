"""What arrives wrong, late, twice or out of order: one test for each kind of fault."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from runs.domain.vocabulary import ArtifactKind, Ev, RunStatus
from runs.models import RunEvent
from runs.selectors.events import run_events
from tests import factories
from tests.api.calls import LeasedCaller, problem

pytestmark = pytest.mark.django_db

CALL: dict[str, Any] = {"tool": "tracker", "arguments": {"n": 1}, "label": "Comment", "effect": "outside"}
DONE: dict[str, Any] = {"operation_id": "op", "outcome": "succeeded", "summary": "commented", "exit_code": 0}


@pytest.fixture
def holder():
    return factories.run_in(RunStatus.EXECUTING)


@pytest.fixture
def caller(holder):
    return LeasedCaller(holder)


# --- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [-0.5, "-0.50", 1e30, "1e30", 1_000_001, "0.1.2", True, [], "٣", "1" * 41])
def test_a_cost_that_could_lower_or_blow_up_the_total_is_refused(caller, holder, cost):
    caller.event("model_decision", {"decision": "tool", "cost_usd": "0.25"}, key="first")
    refused = caller.event("model_decision", {"decision": "tool", "cost_usd": cost}, key="second")
    assert refused.status_code in (400, 422)
    assert holder.state.used["cost_usd"] == "0.25"


def test_costs_below_a_cent_add_up_exactly_and_once(caller, holder):
    items = [
        {"key": f"k{n}", "type": "model_decision", "payload": {"decision": "tool", "cost_usd": "0.0000004"}}
        for n in range(100)
    ]
    assert caller.batch(*items).status_code == 201
    assert caller.batch(*items).status_code == 200  # the same again: a replay, nothing is added
    assert Decimal(holder.state.used["cost_usd"]) == Decimal("0.00004")


# --- stamps ---------------------------------------------------------------------------------------


def test_a_callers_clock_orders_nothing_and_a_wrong_one_is_named(caller, holder):
    moments = [timedelta(0), timedelta(0), timedelta(days=3, hours=1), timedelta(days=-400)]
    now = datetime.now(UTC)
    for number, off in enumerate(moments):
        at = (now + off).isoformat()
        answer = caller.event("model_decision", {"decision": "tool"}, key=f"k{number}", occurred_at=at)
        assert answer.status_code == 201
    rows = list(RunEvent.objects.filter(run_id=holder.run_id).order_by("sequence"))
    assert [row.recorded_at for row in rows] == sorted(row.recorded_at for row in rows)
    shown = [event["moved"] for event in run_events(run=holder.run, params={})["events"]][-4:]
    assert ["clock off by" in text for text in shown] == [False, False, True, True]
    assert "clock off by 3 d" in shown[2]


# --- order ----------------------------------------------------------------------------------------


def test_events_that_overtake_each_other_are_taken_in_their_order_only(holder):
    factories.drive(holder, RunStatus.PATCH_READY)
    caller = LeasedCaller(holder)
    command = {"name": "test", "command": "pytest -q", "exit_code": 0, "duration_ms": 12}
    document = {"patch_sha256": holder.state.patch["sha256"], "commands": [command]}
    passed = {"verification_report_id": holder.upload(ArtifactKind.VERIFICATION_REPORT, document)}
    early = problem(caller.event("verification_passed", passed, key="k2"), 409, "illegal_transition")
    assert early["current_status"] == "PATCH_READY"
    assert "verification_started" in early["allowed_events"]
    assert caller.event("verification_started", {"commands": ["test"]}, key="k1").status_code == 201
    again = caller.event("verification_passed", passed, key="k2")
    assert (again.status_code, again.json()["run"]["status"]) == (201, "JUDGING")


# --- operations -----------------------------------------------------------------------------------


def test_an_operation_is_completed_once_and_then_answered_from_the_ledger(caller, holder):
    assert caller.event("tool_requested", {"operation_id": "op", **CALL}, key="r").status_code == 201
    first = caller.event("tool_completed", DONE, key="c")
    again = caller.event("tool_completed", DONE, key="c")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["event"] == first.json()["event"]
    other = caller.event("tool_completed", {**DONE, "outcome": "failed"}, key="c2")
    refused = problem(other, 409, "not_allowed_now")
    assert (refused["step"]["state"], refused["step"]["summary"]) == ("SUCCEEDED", "commented")
    repeated = caller.event("tool_requested", {"operation_id": "op", **CALL}, key="r2")
    assert problem(repeated, 409, "not_allowed_now")["step"]["summary"] == "commented"
    assert holder.run.events.filter(event_type="tool_completed").count() == 1
    assert holder.state.used["outside_writes"] == 1
    unknown = caller.event("tool_completed", {**DONE, "operation_id": "never"}, key="c3")
    assert problem(unknown, 422, "invalid")["errors"].keys() == {"payload.operation_id"}


def test_a_taker_is_told_everything_that_is_pending_done_and_lost(caller, holder):
    workspace = {"tool": "shell", "arguments": {"command": "make"}, "label": "Build"}
    checkpoint = holder.upload(ArtifactKind.CHECKPOINT, b"diff")
    holder.post(Ev.CHECKPOINT_SAVED, checkpoint_artifact_id=checkpoint, base_commit=holder.base_commit)
    holder.post(Ev.TOOL_REQUESTED, operation_id="built", **workspace)
    holder.post(Ev.TOOL_COMPLETED, operation_id="built", outcome="succeeded")
    holder.post(Ev.TOOL_REQUESTED, operation_id="done", **CALL)
    holder.post(Ev.TOOL_COMPLETED, **{**DONE, "operation_id": "done"})
    for name in ("one", "two", "three"):
        holder.post(Ev.TOOL_REQUESTED, operation_id=name, **{**CALL, "arguments": {"name": name}})
    holder.post(Ev.LEASE_RELEASED, reason="draining")
    taker = LeasedCaller(factories.claim(run=holder.run))
    resume = taker.get(f"runs/{holder.run_id}/resume").json()
    assert resume.keys() == {
        "task", "repository", "policy", "attempt", "instruction", "instructions", "pending", "operations",
        "lost", "checkpoint", "plan", "patch", "verification_report", "feedback", "hints", "budget",
    }  # fmt: skip
    assert [call["operation_id"] for call in resume["pending"]] == ["one", "two", "three"]
    assert resume["pending"][1]["arguments"] == {"name": "two"}
    assert [(e["operation_id"], e["outcome"], e["summary"]) for e in resume["operations"]] == [
        ("done", "succeeded", "commented")
    ]
    assert [step["operation_id"] for step in resume["lost"]] == ["built"]
    assert taker.event("tool_requested", {"operation_id": "built", **workspace}).status_code == 201
