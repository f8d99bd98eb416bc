"""Holds: what they cover is neither claimed nor pushed, and goes on when they end."""

from __future__ import annotations

from datetime import timedelta

import pgtrigger
import pytest
from django.db import ProgrammingError, transaction

from agentplatform.clock import database_now
from runs import leases, service, store, timeouts
from runs.domain.commands import CONTROL_PLANE, Command
from runs.domain.errors import Invalid, NotAllowedNow, NotFound
from runs.domain.facts import stamp
from runs.domain.payloads import MAX_REASON
from runs.domain.vocabulary import MACHINE_ROLES, Directive, Ev, Role, RunStatus
from runs.models import DaySpend, Hold, OutboxMessage, Run
from tests import factories
from tests.folding import check_all
from tests.spending import spend

LOST = {"scope": "heartbeat", "limit_seconds": 60, "since": None}


def hold(scope: str = "platform", value: str = "", **more):
    more.setdefault("reason", "The forge is down")
    return service.hold_set(scope=scope, value=value, by="carol", **more)


def offered(machine: factories.Machine | None = None) -> str:
    """The run that a worker would get now, or ""."""
    found = leases.lease_claim(principal=(machine or factories.worker()).principal)
    return found.run.pk if found else ""


@pytest.mark.parametrize("scope", ["platform", "repository", "agent_kind", "label"])
def test_what_a_hold_covers_is_not_claimed_and_the_rest_is(db, scope):
    where = factories.repository()
    held = factories.queued_run(where, labels=["migration"], agent={"kind": "command", "command": "true"})
    value = {"platform": "", "repository": where.name, "agent_kind": "command", "label": "migration"}[scope]
    standing = hold(scope, value)
    free = factories.queued_run(labels=["other"])
    assert offered() == ("" if scope == "platform" else free.pk)
    service.hold_lift(hold_id=standing.id, by="carol")
    assert offered() == (free.pk if scope == "platform" and free.queue_key < held.queue_key else held.pk)


def test_a_hold_over_some_runs_of_a_repository_hides_none_of_the_others(db):
    where = factories.repository()
    for _ in range(3):
        factories.queued_run(where, priority=9, labels=["migration"])
    hold("label", "migration")
    free = factories.queued_run(where, priority=0)
    assert offered() == free.pk


def test_a_held_repository_hides_no_other_however_many_of_its_runs_wait(db):
    where = factories.repository()
    for _ in range(4):
        factories.queued_run(where, priority=9)
    hold("repository", where.name)
    free = factories.queued_run(priority=0)
    assert offered() == free.pk


def end(hold_id: str) -> None:
    """The hold's end is past; the database lets nobody move it but a test."""
    with pgtrigger.ignore("runs.Hold:holds_as_set"):
        Hold.objects.filter(pk=hold_id).update(expires_at=database_now() - timedelta(hours=1))


def test_a_hold_ends_by_itself(db):
    run = factories.queued_run()
    standing = hold(expires_at=database_now() + timedelta(hours=1))
    assert offered() == ""
    end(standing.id)
    assert offered() == run.pk
    with pytest.raises(NotAllowedNow, match="ended by itself"):
        service.hold_lift(hold_id=standing.id, by="carol")


def test_an_approved_patch_waits_for_the_end_of_the_hold(db):
    machine = factories.worker(Role.GIT_INTEGRATION)
    holder = factories.run_in(RunStatus.JUDGING, auto_pr=True)
    standing = hold()
    holder.judge()
    assert holder.run.status == RunStatus.PR_CREATING
    assert offered(machine) == ""
    service.hold_lift(hold_id=standing.id, by="carol")
    assert offered(machine) == holder.run_id


def test_a_judge_that_is_the_git_integration_too_loses_the_run_to_the_hold(db):
    machine = factories.worker(*MACHINE_ROLES)
    holder = factories.run_in(RunStatus.JUDGING, auto_pr=True, machine=machine)
    hold()
    holder.judge()
    assert (holder.run.status, holder.state.holder) == (RunStatus.PR_CREATING, None)
    assert (
        holder.run.events.get(event_type=Ev.LEASE_RELEASED).payload["reason"].startswith("Everything is held")
    )
    check_all()


def test_a_hold_that_cancels_asks_each_run_once(db):
    running, waiting = factories.run_in(RunStatus.EXECUTING), factories.queued_run()
    hold(cancel_running=True)
    swept = timeouts.sweep()
    assert [(one.run_id, one.scope) for one in swept] == [(running.run_id, "hold")]
    state = running.state
    assert state.directive == Directive.CANCEL
    assert state.directive_info is not None
    assert state.directive_info["reason"] == "Everything is held by carol: The forge is down"
    assert timeouts.sweep() == []
    assert Run.objects.get(pk=waiting.pk).status == RunStatus.QUEUED


def test_a_hold_with_a_long_reason_cancels_all_the_same(db):
    running = factories.run_in(RunStatus.EXECUTING)
    hold(cancel_running=True, reason="x" * MAX_REASON)
    timeouts.sweep()
    assert running.state.directive == Directive.CANCEL


def test_a_run_cancelled_under_a_hold_is_reconciled_all_the_same(db):
    machine = factories.worker(Role.GIT_INTEGRATION)
    holder = factories.run_in(RunStatus.PR_CREATING)
    claimed = factories.claim(machine, holder.run)
    hold(cancel_running=True)
    timeouts.sweep()
    service.apply_event(claimed.run_id, Command(Ev.LEASE_LOST, LOST, CONTROL_PLANE, key=""))
    assert offered(machine) == claimed.run_id


def test_a_hold_set_twice_is_one_hold_and_told_once(db):
    first, again = hold(), hold()
    assert first.id == again.id
    hold(reason="Something else")
    for _ in range(2):
        service.hold_lift(hold_id=first.id, by="dave")
    told = OutboxMessage.objects.filter(stream=first.id).order_by("id")
    assert [message.name for message in told] == ["HoldSet", "HoldLifted"]
    assert told[0].payload["reason"] == "The forge is down"
    assert Hold.objects.get(pk=first.id).lifted_by == "dave"


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"scope": "universe"}, "scope"),
        ({"scope": "platform", "value": "clock"}, "value"),
        ({"scope": "repository", "value": "nowhere"}, "value"),
        ({"scope": "label"}, "value"),
        ({"scope": "label", "value": "x" * 101}, "value"),
        ({"reason": " "}, "reason"),
        ({"expires_at": database_now}, "expires_at"),
    ],
)
def test_a_hold_that_makes_no_sense_is_refused_by_field(db, wanted, field):
    more = {name: value() if callable(value) else value for name, value in wanted.items()}
    with pytest.raises(Invalid) as refused:
        hold(**more)
    assert list(refused.value.errors) == [field]


def test_a_hold_that_is_not_there_is_not_lifted(db):
    with pytest.raises(NotFound):
        service.hold_lift(hold_id="hold_1", by="carol")


def test_no_hold_is_deleted_or_rewritten(db):
    standing = hold()
    rows = Hold.objects.filter(pk=standing.id)
    for change in (rows.delete, lambda: rows.update(reason="Another")):
        with pytest.raises(ProgrammingError), transaction.atomic():
            change()


def test_the_clock_of_the_queue_stands_while_a_hold_or_a_cap_does(db, monkeypatch):
    where = factories.repository(policy={"spend_cap_usd_per_day": "1"})
    spender = factories.run_in(RunStatus.EXECUTING, where=where)
    held = factories.queued_run(labels=["migration"], timeouts={"queue": 10})
    capped = factories.queued_run(where, timeouts={"queue": 10})
    spend(spender, "2")
    standing = hold("label", "migration")
    later = database_now() + timedelta(seconds=30)
    monkeypatch.setattr(timeouts, "database_now", lambda: later)
    assert timeouts.sweep() == []
    assert Run.objects.get(pk=held.pk).expires_at == later + timedelta(seconds=10)
    service.hold_lift(hold_id=standing.id, by="carol")
    Run.objects.filter(pk=held.pk).update(expires_at=later)
    assert [(one.run_id, one.scope) for one in timeouts.sweep()] == [(held.pk, "queue")]
    assert Run.objects.get(pk=capped.pk).status == RunStatus.QUEUED
    Run.objects.filter(pk=capped.pk).update(expires_at=capped.expires_at)  # the log knows no hold


def test_what_was_held_back_is_not_counted_for_a_whole_time_anew(db):
    run = factories.queued_run(factories.repository(policy={"spend_cap_usd_per_day": "1"}))
    run = Run.objects.select_related("task").get(pk=run.pk)
    policy = store.effective_policy(run.repository_id).values
    now, day = database_now(), timedelta(days=1)

    def until() -> str:
        return service.held_back_until(run, policy, now=now, within=day)

    assert until() == ""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    DaySpend.objects.create(
        day=(now - day).date(), scope="repository", key=run.repository_id, shard=0, amount=2
    )
    assert until() == stamp(midnight)
    ended = hold(expires_at=database_now() + day)
    assert until() == stamp(now)
    end(ended.id)
    at = Hold.objects.get(pk=ended.id).expires_at
    assert at
    assert until() == max(stamp(midnight), stamp(at))
