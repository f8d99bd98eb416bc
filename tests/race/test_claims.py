"""Several claimers of one run, one key, one limit."""

from __future__ import annotations

from functools import partial

import psycopg
import pytest
from django.db import transaction

from runs import auth, leases
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Lease
from tests import factories
from tests.driver import Driver
from tests.race.connections import at_once, behind

pytestmark = pytest.mark.django_db(transaction=True)


def test_twenty_claimers_of_one_run_have_one_winner():
    driver = Driver.started()
    principal = auth.of_worker(driver.worker)
    claims = at_once(*[partial(leases.lease_claim, principal=principal)] * 20)
    assert [type(c) for c in claims if c is not None] == [leases.Claim]
    assert driver.types().count(Ev.LEASE_ACQUIRED) == 1


def test_one_key_asked_at_once_is_one_claim():
    driver = Driver.prepared()
    for _ in range(3):
        driver.submit()
    principal = auth.of_worker(driver.worker)
    claims = at_once(*[partial(leases.lease_claim, principal=principal, key="again")] * 8)
    tokens = {claim.token for claim in claims if isinstance(claim, leases.Claim)}
    assert [claim for claim in claims if not isinstance(claim, leases.Claim)] == []
    assert len(tokens) == 1
    assert Lease.objects.count() == 1


def test_a_second_claim_of_a_key_waits_for_the_first_and_is_the_same(owner_connection: psycopg.Connection):
    driver = Driver.prepared()
    for _ in range(2):
        driver.submit()
    claim = partial(leases.lease_claim, principal=auth.of_worker(driver.worker), key="again")
    first, second = behind(owner_connection, claim, claim)
    assert (second.token, second.replayed) == (first.token, True)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_is_never_exceeded(limit):
    driver = Driver.prepared(policy={"max_concurrent_runs": limit})
    for _ in range(12):
        driver.submit()
    claim = partial(leases.lease_claim, principal=auth.of_worker(driver.worker))
    claims = at_once(*[claim] * 12)
    assert [c for c in claims if isinstance(c, Exception)] == []
    assert sum(c is not None for c in claims) == limit
    assert Lease.objects.filter(ended_at__isnull=True).count() == limit


def test_the_last_place_is_waited_for_and_then_taken(owner_connection: psycopg.Connection):
    driver = Driver.prepared(policy={"max_concurrent_runs": 1})
    for _ in range(2):
        driver.submit()
    claim = partial(leases.lease_claim, principal=auth.of_worker(driver.worker))
    first, second = behind(owner_connection, claim, claim)
    assert isinstance(first, leases.Claim)
    assert second is None, "the repository's only place was taken meanwhile"


def test_a_claim_under_a_limit_keeps_no_new_task_waiting():
    driver = Driver.prepared(policy={"max_concurrent_runs": 1})
    driver.submit()
    with transaction.atomic():
        assert leases.lease_claim(principal=auth.of_worker(driver.worker)) is not None
        (failed,) = at_once(driver.submit)  # the repository is locked; what refers to it is made all the same
        assert failed is None


def test_begun_runs_share_the_limit_with_queued_ones():
    where, machine = factories.repository(policy={"max_concurrent_runs": 2}), factories.worker()
    for _ in range(5):
        factories.queued_run(where)
    for holder in [factories.claim(machine), factories.claim(machine)]:
        holder.start()
        holder.post(Ev.LEASE_RELEASED)
    claims = at_once(*[partial(leases.lease_claim, principal=machine.principal)] * 10)
    assert [claim.run.status for claim in claims if claim is not None] == [RunStatus.PREPARING] * 2
    assert Lease.objects.filter(ended_at__isnull=True).count() == 2
