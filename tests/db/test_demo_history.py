"""The demonstration's past: real runs with the dates of the past, all of them over, none of them touched."""

from __future__ import annotations

import random
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import Max, Min

from agentplatform.clock import clock_turned_to, database_now
from approvals.history import load
from approvals.history.posting import Past
from approvals.history.stories import REQUESTS, STORIES
from runs import auth
from runs.demo.load import demo_load
from runs.domain.vocabulary import TERMINAL, RunStatus, TaskStatus
from runs.models import Lease, Person, PullRequest, Repository, Run, RunEvent, RunOutcome, WorkerAccount
from runs.rebuild import assert_folds

pytestmark = pytest.mark.django_db


WANTED = {
    "completed": {TaskStatus.COMPLETED},
    "lost": {TaskStatus.COMPLETED},  # the run expired, the next one went well
    "failed": {TaskStatus.FAILED, TaskStatus.WAITING_FOR_APPROVAL, TaskStatus.COMPLETED},
    "rejected": {TaskStatus.FAILED},
    "cancelled": {TaskStatus.CANCELLED},
}


def test_a_turned_clock_turns_back():
    then = database_now() - timedelta(days=60)
    with clock_turned_to(then):
        assert database_now() == then
    assert database_now() > then + timedelta(days=59)


def test_a_past_belongs_to_a_demonstration():
    with pytest.raises(CommandError, match="load it first"):
        call_command("demo_history", days=1)


def test_each_day_has_its_runs_and_a_second_past_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load, "PER_DAY", (1,) * 7)
    demo_load()
    live = set(Run.objects.values_list("pk", flat=True))
    said = StringIO()
    call_command("demo_history", days=3, stdout=said)
    assert "3 tasks of the last 3 days" in said.getvalue()
    past = Run.objects.exclude(pk__in=live)
    assert {run.task.created_at.date() for run in past} == {
        (database_now() - timedelta(days=number)).date() for number in (1, 2, 3)
    }
    with pytest.raises(CommandError, match="a past already"):
        call_command("demo_history", days=3, stdout=said)
    assert set(Run.objects.filter(status=RunStatus.QUEUED).values_list("pk", flat=True)) == live


def test_every_story_ends_as_it_says_in_its_own_time():
    demo_load()
    worker = load._worker(load._places())
    place, begin = Repository.objects.get(name="billing"), database_now() - timedelta(days=9)
    ended = {}
    for story in STORIES:
        past = Past(
            repository=place,
            asker=auth.of_person(Person.objects.get(username="sam")),
            reviewer=auth.of_person(Person.objects.get(username="rita")),
            worker=worker,
            base_commit=load._head(place),
            dollars=0.1,
            now=begin,
            dice=random.Random(4),
        )
        ended[story.name] = past.post(REQUESTS[0], story)
    wanted = {"failed": {TaskStatus.FAILED, TaskStatus.WAITING_FOR_APPROVAL, TaskStatus.COMPLETED}}
    for story in STORIES:
        status = ended[story.name].status
        by_end = {
            "completed": "COMPLETED",
            "lost": "COMPLETED",
            "rejected": "FAILED",
            "cancelled": "CANCELLED",
        }
        assert status in wanted.get(story.ends, {by_end.get(story.ends)}), story.name
    runs = Run.objects.filter(repository=place)
    assert {run.status for run in runs} <= {status.value for status in TERMINAL}
    assert not Lease.objects.filter(repository=place, ended_at__isnull=True).exists()
    assert RunOutcome.objects.filter(repository=place).count() == runs.count()
    times = RunEvent.objects.filter(run__repository=place).aggregate(Min("recorded_at"), Max("recorded_at"))
    assert times["recorded_at__min"] >= begin
    assert times["recorded_at__max"] < database_now() - timedelta(days=8)
    for run in runs:
        assert_folds(run.pk)
    opened = PullRequest.objects.filter(repository=place)
    assert opened.exists()
    assert set(opened.values_list("state", "next_look_at")) <= {("MERGED", None), ("CLOSED", None)}
    assert all(row.ended_at and row.ended_at < database_now() for row in opened)
    assert WorkerAccount.objects.filter(name="past-worker").count() == 1
