"""Whole runs through the service: the paths of section 5.

After each, rows are what the log folds to (see ``folds_back``).
"""

from __future__ import annotations

import pytest

from runs.domain.errors import (
    GuardFailed,
)
from runs.domain.outcome import outcome
from runs.domain.vocabulary import (
    CompletionMode,
    Ev,
    Gate,
    RunStatus,
)
from runs.models import OutboxMessage, Run
from tests.driver import Driver

pytestmark = pytest.mark.django_db

S = RunStatus


def _outbox(driver: Driver) -> list[str]:
    rows = OutboxMessage.objects.filter(stream=driver.run_id).order_by("id")
    return list(rows.values_list("name", flat=True))


def test_a_pull_request_is_made_and_announced_step_by_step():
    driver = Driver.at(S.SUCCEEDED)
    assert driver.task.status == "COMPLETED"
    assert outcome(driver.state) == "completed"
    assert driver.state.attempts_started == 1
    assert _outbox(driver) == [
        "RunQueued",
        "RunLeased",
        "RunPreparing",
        "RunContextBuilding",
        "RunContextReady",
        "RunPlanCreated",
        "RunPatchReady",
        "RunVerificationStarted",
        "RunVerificationPassed",
        "RunJudgePassed",
        "RunPrCreating",
        "RunPrCreated",
        "RunSucceeded",
    ]


def test_an_analysis_never_has_a_patch():
    driver = Driver.at(S.EXECUTING, completion_mode=CompletionMode.ANALYSIS_REPORT_CREATED.value)
    with pytest.raises(Exception, match="does not take patch_created"):
        driver.post(Ev.PATCH_CREATED, driver.patch())
    driver.drive(S.SUCCEEDED)
    visited = set(Run.objects.get(pk=driver.run_id).events.values_list("to_status", flat=True))
    assert not visited & {S.PATCH_READY, S.VERIFYING, S.PR_CREATING, S.WAITING_FOR_APPROVAL}


def test_a_patch_for_review_ends_without_a_pull_request():
    driver = Driver.at(S.SUCCEEDED, completion_mode=CompletionMode.PATCH_READY_FOR_REVIEW.value)
    assert driver.state.patch is not None
    assert driver.state.guards, "the guards are shown all the same"
    assert Ev.HUMAN_APPROVAL_REQUIRED not in driver.types()


def test_a_secret_in_a_patch_for_review_is_denied():
    mode = CompletionMode.PATCH_READY_FOR_REVIEW.value
    driver = Driver.at(S.EXECUTING, completion_mode=mode)
    found = {"path": "app.py", "line": 3, "rule": "aws", "fingerprint": "x"}
    driver.post(Ev.PATCH_CREATED, driver.patch(secrets=[found]))
    state = driver.drive(S.FAILED)
    assert (state.failure or {})["category"] == "POLICY_DENIED"
    assert driver.task.status == "FAILED"


def test_high_risk_passes_two_gates_with_what_was_shown():
    driver = Driver.at(S.PLANNING, risk_level="high")
    driver.post(Ev.PLAN_CREATED)
    gate = driver.state.gate or {}
    assert (driver.state.status, gate["gate"]) == (S.WAITING_FOR_APPROVAL, Gate.PLAN)
    assert driver.task.status == "WAITING_FOR_APPROVAL"
    stale = driver.decision()
    driver.decide(Ev.VOTE_RECORDED)
    with pytest.raises(Exception, match="changed since"):
        driver.decide(Ev.APPROVED, version=99)
    driver.decide(Ev.APPROVED)
    assert (driver.state.status, driver.task.status) == (S.EXECUTING, "RUNNING")
    driver.drive(S.WAITING_FOR_APPROVAL)
    assert (driver.state.gate or {})["gate"] == Gate.PATCH
    with pytest.raises(Exception, match="changed since"):
        driver.post(Ev.APPROVED, stale)
    driver.decide(Ev.APPROVED)
    assert driver.drive(S.SUCCEEDED).effective_risk == "high"


def test_a_risky_path_adds_the_patch_gate():
    driver = Driver.at(S.EXECUTING)
    driver.post(Ev.PATCH_CREATED, driver.patch(".github/workflows/ci.yml"))
    state = driver.drive(S.WAITING_FOR_APPROVAL)
    assert state.effective_risk == "high"
    assert [g["name"] for g in state.guards if g["passed"] is not True] == ["risk"]


def test_a_plan_sent_back_can_never_be_approved():
    driver = Driver.at(S.PLANNING, plan_approval="required")
    plan = driver.plan()
    driver.post(Ev.PLAN_CREATED, plan)
    driver.decide(Ev.CHANGES_REQUESTED)
    assert driver.state.status == S.PLANNING
    driver.claim()
    with pytest.raises(GuardFailed):
        driver.post(Ev.PLAN_CREATED, plan)
    driver.post(Ev.PLAN_CREATED)
    driver.decide(Ev.APPROVED)
    assert driver.state.status == S.EXECUTING


def test_requested_changes_start_a_new_attempt():
    driver = Driver.at(S.WAITING_FOR_APPROVAL)
    driver.decide(Ev.CHANGES_REQUESTED, comment="leave the tests alone")
    state = driver.state
    assert (state.status, state.attempts_started) == (S.EXECUTING, 2)
    assert (state.feedback or {})["text"] == "leave the tests alone"


@pytest.mark.parametrize("gate", [Gate.PLAN, Gate.PATCH])
def test_a_rejection_ends_the_run(gate: Gate):
    driver = Driver.at(S.WAITING_FOR_APPROVAL, plan_approval="required" if gate is Gate.PLAN else "never")
    driver.decide(Ev.REJECTED)
    failure = driver.state.failure or {}
    assert (failure["category"], failure["reason"]) == ("REVIEW_REJECTED", f"{gate}_rejected")
    assert (driver.task.status, driver.task.runs_made) == ("FAILED", 1)


def test_a_blocking_guard_forbids_approving():
    driver = Driver.at(S.EXECUTING, forbidden_paths=["secret/**"])
    driver.post(Ev.PATCH_CREATED, driver.patch("secret/a.py"))
    driver.drive(S.WAITING_FOR_APPROVAL)
    with pytest.raises(GuardFailed) as refused:
        driver.decide(Ev.APPROVED)
    assert [g["name"] for g in refused.value.extra["guards"]] == ["paths"]
    assert driver.state.status == S.WAITING_FOR_APPROVAL
