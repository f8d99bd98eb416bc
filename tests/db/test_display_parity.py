"""What a list filters by is what its rows say: every reason to wait, read as Python and as SQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentplatform.clock import database_now
from approvals.models import ApprovalRequest
from approvals.selectors import stuck_runs
from runs import leases, service, store
from runs.auth import of_person
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.vocabulary import Ev, PersonRole, Role, RunStatus
from runs.domain.waiting import REASONS
from runs.models import Policy, Run, Task, WorkerAccount
from runs.selectors.display import shown_run, shown_task
from runs.selectors.standing import runs_shown_as, runs_waiting_for, tasks_shown_as
from runs.selectors.surroundings import Surroundings, read_surroundings
from tests import factories
from tests.deciding import decide
from tests.spending import spend

pytestmark = pytest.mark.django_db
S = RunStatus


def said(run_id: str, later: timedelta = timedelta()) -> Json:
    """{display, waiting_for} of a run, after checking that every filter agrees for every run and task."""
    principal = of_person(factories.person(PersonRole.VIEWER))
    surroundings = read_surroundings(repository_ids=Run.objects.values_list("repository_id", flat=True))
    surroundings = replace(surroundings, now=surroundings.now + later)
    rows = list(Run.objects.select_related("task", "repository"))
    shown = {row.pk: shown_run(row, principal=principal, surroundings=surroundings) for row in rows}
    check_runs(shown, surroundings)
    latest = {row.pk: row for row in rows}
    check_tasks(
        {
            task.pk: shown_task(
                task, latest.get(task.latest_run_id), principal=principal, surroundings=surroundings
            )
            for task in Task.objects.select_related("repository")
        },
        surroundings,
    )
    return shown[run_id]


def check_runs(shown: dict[str, Json], surroundings: Surroundings) -> None:
    for state in Display:
        found = Run.objects.filter(runs_shown_as(state, surroundings)).values_list("pk", flat=True)
        assert set(found) == {pk for pk, one in shown.items() if one["display"]["state"] == state}, state
    for reason in REASONS:
        found = Run.objects.filter(runs_waiting_for(reason, surroundings)).values_list("pk", flat=True)
        waits = {pk: one["waiting_for"] for pk, one in shown.items()}
        assert set(found) == {pk for pk, wait in waits.items() if wait and wait["reason"] == reason}, reason


def check_tasks(shown: dict[str, Json], surroundings: Surroundings) -> None:
    for state in Display:
        found = Task.objects.filter(tasks_shown_as(state, surroundings)).values_list("pk", flat=True)
        assert set(found) == {pk for pk, one in shown.items() if one["display"]["state"] == state}, state


def platform_cap(amount: str) -> None:
    policy = Policy.objects.get_or_create(name=Policy.PLATFORM)[0]
    store.add_policy_version(policy, {"spend_cap_usd_per_day": amount}, by="test")


@pytest.mark.parametrize("scope", ["platform", "repository", "agent_kind", "label"])
def test_a_held_run_says_so_until_when_and_whose_move_it_is(scope):
    where = factories.repository()
    factories.run_in(S.EXECUTING, where=where)
    run = factories.queued_run(where, labels=["migration"], agent={"kind": "command", "command": "true"})
    bystander = factories.queued_run()
    value = {"platform": "", "repository": where.name, "agent_kind": "command", "label": "migration"}[scope]
    service.hold_set(scope=scope, value=value, reason="The forge is down", by="carol")
    found = said(run.pk)
    assert (found["display"]["state"], found["waiting_for"]["reason"]) == ("waiting", "hold")
    assert found["waiting_for"]["whose_move"] == "operator"
    assert found["waiting_for"]["sentence"].endswith("is held by carol: The forge is down.")
    assert (said(bystander.pk)["waiting_for"]["reason"] == "hold") is (scope == "platform")


@pytest.mark.parametrize("scope", ["platform", "repository", "submitter"])
def test_a_capped_run_says_so_until_when(scope):
    caps = {"repository": "spend_cap_usd_per_day", "submitter": "submitter_spend_cap_usd_per_day"}
    where = factories.repository(policy={caps[scope]: "5"} if scope in caps else None)
    if scope == "platform":
        platform_cap("5")
    somebody = factories.person(PersonRole.SUBMITTER)
    spend(factories.run_in(S.EXECUTING, where=where, by=somebody), "5.50")
    run, other = factories.queued_run(where, somebody), factories.queued_run(where)
    elsewhere = factories.queued_run(by=somebody)
    found = said(run.pk)["waiting_for"]
    assert found["reason"] == "spend_cap"
    assert "$5.00" in found["sentence"]
    assert "$5.50 are spent" in found["sentence"]
    assert found["until"].endswith("T00:00:00.000000Z")
    assert (said(other.pk)["waiting_for"]["reason"] == "spend_cap") is (scope != "submitter")
    assert (said(elsewhere.pk)["waiting_for"]["reason"] == "spend_cap") is (scope == "platform")


def test_an_approved_patch_goes_out_whatever_was_spent():
    where = factories.repository(policy={"spend_cap_usd_per_day": "1"})
    run = factories.run_in(S.PR_CREATING, where=where)
    spend(factories.run_in(S.EXECUTING, where=where), "2")
    assert said(run.run_id)["waiting_for"]["reason"] != "spend_cap"


def test_a_full_repository_says_its_limit():
    where = factories.repository(policy={"max_concurrent_runs": 1})
    factories.run_in(S.EXECUTING, where=where)
    assert said(factories.queued_run(where).pk)["waiting_for"]["reason"] == "cap"


def test_a_run_that_nobody_takes_waits_although_somebody_remarked_on_it():
    run = factories.queued_run()
    service.run_note(run_id=run.pk, text="Still there?", by=of_person(run.task.created_by).caller)
    found = said(run.pk, later=timedelta(minutes=5))
    assert (found["display"]["state"], found["waiting_for"]["reason"]) == ("waiting", "no_worker")
    assert found["waiting_for"]["since"] == run.state["not_before"]


@pytest.mark.parametrize(
    ("needs", "policy", "says"),
    [
        (["gpu"], {}, "No worker offers gpu: start one with --label gpu"),
        ([], {"require_isolation": "vm"}, "No worker offers isolation vm"),
        (["python"], {}, ""),
    ],
)
def test_a_run_that_no_worker_can_take_says_what_lacks(needs, policy, says):
    machine = factories.worker(labels=("python",))
    assert leases.lease_claim(principal=machine.principal, isolation="process") is None
    run = factories.queued_run(factories.repository(policy=policy), needs=needs)
    WorkerAccount.objects.update(last_asked_at=database_now() + timedelta(minutes=5))  # it asks on and on
    found = said(run.pk, later=timedelta(minutes=5))
    if not says:
        assert found["waiting_for"]["reason"] == "queue"
        return
    assert (found["display"]["state"], found["waiting_for"]["reason"]) == ("waiting", "no_worker")
    assert says in found["waiting_for"]["sentence"]
    assert found["waiting_for"]["whose_move"] == "operator"


@pytest.mark.parametrize("others", [0, 1])
def test_a_review_that_nobody_may_decide_is_blocked_in_lists_too(others):
    alone = factories.person(PersonRole.SUBMITTER, PersonRole.REVIEWER)
    for _ in range(others):
        factories.person(PersonRole.REVIEWER)
    holder = factories.run_in(S.WAITING_FOR_APPROVAL, by=alone)
    found = said(holder.run_id)
    state, whose = ("needs_review", "reviewer") if others else ("blocked", "admin")
    assert (found["display"]["state"], found["waiting_for"]["whose_move"]) == (state, whose)


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("role", ["asked", "wrote", "owns"])
def test_whoever_asked_wrote_or_owns_the_agent_may_leave_nobody_to_decide(role, others):
    where, carol = factories.repository(), factories.person(PersonRole.SUBMITTER, PersonRole.REVIEWER)
    for _ in range(others):
        factories.person(PersonRole.REVIEWER)
    machine = factories.worker()
    if role == "owns":
        WorkerAccount.objects.filter(pk=machine.account.pk).update(owner=carol)
    by = carol if role == "asked" else None
    holder = factories.run_in(S.WAITING_FOR_APPROVAL, where=where, by=by, machine=machine)
    if role == "wrote":
        request = ApprovalRequest.objects.get(run_id=holder.run_id)
        decide(request, carol, "request_changes", comment="Smaller.")
        factories.drive(factories.claim(machine, holder.run), S.WAITING_FOR_APPROVAL)
    assert stuck_runs([where.pk]) == (frozenset() if others else {holder.run_id})


@pytest.mark.parametrize("others", [0, 1])
def test_as_many_as_wrote_to_a_task_leave_nobody_to_decide(others):
    where, asker = factories.repository(), factories.person(PersonRole.SUBMITTER, PersonRole.REVIEWER)
    writers = [factories.person(PersonRole.SUBMITTER, PersonRole.REVIEWER) for _ in range(2)]
    for _ in range(others):
        factories.person(PersonRole.REVIEWER)
    holder = factories.run_in(S.WAITING_FOR_APPROVAL, where=where, by=asker)
    for writer in writers:
        service.instruction_add(task_id=holder.run.task_id, text="Shorter.", by=of_person(writer).caller)
    assert stuck_runs([where.pk]) == (frozenset() if others else {holder.run_id})


def fail(holder: factories.Holder, category: str, reason: str) -> None:
    failure = {"category": category, "reason": reason, "summary": "It did not work."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)


@pytest.mark.parametrize(
    ("category", "reason"), [("REPOSITORY_ACCESS", "access"), ("UNKNOWN", "person"), ("POLICY_DENIED", "")]
)
def test_a_task_left_to_a_person_says_so_on_its_last_run_only(category, reason):
    first = factories.run_in(S.PREPARING)
    fail(first, category, "clone_failed")
    found = said(first.run_id)["waiting_for"]
    assert (found["reason"] if found else "") == reason
    if not reason:
        return
    assert found["since"] == Task.objects.get(pk=first.run.task_id).state["blocked"]["since"]
    service.task_retry(task_id=first.run.task_id, by=of_person(first.run.task.created_by).caller)
    second = factories.claim(factories.worker(Role.WORKER, Role.AGENT_RUNTIME))
    second.start()
    fail(second, category, "another")
    assert said(first.run_id)["waiting_for"] is None
    assert said(second.run_id)["waiting_for"]["reason"] == reason


@pytest.mark.parametrize(
    ("event", "reason"),
    [(Ev.PAUSE_REQUESTED, "paused"), (Ev.CANCEL_REQUESTED, "stopping"), (Ev.WIND_DOWN_REQUESTED, "stopping")],
)
def test_directives_say_who_asked(event, reason):
    holder = factories.run_in(S.EXECUTING)
    by: Any = of_person(holder.run.task.created_by).caller
    service.run_direct(run_id=holder.run_id, event=event, reason="lunch", by=by)
    if event is Ev.PAUSE_REQUESTED:
        assert said(holder.run_id)["waiting_for"]["reason"] == "working"
        holder.post(Ev.RUN_INTERRUPTED)
    wait = said(holder.run_id)["waiting_for"]
    assert wait["reason"] == reason
    assert by.name in wait["sentence"]
