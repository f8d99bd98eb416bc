"""What each gate takes: waivers at the patch gate; plans, calls, questions and budgets at theirs."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.models import ApprovalRequest
from approvals.service import approval_waive
from runs import auth, service
from runs.domain.commands import CONTROL_PLANE, Command
from runs.domain.errors import (
    ApprovalSuperseded,
    GuardFailed,
    Invalid,
    NotAllowedNow,
    PermissionDenied,
)
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from tests import factories as make
from tests.deciding import (
    decide,
    open_request,
    queue_and_runs_agree,
    reviewer,
    status,
    waiting,
)

pytestmark = pytest.mark.django_db

P = PersonRole
__all__ = ["queue_and_runs_agree"]


# --- guards and waivers ---------------------------------------------------------------------------


@pytest.fixture
def forbidden_path():
    where = make.repository(policy={"forbidden_paths": ["clock.py"]})
    return waiting(where=where)


def test_a_blocking_guard_forbids_approving_until_somebody_who_may_waives_it(forbidden_path):
    holder, request = forbidden_path
    carol, operator = reviewer("carol"), make.person(P.OPERATOR, name="olga")
    with pytest.raises(GuardFailed) as refused:
        decide(request, carol)
    assert [guard["name"] for guard in refused.value.extra["guards"]] == ["paths"]
    waiver = {"approval_id": request.pk, "guard": "paths", "reason": "agreed", "version": 1}
    with pytest.raises(PermissionDenied):
        approval_waive(**waiver, by=auth.of_person(carol))
    with pytest.raises(Invalid):
        approval_waive(**{**waiver, "reason": " "}, by=auth.of_person(operator))
    waived = approval_waive(**waiver, by=auth.of_person(operator))
    assert waived.version == 2
    assert next(g for g in waived.guards if g["name"] == "paths")["evidence"].endswith(
        "waived by olga: agreed"
    )
    with pytest.raises(ApprovalSuperseded):
        decide(request, carol)
    decide(waived, carol)
    assert status(holder) == RunStatus.PR_CREATING


def test_only_a_failing_and_waivable_guard_is_waived(forbidden_path):
    _, request = forbidden_path
    operator = auth.of_person(make.person(P.OPERATOR))
    for guard in ("secret_scan", "auto_pr_task", "no_such_guard"):
        with pytest.raises(NotAllowedNow):
            approval_waive(approval_id=request.pk, guard=guard, reason="so", version=1, by=operator)


def test_guards_evaluated_again_make_a_new_version():
    holder, request = waiting()
    state = holder.state
    facts = {
        "guards": [{**guard, "value": "seen anew"} for guard in state.guards],
        "effective_risk": state.effective_risk,
        "policy_version": "p@2",
    }
    command = Command(Ev.POLICY_EVALUATED, {}, CONTROL_PLANE, "", facts=facts)
    service.apply_event(holder.run_id, command)
    now = ApprovalRequest.objects.get(pk=request.pk)
    assert (now.version, now.guards[0]["value"]) == (2, "seen anew")
    with pytest.raises(ApprovalSuperseded):
        decide(request, reviewer())


# --- other gates ----------------------------------------------------------------------------------


def test_a_plan_sent_back_can_never_be_approved():
    holder, request = waiting(plan_approval="required")
    assert request.gate == "plan"
    decide(request, reviewer(), "request_changes", comment="fewer files")
    assert status(holder) == RunStatus.PLANNING
    again = make.claim(holder.machine, holder.run)
    with pytest.raises(GuardFailed):
        again.plan()
    again.plan(summary="another way")
    request = open_request(holder)
    decide(request, reviewer())
    assert status(holder) == RunStatus.EXECUTING


def call(**fields: Any) -> tuple[make.Holder, ApprovalRequest]:
    holder = make.run_in(RunStatus.EXECUTING)
    holder.post(
        Ev.TOOL_REQUESTED, operation_id="op-1", tool="shell", arguments={"command": "make"},
        label="make", requires_approval=True, **fields,
    )  # fmt: skip
    return holder, open_request(holder)


def test_a_tool_call_is_edited_by_its_reviewer():
    holder, request = call()
    with pytest.raises(NotAllowedNow):
        decide(request, reviewer(), "request_changes", comment="no")
    with pytest.raises(Invalid):
        decide(request, reviewer(), "edit")
    decide(request, reviewer(), "edit", arguments={"command": "make test"})
    assert holder.state.pending["op-1"]["arguments"] == {"command": "make test"}
    assert status(holder) == RunStatus.EXECUTING


def test_a_rejected_tool_call_is_skipped_and_the_run_goes_on():
    holder, request = call()
    decide(request, reviewer(), "reject", comment="too dangerous")
    assert holder.state.pending == {}
    assert status(holder) == RunStatus.EXECUTING


def test_the_comment_is_the_answer_and_the_submitter_may_give_it():
    alice = make.person(P.SUBMITTER)
    holder = make.run_in(RunStatus.EXECUTING, by=alice)
    holder.post(Ev.QUESTION_ASKED, question="Which zone?")
    request = open_request(holder)
    with pytest.raises(Invalid):
        decide(request, alice)
    decide(request, alice, comment="UTC")
    assert holder.state.feedback == {"source": "answer", "text": "UTC", "artifact_id": ""}


def test_a_budget_is_raised_above_what_is_spent_and_below_the_ceiling():
    where = make.repository(policy={"on_budget_exceeded": "ask", "budget_ceiling": {"max_cost_usd": "5"}})
    holder = make.run_in(RunStatus.EXECUTING, where=where, budget={"max_cost_usd": "1"})
    holder.post(Ev.MODEL_DECISION, decision="tool", cost_usd="1.50")
    request = open_request(holder)
    carol = reviewer()
    for budget in (None, {}, {"max_cost_usd": "1.50"}, {"max_cost_usd": "9"}, {"max_joy": 1}):
        with pytest.raises(Invalid):
            decide(request, carol, budget=budget)
    decide(request, carol, budget={"max_cost_usd": "4"})
    assert (holder.state.status, holder.state.budget["max_cost_usd"]) == ("EXECUTING", "4")
