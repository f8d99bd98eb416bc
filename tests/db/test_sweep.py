"""The sweep: each clock that runs out is acted on once, and nothing that moved meanwhile is touched."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from agentplatform.clock import database_now
from runs import auth, leases, service, store, timeouts
from runs.domain.errors import LeaseLost, RunTerminal
from runs.domain.outcome import outcome
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev, PersonRole, Role, RunStatus
from runs.models import Lease, Run, RunEvent, Step, Task
from runs.timeouts import Swept
from tests import factories

pytestmark = pytest.mark.django_db

S = RunStatus


def events(run_id: str) -> list[str]:
    return list(
        RunEvent.objects.filter(run_id=run_id).order_by("sequence").values_list("event_type", flat=True)
    )


def lapse(run_id: str) -> None:
    """As if no heartbeat had come for the lease's time."""
    Lease.objects.filter(run_id=run_id, ended_at=None).update(
        expires_at=F("expires_at") - timedelta(seconds=90),
        heartbeat_at=F("heartbeat_at") - timedelta(seconds=90),
    )


def run_of(holder: factories.Holder) -> Run:
    return Run.objects.get(pk=holder.run_id)


def direct(holder: factories.Holder, event: Ev, reason: str) -> None:
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=holder.run_id, event=event, reason=reason, by=by)


#: Contracts may only be stricter: these clocks have run out as soon as they start.
def short(**clocks: int) -> dict[str, Any]:
    return {"timeouts": clocks}


def test_nothing_is_overdue_then_nothing_is_done():
    holder = factories.run_in(S.EXECUTING)
    before = events(holder.run_id)
    assert timeouts.sweep() == []
    assert events(holder.run_id) == before


def test_a_lease_lost_before_work_began_expires_the_run_and_the_next_one_is_made():
    holder = factories.run_in(S.LEASED)
    lapse(holder.run_id)
    assert timeouts.sweep() == [Swept(holder.run_id, "lease", "lease_lost")]
    assert events(holder.run_id)[-3:] == ["lease_lost", "timeout", "retry_scheduled"]
    assert run_of(holder).status == S.EXPIRED
    task = Task.objects.get(pk=holder.run.task_id)
    assert (task.status, task.runs_made) == ("RUNNING", 2)


def test_a_lost_heartbeat_makes_the_run_claimable_and_the_late_worker_is_refused():
    holder = factories.run_in(S.PLANNING)
    lapse(holder.run_id)
    assert timeouts.sweep() == [Swept(holder.run_id, "heartbeat", "lease_lost")]
    assert (run_of(holder).status, run_of(holder).claim_role) == (S.PLANNING, Role.AGENT_RUNTIME)
    with pytest.raises(LeaseLost):
        holder.plan()
    assert timeouts.sweep() == []


def test_a_heartbeat_that_came_first_wins():
    holder = factories.run_in(S.PLANNING)
    lapse(holder.run_id)
    Lease.objects.filter(run_id=holder.run_id).update(expires_at=F("expires_at") + timedelta(seconds=120))
    assert timeouts._lose_lease(holder.run_id) is None


def test_an_expired_lease_is_never_revived_by_a_heartbeat():
    holder = factories.run_in(S.PLANNING)
    lapse(holder.run_id)
    with pytest.raises(LeaseLost):
        leases.lease_heartbeat(principal=holder.machine.principal, run_id=holder.run_id, token=holder.token)


def test_a_run_that_nobody_claims_expires_and_no_other_follows():
    run = factories.queued_run(**short(queue=0))
    assert timeouts.sweep() == [Swept(run.pk, "queue", "timeout")]
    assert events(run.pk)[-2:] == ["timeout", "retry_declined"]
    assert Run.objects.get(pk=run.pk).state["expiration"]["scope"] == "queue"


def test_a_step_without_a_result_is_timed_out_and_the_run_goes_on():
    holder = factories.run_in(S.EXECUTING, **short(step=0))
    for name in ("a", "b"):
        holder.post(Ev.TOOL_REQUESTED, operation_id=name, tool="shell", arguments={"n": name}, label="x")
    assert [s.scope for s in timeouts.sweep()] == ["step", "step"]
    assert set(Step.objects.filter(run_id=holder.run_id).values_list("state", flat=True)) == {"TIMED_OUT"}
    assert run_of(holder).status == S.EXECUTING
    holder.hand_in()


def test_an_attempt_that_takes_too_long_is_followed_by_another_then_by_the_end():
    holder = factories.run_in(S.EXECUTING, **short(attempt=0))
    assert timeouts.sweep() == [Swept(holder.run_id, "attempt", "attempt_finished")]
    with pytest.raises(LeaseLost):
        leases.lease_heartbeat(principal=holder.machine.principal, run_id=holder.run_id, token=holder.token)
    assert states_of(holder) == ["FAILED", "STARTED"]
    factories.claim()
    assert timeouts.sweep() == [Swept(holder.run_id, "attempt", "attempt_finished")]
    assert run_of(holder).status == S.FAILED
    assert run_of(holder).state["failure"]["reason"] == "attempt_timeout"
    assert states_of(holder) == ["FAILED", "FAILED"]


@pytest.mark.parametrize("status", [S.PATCH_READY, S.VERIFYING, S.JUDGING])
def test_an_attempt_that_takes_too_long_after_its_patch_leaves_another_open(status):
    holder = factories.run_in(status, **short(attempt=0))
    assert timeouts.sweep() == [Swept(holder.run_id, "attempt", "attempt_finished")]
    assert (run_of(holder).status, states_of(holder)) == (status, ["FAILED", "STARTED"])
    factories.drive(factories.claim(), S.WAITING_FOR_APPROVAL)
    assert states_of(holder) == ["FAILED", "SUCCEEDED"]


def test_a_call_that_a_failed_attempt_left_open_is_not_the_next_ones():
    holder = factories.run_in(S.EXECUTING, **short(attempt=0))
    for effect in ("workspace", "outside"):
        arguments = {"n": effect}
        holder.post(
            Ev.TOOL_REQUESTED,
            operation_id=effect,
            tool="shell",
            arguments=arguments,
            label="x",
            effect=effect,
        )
    timeouts.sweep()
    assert list(holder.state.pending) == ["outside"]
    assert Step.objects.get(run_id=holder.run_id, operation_id="workspace").state == "SKIPPED"


@pytest.mark.parametrize("status", [S.LEASED, S.PREPARING, S.CONTEXT_BUILDING, S.PLANNING])
def test_a_worker_that_only_sends_heartbeats_loses_its_lease(status):
    holder = factories.run_in(status, **short(attempt=0))
    principal = holder.machine.principal
    leases.lease_heartbeat(principal=principal, run_id=holder.run_id, token=holder.token)
    assert timeouts.sweep() == [Swept(holder.run_id, "attempt", "lease_released")]
    with pytest.raises(LeaseLost):
        leases.lease_heartbeat(principal=principal, run_id=holder.run_id, token=holder.token)
    for _ in range(2):
        factories.claim()
        timeouts.sweep()
    assert run_of(holder).status == S.EXPIRED


def test_a_heartbeat_moves_no_other_clock():
    holder = factories.run_in(S.PLANNING)
    before = run_of(holder).expires_at
    leases.lease_heartbeat(principal=holder.machine.principal, run_id=holder.run_id, token=holder.token)
    assert run_of(holder).expires_at == before
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="look around")
    assert (run_of(holder).expires_at or database_now()) > (before or database_now())


def states_of(holder: factories.Holder) -> list[str]:
    return list(run_of(holder).attempts.values_list("state", flat=True))


def test_a_run_that_worked_too_long_has_used_up_its_budget(monkeypatch):
    holder = factories.run_in(S.EXECUTING, budget={"max_duration_seconds": 600})
    later = database_now() + timedelta(seconds=601)
    Lease.objects.filter(run_id=holder.run_id).update(expires_at=later + timedelta(seconds=60))
    monkeypatch.setattr(timeouts, "database_now", lambda: later)
    take_run = store.take_run
    monkeypatch.setattr(store, "take_run", lambda *args, **more: replace(take_run(*args, **more), now=later))
    assert timeouts.sweep() == [Swept(holder.run_id, "run", "timeout")]
    assert (run_of(holder).status, run_of(holder).failure_category) == (S.FAILED, "BUDGET_EXCEEDED")


def test_a_worker_deaf_to_a_cancel_is_overruled_and_cleanup_is_unknown():
    holder = factories.run_in(S.EXECUTING, **short(cancel=0))
    direct(holder, Ev.CANCEL_REQUESTED, "wrong repository")
    assert timeouts.sweep() == [Swept(holder.run_id, "cancel", "run_cancelled")]
    run = run_of(holder)
    assert (run.status, run.status_reason, run.state["cleanup"]["cleanup"]) == (
        S.CANCELLED, "wrong repository", "unknown",
    )  # fmt: skip
    assert not Lease.objects.filter(run=run, ended_at=None).exists()
    with pytest.raises(RunTerminal):
        holder.post(Ev.LEASE_RELEASED)


def test_nothing_is_forced_while_a_pull_request_may_exist():
    holder = factories.run_in(S.PR_CREATING, **short(cancel=0))
    integration = factories.claim(factories.worker(Role.GIT_INTEGRATION))
    direct(holder, Ev.CANCEL_REQUESTED, "stop")
    assert timeouts.sweep() == []
    lapse(holder.run_id)
    assert [s.event for s in timeouts.sweep()] == ["lease_lost"]
    assert (run_of(holder).status, run_of(holder).directive) == (S.PR_CREATING, "cancel")
    assert factories.claim(integration.machine).run_id == holder.run_id


def test_once_a_pull_request_is_begun_nothing_but_the_provider_ends_the_run():
    clocks = short(queue=0, attempt=0)
    holder = factories.run_in(S.PR_CREATING, **clocks, budget={"max_takeovers": 0})
    integration = factories.worker(Role.GIT_INTEGRATION)
    for _ in range(3):
        factories.claim(integration)
        assert timeouts.sweep() == [Swept(holder.run_id, "attempt", "lease_released")], "a hung push"
        assert run_of(holder).expires_at is None
    factories.claim(integration)
    lapse(holder.run_id)
    assert "lease_lost" in [swept.event for swept in timeouts.sweep()]
    assert run_of(holder).status == S.PR_CREATING
    factories.claim(integration).open_pull_request()
    assert run_of(holder).status == S.SUCCEEDED


def test_a_worker_that_does_not_pause_loses_its_lease_and_the_run_waits():
    holder = factories.run_in(S.EXECUTING, **short(pause=0))
    direct(holder, Ev.PAUSE_REQUESTED, "lunch")
    assert timeouts.sweep() == [Swept(holder.run_id, "pause", "lease_released")]
    run = run_of(holder)
    assert (run.status, run.claim_role, outcome(RunState.from_json(run.state))) == (
        S.EXECUTING, "", "interrupted",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "event", "status", "category"),
    [
        ("cancel", "cancel_requested", S.CANCELLED, ""),
        ("fail", "non_retryable_failure", S.FAILED, "POLICY_DENIED"),
    ],
)
def test_a_request_that_nobody_decides_ends_as_the_policy_says(policy, event, status, category):
    where = factories.repository(policy={"on_approval_timeout": policy})
    holder = factories.run_in(S.WAITING_FOR_APPROVAL, where=where, **short(approval=0))
    assert timeouts.sweep() == [Swept(holder.run_id, "approval", event)]
    run = run_of(holder)
    assert (run.status, run.failure_category) == (status, category)
    assert "Nobody decided" in run.status_reason
    assert Task.objects.get(pk=run.task_id).status == status


def test_a_request_may_escalate_instead_and_waits_on():
    where = factories.repository(policy={"on_approval_timeout": "escalate"})
    holder = factories.run_in(S.WAITING_FOR_APPROVAL, where=where, **short(approval=0))
    shown = holder.state.gate or {}
    first, *others = timeouts.sweep()
    assert first == Swept(holder.run_id, "approval", "policy_evaluated")
    assert [swept.event for swept in others] == ["handed up"], "those who run the repository hear of it"
    assert (run_of(holder).status, outcome(holder.state)) == (S.WAITING_FOR_APPROVAL, "escalated")
    assert (holder.state.gate or {})["version"] == shown["version"], "what the reviewer reads has not changed"
    assert timeouts.sweep() == []


def test_a_run_that_cannot_be_swept_is_reported_and_stops_no_other(monkeypatch):
    runs = [factories.queued_run(**short(queue=0)) for _ in range(3)]
    poison = min(run.pk for run in runs)
    apply = service.apply_event

    def fail_for_one(run_id, command):
        if run_id == poison:
            raise RuntimeError("boom")
        return apply(run_id, command)

    monkeypatch.setattr(service, "apply_event", fail_for_one)
    done = {swept.run_id: swept for swept in timeouts.sweep()}
    assert done[poison].error == "RuntimeError: boom"
    assert Run.objects.get(pk=poison).status == S.QUEUED
    assert {run.status for run in Run.objects.exclude(pk=poison)} == {S.EXPIRED}


def test_a_laxer_policy_moves_the_clock_instead_of_ending_the_run():
    run = factories.queued_run()
    Run.objects.filter(pk=run.pk).update(expires_at=F("created_at"))
    assert timeouts.sweep() == []
    assert Run.objects.get(pk=run.pk).expires_at == run.expires_at
