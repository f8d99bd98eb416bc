"""A request opens and closes with its run, and one person's word is recorded once."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.models import ApprovalRequest, Decision
from approvals.service import approval_waive
from runs import auth, projections, service, timeouts
from runs.domain.errors import (
    ApprovalClosed,
    ApprovalDecided,
    ApprovalForbidden,
    ApprovalSuperseded,
    Invalid,
    NotAllowedNow,
    NotFound,
)
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import Ev, PersonRole, Risk, RunStatus
from runs.models import Run, RunEvent, Task
from tests import factories as make
from tests.deciding import (
    WAITING,
    after_due,
    decide,
    event_of,
    open_request,
    queue_and_runs_agree,
    reviewer,
    status,
    waiting,
)

pytestmark = pytest.mark.django_db

P = PersonRole
__all__ = ["queue_and_runs_agree"]


# --- opening and closing --------------------------------------------------------------------------


def test_a_patch_gate_opens_a_request_with_its_evidence():
    holder, request = waiting()
    assert (request.gate, request.version, request.needed) == ("patch", 1, 1)
    assert holder.state.patch == {**(holder.state.patch or {}), "sha256": request.subject_sha256}
    assert {guard["name"] for guard in request.guards} >= {"paths", "secret_scan", "verification"}
    assert after_due(request) > request.requested_at


def test_approving_moves_the_run_and_closes_the_request():
    holder, request = waiting()
    carol = reviewer("carol")
    outcome = decide(request, carol, comment="fine")
    assert status(holder) == RunStatus.PR_CREATING
    closed = ApprovalRequest.objects.get(pk=request.pk)
    assert (closed.status, closed.closed_by, closed.close_reason) == ("approved", "carol", "fine")
    assert event_of(outcome).facts["by"] == [{"id": carol.pk, "name": "carol"}]
    assert Decision.objects.get().by == carol


def test_rejecting_ends_the_run_with_the_reason():
    holder, request = waiting()
    decide(request, reviewer(), "reject", comment="not wanted")
    state = RunState.from_json(Run.objects.get(pk=holder.run_id).state)
    assert (state.status, (state.failure or {})["category"], (state.failure or {})["summary"]) == (
        "FAILED",
        "REVIEW_REJECTED",
        "not wanted",
    )


def test_requested_changes_become_the_next_instruction():
    holder, request = waiting()
    carol = reviewer("carol")
    decide(request, carol, "request_changes", comment="leave the API alone")
    task = TaskState.from_json(Task.objects.get(pk=request.task_id).state)
    assert [(i["number"], i["text"]) for i in task.instructions][-1] == (2, "leave the API alone")
    state = RunState.from_json(Run.objects.get(pk=holder.run_id).state)
    assert (state.status, state.instruction_no, (state.attempt or {})["number"]) == ("EXECUTING", 2, 2)


def test_cancelling_closes_the_request_in_the_same_transaction():
    holder, request = waiting()
    alice = make.person(P.OPERATOR, name="alice")
    caller = auth.of_person(alice).caller
    service.run_direct(run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="obsolete", by=caller)
    closed = ApprovalRequest.objects.get(pk=request.pk)
    assert (closed.status, closed.closed_by, closed.close_reason) == ("cancelled", "alice", "obsolete")
    with pytest.raises(ApprovalClosed, match="alice") as refused:
        decide(request, reviewer())
    assert refused.value.extra["run_status"] == "CANCELLED"
    assert status(holder) == "CANCELLED"


def test_run_and_request_are_written_together_or_not_at_all(monkeypatch):
    holder = make.run_in(RunStatus.JUDGING)
    events = RunEvent.objects.filter(run_id=holder.run_id).count()

    def break_down(told):
        if told.state.status == WAITING:
            raise RuntimeError("power cut")

    monkeypatch.setattr(projections, "_listeners", [*projections._listeners, break_down])
    with pytest.raises(RuntimeError, match="power cut"):
        holder.judge()
    assert status(holder) == RunStatus.JUDGING
    assert RunEvent.objects.filter(run_id=holder.run_id).count() == events
    assert not ApprovalRequest.objects.exists()
    monkeypatch.undo()
    holder.judge()
    assert ApprovalRequest.objects.get().run_id == holder.run_id


# --- what was shown -------------------------------------------------------------------------------


def test_a_decision_about_another_patch_or_version_decides_nothing():
    holder, request = waiting()
    carol = reviewer()
    for stale in ({"version": 2}, {"subject_sha256": "0" * 64}, {"subject_sha256": ""}):
        with pytest.raises(ApprovalSuperseded) as refused:
            decide(request, carol, **stale)
        assert refused.value.extra["subject_sha256"] == request.subject_sha256
    assert status(holder) == WAITING
    assert not Decision.objects.exists()


def test_an_old_tab_cannot_approve_the_patch_that_replaced_what_it_shows():
    holder, old = waiting()
    bob, carol = reviewer("bob"), reviewer("carol")
    decide(old, carol, "request_changes", comment="again")
    make.drive(make.claim(holder.machine, holder.run), WAITING)  # the same bytes, a new request
    new = open_request(holder)
    with pytest.raises(ApprovalSuperseded) as refused:
        decide(old, bob)
    assert refused.value.extra["approval_id"] == new.pk
    assert new.subject_sha256 == old.subject_sha256
    assert status(holder) == WAITING
    decide(new, bob)
    assert status(holder) == RunStatus.PR_CREATING


def test_an_overdue_request_cannot_be_decided_even_before_the_sweep(monkeypatch):
    holder, request = waiting()
    later = after_due(request)
    monkeypatch.setattr("approvals.people.database_now", lambda: later)
    with pytest.raises(ApprovalClosed, match="was due at") as refused:
        decide(request, reviewer())
    assert refused.value.extra["approval_status"] == "expired"
    assert status(holder) == WAITING


def test_an_overdue_request_that_escalates_can_still_be_decided(monkeypatch):
    where = make.repository(policy={"on_approval_timeout": "escalate"})
    holder, request = waiting(where=where)
    later = after_due(request)
    monkeypatch.setattr("approvals.people.database_now", lambda: later)
    decide(request, reviewer())
    assert status(holder) == RunStatus.PR_CREATING


# --- who may --------------------------------------------------------------------------------------


def test_what_is_not_theirs_to_know_does_not_exist():
    _, request = waiting()
    elsewhere = reviewer("dave", where=make.repository())
    for word in ("approve", "reject", "nonsense"):
        with pytest.raises((NotFound, Invalid)):
            decide(request, elsewhere, word)
    with pytest.raises(NotFound) as unknown:
        decide(ApprovalRequest(pk="apr_unknown", version=1, subject_sha256=""), elsewhere)
    with pytest.raises(NotFound) as hidden:
        decide(request, elsewhere)
    assert (unknown.value.detail, unknown.value.extra) == (hidden.value.detail, hidden.value.extra)


def test_only_reviewers_decide():
    _, request = waiting()
    for role in (P.VIEWER, P.SUBMITTER, P.OPERATOR):
        with pytest.raises(ApprovalForbidden, match="Only a reviewer"):
            decide(request, make.person(role))
    decide(request, make.person(P.ADMIN))


def test_who_asked_for_the_task_cannot_approve_it_by_any_account():
    alice = make.person(P.SUBMITTER, P.REVIEWER, name="alice")
    other_account = reviewer("alice-two", same_person_as=alice)
    _, request = waiting(by=alice)
    for account in (alice, other_account):
        with pytest.raises(ApprovalForbidden, match="You asked for this task"):
            decide(request, account)
    decide(request, alice, "reject", comment="I do not want it any more")


def test_the_author_of_the_instruction_in_force_cannot_approve():
    holder, request = waiting()
    carol = reviewer("carol")
    decide(request, carol, "request_changes", comment="smaller")
    make.drive(make.claim(holder.machine, holder.run), WAITING)
    request = open_request(holder)
    with pytest.raises(ApprovalForbidden, match="wrote the instruction in force"):
        decide(request, carol)
    decide(request, reviewer())


def test_a_later_instruction_frees_nobody():
    holder, request = waiting()
    carol = reviewer("carol")
    decide(request, carol, "request_changes", comment="smaller")
    make.drive(make.claim(holder.machine, holder.run), WAITING)
    request = open_request(holder)
    sam = auth.of_person(make.person(P.OPERATOR)).caller
    service.instruction_add(task_id=request.task_id, text="And faster.", by=sam)
    with pytest.raises(ApprovalForbidden, match="wrote the instruction in force"):
        decide(request, carol)


def test_what_an_instruction_was_added_to_is_not_approved_as_if_it_met_it():
    holder, request = waiting()
    sam = make.person(P.OPERATOR, name="sam")
    service.instruction_add(task_id=request.task_id, text="Spare the API.", by=auth.of_person(sam).caller)
    with pytest.raises(NotAllowedNow, match="sam added instruction 2 after this was made"):
        decide(request, reviewer())
    decide(request, reviewer(), "request_changes", comment="as sam says")
    make.drive(make.claim(holder.machine, holder.run), WAITING)
    decide(open_request(holder), reviewer())
    assert status(holder) == RunStatus.PR_CREATING


def test_whoever_rewrote_a_draft_cannot_approve_what_came_of_it_and_a_new_label_writes_nothing():
    rita, otto = reviewer("rita"), reviewer("otto")
    draft = make.task(submit=False)
    service.task_edit(task_id=draft.pk, data={"instruction": "Do mine."}, by=auth.of_person(rita).caller)
    service.task_edit(task_id=draft.pk, data={"labels": ["mine"]}, by=auth.of_person(otto).caller)
    service.task_submit(task_id=draft.pk, by=auth.of_person(draft.created_by).caller)
    run = Task.objects.get(pk=draft.pk).latest_run_id
    holder = make.claim(make.worker(), Run.objects.get(pk=run))
    make.drive(holder, WAITING)
    request = open_request(holder)
    with pytest.raises(ApprovalForbidden, match="wrote the instruction in force"):
        decide(request, rita)
    decide(request, otto)


def test_a_secret_that_a_reviewer_quotes_is_kept_nowhere():
    _, request = waiting()
    secret = "ghp_" + "a1B2" * 9
    outcome = decide(request, reviewer(), "request_changes", comment=f"Remove {secret}.")
    assert secret not in outcome.decision.comment
    task = Task.objects.get(pk=request.task_id)
    kept = [*task.instructions.values_list("text", flat=True), *map(str, task.events.values("payload"))]
    assert not any(secret in text for text in kept)


def test_the_owner_of_the_agent_cannot_approve():
    owner = reviewer("owner")
    machine = make.worker(name="eu-3")
    machine.account.owner = owner
    machine.account.save()
    _, request = waiting(machine=machine)
    with pytest.raises(ApprovalForbidden, match="own the agent's account eu-3"):
        decide(request, owner)


def test_an_override_needs_a_policy_that_allows_it_and_a_reason():
    alice = make.person(P.SUBMITTER, P.REVIEWER)
    _, strict = waiting(by=alice)
    with pytest.raises(ApprovalForbidden):
        decide(strict, alice, override=True, comment="urgent")
    _, lax = waiting(by=alice, where=make.repository(policy={"override": True}))
    with pytest.raises(ApprovalForbidden):
        decide(lax, alice, comment="urgent")
    with pytest.raises(Invalid):
        decide(lax, alice, override=True)
    outcome = decide(lax, alice, override=True, comment="urgent")
    assert outcome.decision.override
    assert "asked for this task" in event_of(outcome).facts["override"]


# --- votes ----------------------------------------------------------------------------------------


def two_needed(**fields: Any) -> tuple[make.Holder, ApprovalRequest]:
    where = make.repository(policy={"approvals": {risk.value: 2 for risk in Risk}})
    return waiting(where=where, **fields)


def test_two_approvals_are_two_persons_not_two_accounts():
    holder, request = two_needed()
    carol = reviewer("carol")
    carol_too = reviewer("carol-two", same_person_as=carol)
    first = decide(request, carol)
    assert (first.votes_missing, event_of(first).type) == (1, Ev.VOTE_RECORDED)
    with pytest.raises(ApprovalForbidden, match="approved this already"):
        decide(request, carol_too)
    assert status(holder) == WAITING
    last = decide(request, reviewer("bob"))
    assert [by["name"] for by in event_of(last).facts["by"]] == ["carol", "bob"]
    assert status(holder) == RunStatus.PR_CREATING


def test_a_vote_does_not_count_for_what_is_shown_later():
    where = make.repository(
        policy={"approvals": {risk.value: 2 for risk in Risk}, "generated_paths": ["clock.py"]}
    )
    holder, request = waiting(where=where)
    carol = reviewer("carol")
    decide(request, carol)
    operator = auth.of_person(make.person(P.OPERATOR))
    approval_waive(approval_id=request.pk, guard="generated_files", reason="by hand", version=1, by=operator)
    request = ApprovalRequest.objects.get(pk=request.pk)
    assert decide(request, reviewer("bob")).votes_missing == 1
    assert decide(request, carol).votes_missing == 0
    assert status(holder) == RunStatus.PR_CREATING


def test_saying_the_same_twice_is_one_decision():
    holder, request = waiting()
    carol = reviewer("carol")
    first, again = decide(request, carol), decide(request, carol)
    assert again.replayed
    assert again.decision == first.decision
    assert Decision.objects.count() == 1
    assert RunEvent.objects.filter(run_id=holder.run_id, event_type="approved").count() == 1


def test_whoever_comes_second_is_told_who_decided_and_how():
    holder, request = waiting()
    decide(request, reviewer("bob"))
    with pytest.raises(ApprovalDecided, match="bob approved this") as refused:
        decide(request, reviewer("carol"), "reject", comment="no")
    assert refused.value.extra["decided_by"] == ["bob"]
    assert status(holder) == RunStatus.PR_CREATING
    assert Decision.objects.count() == 1


def test_asking_for_changes_and_rejecting_need_a_reason():
    _, request = waiting()
    for word in ("request_changes", "reject"):
        with pytest.raises(Invalid) as refused:
            decide(request, reviewer(), word, comment="  ")
        assert refused.value.errors == {"comment": ["say why"]}


# --- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["cancel", "fail"])
def test_the_sweep_closes_what_nobody_decided_as_expired(policy):
    where = make.repository(policy={"on_approval_timeout": policy})
    _, request = waiting(where=where, timeouts={"approval": 0})
    timeouts.sweep()
    closed = ApprovalRequest.objects.get(pk=request.pk)
    assert (closed.status, closed.closed_by) == ("expired", "Policy")
    assert "Nobody decided" in closed.close_reason
    with pytest.raises(ApprovalClosed, match="Expired"):
        decide(request, reviewer())


def test_an_escalated_request_waits_on_and_shows_the_same():
    where = make.repository(policy={"on_approval_timeout": "escalate"})
    holder, request = waiting(where=where, timeouts={"approval": 0})
    timeouts.sweep()
    escalated = ApprovalRequest.objects.get(pk=request.pk)
    assert (escalated.status, escalated.version, escalated.due_at) == ("open", request.version, None)
    decide(request, reviewer())
    assert status(holder) == RunStatus.PR_CREATING
