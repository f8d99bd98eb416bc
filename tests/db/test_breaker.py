"""The circuit breaker: equal failures that are not the work's own hold the repository, once."""

from __future__ import annotations

import pytest

from approvals.models import Notice
from runs import auth, outbox, service, timeouts
from runs.domain.holds import BREAKER
from runs.domain.vocabulary import Ev, PersonRole, RunStatus, TaskStatus
from runs.models import Hold, OutboxMessage, Repository, Task
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def three_are_too_many(settings):
    settings.CIRCUIT_BREAKER_FAILURES = 3


def fail(where: Repository, category: str = "INFRASTRUCTURE", reason: str = "disk_full") -> None:
    """A run ends so; what follows it is cancelled, so that the next is a new task's."""
    holder = factories.run_in(RunStatus.PREPARING, where=where)
    failure = {"category": category, "reason": reason, "summary": "It broke."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    task = Task.objects.get(pk=holder.run.task_id)
    if task.status == TaskStatus.RUNNING:
        by = auth.of_person(task.created_by).caller
        service.task_cancel(task_id=task.pk, reason="enough", by=by)


def test_equal_failures_hold_their_repository_once_and_say_so():
    where = factories.repository()
    for _ in range(2):
        fail(where)
        assert timeouts.sweep() == []
    fail(where)
    assert [(one.run_id, one.scope) for one in timeouts.sweep()] == [(where.pk, "breaker")]
    assert timeouts.sweep() == []
    hold = Hold.objects.get()
    assert (hold.repository, hold.set_by) == (where, BREAKER)
    assert hold.reason == "3 runs failed alike within 10 min (disk full)"
    assert hold.expires_at is not None
    assert (hold.expires_at - hold.created_at).total_seconds() == pytest.approx(1800, abs=5)
    told = OutboxMessage.objects.get(name="HoldSet")
    assert (told.payload["automatic"], told.payload["name"]) == (True, where.name)


def test_failures_that_differ_or_are_elsewhere_or_the_works_own_hold_nothing():
    where = factories.repository()
    for reason in ("disk_full", "node_gone", "no_network"):
        fail(where, reason=reason)
    for _ in range(3):
        fail(factories.repository())
        fail(where, category="PLANNING_FAILED", reason="no_plan")
    timeouts.sweep()
    assert not Hold.objects.exists()


def test_after_it_was_lifted_only_what_fails_then_counts():
    where = factories.repository()
    for _ in range(3):
        fail(where)
    timeouts.sweep()
    service.hold_lift(hold_id=Hold.objects.get().pk, by="carol")
    assert timeouts.sweep() == []
    for _ in range(2):
        fail(where)
    assert timeouts.sweep() == []
    fail(where)
    assert len(timeouts.sweep()) == 1
    assert Hold.objects.count() == 2


def test_it_can_be_switched_off(settings):
    settings.CIRCUIT_BREAKER_FAILURES = 0
    where = factories.repository()
    for _ in range(4):
        fail(where)
    timeouts.sweep()
    assert not Hold.objects.exists()


def test_operators_hear_once_of_a_hold_that_set_itself_and_no_more_when_it_is_lifted():
    where = factories.repository()
    operator = factories.person(PersonRole.OPERATOR, repository=where)
    factories.person(PersonRole.OPERATOR, repository=factories.repository())
    factories.person(PersonRole.REVIEWER, repository=where)
    for _ in range(3):
        fail(where)
    timeouts.sweep()
    outbox.relay()
    (notice,) = Notice.objects.filter(person__isnull=False, title=f"{where.name} is on hold")
    assert (notice.person, notice.settled_at) == (operator, None)
    assert "3 runs failed alike" in notice.sentence
    service.hold_lift(hold_id=Hold.objects.get().pk, by=operator.username)
    outbox.relay()
    notice = Notice.objects.get(pk=notice.pk)
    assert notice.settled_because == "It was lifted."
