"""Campaigns through the service, on rows: to their end, held, cancelled, paced, and never begun twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from agentplatform import urls  # noqa: F401  addresses are read before a transaction waits for them
from agentplatform.clock import database_now
from approvals.notices.models import Notice
from runs import auth, leases, outbox, rebuild, service, store, timeouts
from runs.domain.campaigns.words import CampaignStatus, PartState
from runs.domain.errors import IdempotencyKeyReused, Invalid, NotAllowedNow
from runs.domain.payloads import MAX_REASON
from runs.domain.vocabulary import Ev, PersonRole, Role, RunStatus, TaskStatus
from runs.models import (
    Campaign,
    CampaignEvent,
    CampaignPart,
    Hold,
    Person,
    PullRequest,
    Repository,
    Run,
    Task,
)
from runs.service.campaign_steps import look_at
from runs.service.pull_requests import campaigns_full, outgoing_of
from tests.campaigns import (
    advance,
    campaign_data,
    claim_any,
    fail,
    finish,
    make_campaign,
    make_repositories,
    state_of,
)
from tests.factories import claim, drive, person, queued_run, worker
from tests.spending import spend

pytestmark = pytest.mark.django_db


def lena() -> Any:
    return auth.of_person(person(PersonRole.OPERATOR)).caller


def assert_sound(campaign: Campaign) -> None:
    """Rows are a fold of the log, and the log is whole."""
    rebuild.assert_folds(campaign.pk)
    assert list(rebuild.breaks(campaign.pk)) == []


def test_a_campaign_runs_to_its_end_by_sweeps_and_workers_alone() -> None:
    campaign, machine, seen = make_campaign(6, first_wave=2), worker(), []
    for _ in range(10):
        timeouts.sweep()
        seen.append(state_of(campaign).counts()["running"])
        while holder := claim_any(machine):
            finish(holder)
    assert seen[:2] == [2, 4], "one wave after the other"
    assert state_of(campaign).status == CampaignStatus.COMPLETED
    assert set(CampaignPart.objects.values_list("state", flat=True)) == {PartState.DONE}
    assert Task.objects.filter(campaign=campaign, status=TaskStatus.COMPLETED).count() == 6
    assert_sound(campaign)


@pytest.mark.parametrize("lost_at", ["append", "task"])
def test_a_step_that_is_lost_half_way_leaves_nothing_and_is_taken_again(lost_at: str) -> None:
    campaign = make_campaign(3, first_wave=3)
    target = {
        "append": "runs.service.campaign_steps.store.append_campaign",
        "task": "runs.service.tasks.start_run",
    }[lost_at]
    with mock.patch(target, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        advance(campaign)
    assert Task.objects.count() == 0
    assert advance(campaign) == ["part_started"] * 3
    assert advance(campaign) == [], "nothing is begun twice"
    assert Task.objects.filter(campaign=campaign).count() == 3
    assert_sound(campaign)


def test_a_paused_campaign_is_not_claimed_and_asks_what_runs_to_pause() -> None:
    campaign, machine = make_campaign(3, first_wave=3), worker()
    advance(campaign)
    busy = claim(machine)
    service.campaign_pause(campaign_id=campaign.pk, reason="Lunch", by=lena())
    assert leases.lease_claim(principal=machine.principal) is None
    advance(campaign)
    assert busy.state.directive == "pause"
    assert "Lunch" in (busy.state.directive_info or {})["reason"]
    service.campaign_resume(campaign_id=campaign.pk, by=lena())
    advance(campaign)
    assert busy.state.directive == "continue"
    assert leases.lease_claim(principal=machine.principal) is not None
    assert_sound(campaign)


def test_a_pause_of_ones_own_is_not_ended_by_the_campaign() -> None:
    campaign, machine, by = make_campaign(1), worker(), lena()
    advance(campaign)
    busy = claim(machine)
    service.run_direct(run_id=busy.run_id, event=Ev.PAUSE_REQUESTED, reason="Let me look", by=by)
    service.campaign_pause(campaign_id=campaign.pk, reason="", by=by)
    advance(campaign)
    service.campaign_resume(campaign_id=campaign.pk, by=by)
    advance(campaign)
    assert busy.state.directive == "pause"


def test_the_hold_of_a_paused_campaign_ends_with_the_pause_and_in_no_other_way() -> None:
    campaign = make_campaign(1)
    service.campaign_pause(campaign_id=campaign.pk, reason="Lunch", by=lena())
    (hold,) = Hold.objects.in_force()
    with pytest.raises(NotAllowedNow):
        service.hold_lift(hold_id=hold.pk, by="lena")
    service.campaign_cancel(campaign_id=campaign.pk, reason="Wrong", by=lena())
    assert not Hold.objects.in_force().exists()


def test_a_long_reason_reaches_every_run_of_a_campaign() -> None:
    campaign, machine = make_campaign(2, first_wave=2), worker()
    advance(campaign)
    busy, reason = claim(machine), "x" * MAX_REASON
    service.campaign_pause(campaign_id=campaign.pk, reason=reason, by=lena())
    advance(campaign)
    assert busy.state.directive == "pause"
    service.campaign_cancel(campaign_id=campaign.pk, reason=reason, by=lena())
    advance(campaign)
    assert busy.state.directive == "cancel"
    assert state_of(campaign).counts()["cancelled"] == 1
    with pytest.raises(Invalid):
        service.campaign_cancel(campaign_id=campaign.pk, reason=reason + "x", by=lena())


def test_nothing_is_begun_for_somebody_who_has_left() -> None:
    ada = person(PersonRole.SUBMITTER, name="ada")
    campaign = make_campaign(4, by=ada, first_wave=2)
    Person.objects.filter(pk=ada.pk).update(is_active=False)
    advance(campaign)
    assert not Task.objects.filter(campaign=campaign).exists()
    state = state_of(campaign)
    assert (state.status, state.counts()["failed"]) == (CampaignStatus.HALTED, 2)
    assert (
        "ada, who asked for this, has left" in state.parts[Repository.objects.get(name="fleet-01").pk].reason
    )


def test_what_a_follow_up_costs_is_its_repositorys() -> None:
    campaign = make_campaign(1)
    advance(campaign)
    (first,) = Task.objects.filter(campaign=campaign)
    later = queued_run(first.repository)
    Task.objects.filter(pk=later.task_id).update(parent=first, campaign=campaign)
    Run.objects.filter(task=first).update(cost_usd="0.5")
    Run.objects.filter(pk=later.pk).update(cost_usd="0.25")
    (seen,) = look_at(state_of(campaign)).seen.values()
    assert str(seen.cost_usd.normalize()) == "0.75"
    Run.objects.filter(task__campaign=campaign).update(cost_usd=0)


def test_what_became_of_tasks_is_read_after_their_status() -> None:
    """A run's last cost and its task's end come together: the other way round, the cost would be lost."""
    campaign = make_campaign(1)
    advance(campaign)
    with CaptureQueriesContext(connection) as queries:
        look_at(state_of(campaign))
    tables = [q["sql"].split(" FROM ")[1].split()[0].strip('"') for q in queries if " FROM " in q["sql"]]
    assert tables.index("tasks") < tables.index("runs") < tables.index("pull_requests")


def test_pull_requests_that_are_being_opened_are_counted_before_those_that_are_open() -> None:
    """One that is opened meanwhile would else be in neither count, and one too many begun."""
    make_campaign(1, pull_requests_per_hour=1)
    for read in (campaigns_full, lambda: outgoing_of(Repository.objects.values_list("pk", flat=True))):
        with CaptureQueriesContext(connection) as queries:
            read()
        tables = [q["sql"].split(" FROM ")[1].split()[0].strip('"') for q in queries if " FROM " in q["sql"]]
        assert tables.index("runs") < tables.index("pull_requests")


def test_a_cancelled_campaign_cancels_its_parts_and_then_is_over() -> None:
    campaign, machine = make_campaign(6, first_wave=3), worker()
    advance(campaign)
    finish(claim(machine))
    busy = claim(machine)
    service.campaign_cancel(campaign_id=campaign.pk, reason="Wrong change", by=lena())
    advance(campaign)
    assert state_of(campaign).status == CampaignStatus.CANCELLING
    assert busy.state.directive == "cancel"
    busy.post(Ev.RUN_CANCELLED, cleanup="done")
    advance(campaign)
    state = state_of(campaign)
    assert state.status == CampaignStatus.CANCELLED
    assert state.counts()["cancelled"] == 5
    assert state.counts()["done"] == 1
    assert not Task.objects.filter(campaign=campaign, status=TaskStatus.RUNNING).exists()
    assert_sound(campaign)


def test_failures_stop_it_and_a_retry_makes_new_tasks() -> None:
    campaign, machine = make_campaign(4, first_wave=2, failure_limit_percent=50), worker()
    advance(campaign)
    fail(claim(machine))
    assert "campaign_halted" in advance(campaign)
    assert "It cannot be done here." in CampaignPart.objects.get(state=PartState.FAILED).reason
    service.campaign_retry(campaign_id=campaign.pk, by=lena())
    advance(campaign)
    assert Task.objects.filter(campaign=campaign).count() == 3
    for _ in range(4):
        while holder := claim_any(machine):
            finish(holder)
        advance(campaign)
    assert state_of(campaign).status == CampaignStatus.COMPLETED
    assert_sound(campaign)


def test_who_asked_for_it_hears_that_it_stopped_and_that_it_is_complete_and_not_of_each_task() -> None:
    sue, machine = person(PersonRole.SUBMITTER), worker()
    campaign = make_campaign(2, by=sue, first_wave=1)
    advance(campaign)
    fail(claim(machine))
    advance(campaign)
    outbox.relay()
    assert [notice.kind for notice in Notice.objects.filter(person=sue)] == ["blocked"]
    service.campaign_retry(campaign_id=campaign.pk, by=lena())
    for _ in range(2):
        advance(campaign)
        finish(claim(machine))
    advance(campaign)
    outbox.relay()
    told = list(Notice.objects.filter(person=sue, settled_at__isnull=True))
    assert [(notice.kind, notice.sentence) for notice in told] == [
        ("completed", "2 of 2 repositories are done.")
    ]


def test_what_tasks_cost_counts_against_the_cap() -> None:
    campaign, machine = (
        make_campaign(4, first_wave=4, budget={"max_cost_usd": "2"}, max_cost_usd="5"),
        worker(),
    )
    advance(campaign)
    assert Task.objects.count() == 2, "two may cost 4; a third might cost 6 of 5"
    holder = claim(machine)
    drive(holder, RunStatus.EXECUTING)
    spend(holder, "1.5")
    holder.report()
    holder.judge()
    advance(campaign)
    assert Task.objects.count() == 2, "1.50 is spent: with two more it might be 5.50"
    assert str(state_of(campaign).parts[holder.run.repository_id].cost_usd) == "1.5"


def test_pull_requests_come_at_the_campaigns_pace_over_all_repositories() -> None:
    campaign = make_campaign(
        4, first_wave=4, completion_mode="pr_created", auto_pr=True, pull_requests_per_hour=2
    )
    advance(campaign)
    machine, git = worker(), worker(Role.GIT_INTEGRATION)
    for _ in range(4):
        finish(claim(machine))
    first, second = claim(git), claim(git)
    assert leases.lease_claim(principal=git.principal) is None, "two are being opened"
    first.open_pull_request()
    second.open_pull_request()
    assert leases.lease_claim(principal=git.principal) is None, "two were opened within the hour"
    waiting = Run.objects.filter(status=RunStatus.PR_CREATING).first()
    assert waiting is not None
    policy = store.effective_policy(waiting.repository_id).values
    now = database_now()
    until = service.held_back_until(waiting, policy, now=now, within=timedelta(days=1))
    assert until, "the clock of the queue stands still meanwhile"
    PullRequest.objects.update(created_at=now - timedelta(minutes=61))
    claim(git)


def test_another_campaign_or_task_is_not_held_by_a_pace() -> None:
    make_campaign(1, completion_mode="pr_created", auto_pr=True, pull_requests_per_hour=1)
    timeouts.sweep()
    machine, git = worker(), worker(Role.GIT_INTEGRATION)
    finish(claim(machine))
    claim(git)
    run = queued_run(auto_pr=True)
    drive(claim(machine, run), RunStatus.PR_CREATING)
    claim(git, run)


def test_the_same_creation_twice_is_one_campaign_and_another_body_is_refused() -> None:
    submitter = person(PersonRole.SUBMITTER)
    first = make_campaign(2, by=submitter, key="one")
    known, by = Repository.objects.all(), auth.of_person(submitter).caller
    again, made = service.campaign_create(data=campaign_data(), known=known, by=by, key="one")
    assert (again.pk, made) == (first.pk, False)
    with pytest.raises(IdempotencyKeyReused):
        service.campaign_create(data=campaign_data(first_wave=1), known=known, by=by, key="one")


def test_the_same_command_twice_is_one_event_and_its_key_serves_no_other() -> None:
    campaign, by = make_campaign(2), lena()
    for _ in range(2):
        service.campaign_pause(campaign_id=campaign.pk, reason="Lunch", by=by, key="k")
    assert CampaignEvent.objects.filter(event_type="campaign_paused").count() == 1
    with pytest.raises(IdempotencyKeyReused):
        service.campaign_cancel(campaign_id=campaign.pk, reason="Lunch", by=by, key="k")


def test_everything_wrong_with_a_campaign_is_said_at_once() -> None:
    make_repositories(2)
    strict = Repository.objects.order_by("name").first()
    assert strict is not None
    assert strict.policy is not None
    store.add_policy_version(
        strict.policy, {"risk_ceiling": "low", "required_verifiers": ["lint"]}, by="test"
    )
    data = campaign_data(completion_mode="pr_created", first_wave=0)
    data["repositories"] = ["fleet-*", "nowhere"]
    by = auth.of_person(person(PersonRole.SUBMITTER)).caller
    with pytest.raises(Invalid) as refused:
        service.campaign_plan(data=data, known=Repository.objects.all())
    assert set(refused.value.errors) == {"first_wave", "repositories"}
    data |= {"first_wave": 1, "repositories": ["fleet-*"]}
    with pytest.raises(Invalid) as refused:
        service.campaign_create(data=data, known=Repository.objects.all(), by=by)
    assert "lint" in refused.value.errors["repositories"][0]
    assert not Campaign.objects.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE campaign_events SET payload = '{}'",
        "DELETE FROM campaign_events",
        "TRUNCATE campaign_events",
        "UPDATE campaigns SET status = 'CANCELLED'",
        "DELETE FROM campaigns",
        "DELETE FROM campaign_parts",
        (
            "INSERT INTO campaign_events (id, campaign_id, sequence, event_type, from_status, to_status,"
            " actor_type, actor_id, actor_name, request_fingerprint, payload, facts, schema_version,"
            " recorded_at, previous_hash, hash)"
            " SELECT 'evt_x', campaign_id, 3, 'campaign_paused', 'RUNNING', 'PAUSED', '', '', '', '',"
            " payload, facts, 1, recorded_at, '', '' FROM campaign_events"
        ),
    ],
)
def test_the_database_itself_refuses_what_the_service_never_does(statement: str) -> None:
    make_campaign(1)
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
