"""Which run a claim gives: begun work, then by turn, priority and age, so that nothing starves
(lifecycle contract, section 11)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from agentplatform.clock import database_now
from runs import auth, leases, service, store
from runs.domain.commands import CONTROL_PLANE, Command
from runs.domain.errors import GuardFailed
from runs.domain.vocabulary import MACHINE_ROLES, Ev, PersonRole, Role, RunStatus
from runs.models import Repository, Run, WorkerAccount
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def queued(monkeypatch):
    """Queues a run as if so many minutes ago."""

    def make(where: Repository, *, minutes: float = 0, **fields) -> str:
        then = database_now() - timedelta(minutes=minutes)
        with monkeypatch.context() as patch:
            patch.setattr("runs.service.tasks.database_now", lambda: then)
            return factories.queued_run(where, **fields).pk

    return make


@pytest.fixture
def machine():
    return factories.worker()


def claimed(machine: factories.Machine, **asked) -> str | None:
    found = leases.lease_claim(principal=machine.principal, **asked)
    return found.run.pk if found else None


def test_of_one_repository_priority_goes_first_and_ten_minutes_are_worth_a_level(queued, machine):
    where = factories.repository()
    low, old = queued(where, priority=1), queued(where, priority=1, minutes=41)
    normal, urgent = queued(where), queued(where, priority=9)
    assert [claimed(machine) for _ in range(4)] == [urgent, old, normal, low]


def test_repositories_take_turns_however_long_and_old_a_backlog_is(queued, machine):
    noisy, quiet = factories.repository(), factories.repository()
    backlog = [queued(noisy, minutes=500 - n) for n in range(4)]
    first, second = queued(quiet), queued(quiet)
    given = [claimed(machine) for _ in range(6)]
    assert given == [backlog[0], first, backlog[1], second, backlog[2], backlog[3]]


def test_a_higher_priority_needs_no_turn(queued, machine):
    one, other = factories.repository(), factories.repository()
    queued(one)
    assert claimed(machine)
    queued(other)
    urgent = queued(one, priority=9)
    assert claimed(machine) == urgent


def test_the_lowest_priority_is_served_once_it_waited_long_enough(queued, machine):
    busy, quiet = factories.repository(), factories.repository()
    queued(busy)
    assert claimed(machine)
    lowest = queued(quiet, priority=1, minutes=39)
    queued(busy)
    assert claimed(machine) != lowest
    waited = queued(quiet, priority=1, minutes=51)
    queued(busy)
    assert claimed(machine) == waited


def test_begun_work_goes_before_all_that_is_queued(queued, machine):
    holder = factories.run_in(RunStatus.PLANNING, where=factories.repository())
    queued(factories.repository(), priority=9, minutes=600)
    holder.post(Ev.LEASE_RELEASED)
    assert claimed(machine) == holder.run_id


def test_a_repository_without_room_hides_no_other(queued, machine):
    full = factories.repository(policy={"max_concurrent_runs": 1})
    for _ in range(3):
        queued(full, priority=9, minutes=100)
    other = queued(factories.repository(), priority=0)
    assert [claimed(machine) for _ in range(3)][1:] == [other, None]


@pytest.mark.parametrize("ending", ["succeeded", "cancelled", "deaf", "lost", "failed"])
def test_every_ending_gives_its_place_back(queued, ending):
    where = factories.repository(
        policy={"max_concurrent_runs": 1, "budget": {"max_takeovers": 0, "max_runs": 1}}
    )
    status = RunStatus.JUDGING if ending == "succeeded" else RunStatus.EXECUTING
    holder = factories.run_in(status, where=where, completion_mode="patch_ready_for_review")
    waiting = queued(where)
    assert claimed(holder.machine) is None
    ENDINGS[ending](holder)
    assert claimed(holder.machine) == waiting


def _failed(holder: factories.Holder) -> None:
    failure = {"category": "POLICY_DENIED", "reason": "denied", "summary": "no"}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)


def _cancel(holder: factories.Holder) -> None:
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="stop", by=by)


def _lose(holder: factories.Holder) -> None:
    service.apply_event(holder.run_id, Command(Ev.LEASE_LOST, {}, CONTROL_PLANE, key=""))


def _cancelled(holder: factories.Holder) -> None:
    _cancel(holder)
    holder.post(Ev.RUN_CANCELLED, cleanup="done")


def _deaf(holder: factories.Holder) -> None:
    _cancel(holder)
    _lose(holder)


ENDINGS: dict[str, Callable[[factories.Holder], object]] = {
    "succeeded": factories.Holder.judge,
    "cancelled": _cancelled,
    "deaf": _deaf,
    "lost": _lose,
    "failed": _failed,
}


def test_a_run_in_backoff_is_not_given_before_its_time(queued, machine):
    driver = factories.run_in(RunStatus.PREPARING)
    failure = {"category": "INFRASTRUCTURE", "reason": "node_gone", "summary": "gone"}
    driver.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    following = Run.objects.get(status=RunStatus.QUEUED)
    assert following.not_before
    assert following.not_before > database_now()
    assert claimed(machine) is None


def test_a_worker_gets_only_what_its_labels_serve(queued):
    gpu = queued(factories.repository(), needs=["gpu", "git"])
    plain, able = factories.worker(labels=("git",)), factories.worker(labels=("git",))
    assert claimed(plain) is None
    assert claimed(able, labels=["gpu"]) == gpu
    assert WorkerAccount.objects.get(pk=able.account.pk).offers == ["git", "gpu"]


def test_a_lesser_isolation_gets_nothing_where_policy_asks_for_more(queued):
    where = factories.repository(policy={"require_isolation": "container"})
    run = queued(where)
    machine = factories.worker()
    assert claimed(machine) is None, "who says nothing offers none"
    assert claimed(machine, isolation="process") is None
    assert claimed(machine, isolation="vm", version="2.0") == run
    account = WorkerAccount.objects.get(pk=machine.account.pk)
    assert (account.isolation, account.version) == ("vm", "2.0")


def test_what_was_said_last_holds_for_a_claim_that_says_nothing(queued):
    where = factories.repository(policy={"require_isolation": "process"})
    run = queued(where)
    machine = factories.worker()
    claimed(machine, isolation="process", roles=["judge"])
    again = factories.Machine(WorkerAccount.objects.get(pk=machine.account.pk), machine.token)
    assert claimed(again) == run


def test_a_worker_that_begins_with_less_than_it_claimed_with_is_refused(queued):
    where = factories.repository(policy={"require_isolation": "container"})
    run = factories.queued_run(where)
    holder = factories.claim(factories.worker(), run, isolation="container")
    with pytest.raises(GuardFailed) as refused:
        holder.post(Ev.WORKER_STARTED, worker_version="1", isolation="process")
    assert refused.value.extra["guards"][0]["name"] == "isolation"
    holder.post(Ev.WORKER_STARTED, worker_version="1", isolation="container")
    account = WorkerAccount.objects.get(pk=holder.machine.account.pk)
    assert (account.isolation, account.version) == ("container", "1")


def test_a_claim_for_several_roles_looks_at_each(queued):
    holder = factories.run_in(RunStatus.JUDGING, where=factories.repository())
    holder.post(Ev.LEASE_RELEASED)
    everything = factories.worker(*MACHINE_ROLES)
    assert claimed(everything, roles=[Role.VERIFIER, Role.JUDGE]) == holder.run_id


def test_finding_the_next_run_is_one_query_however_many_repositories(
    queued, machine, django_assert_num_queries
):
    def ask() -> None:
        store.claimable_lines(roles=["worker"], labels=[], repositories=None)

    with django_assert_num_queries(1):
        ask()
    for _ in range(3):
        queued(factories.repository())
    with django_assert_num_queries(1):
        ask()
