"""Several claimers of one run, one key, one limit."""

from __future__ import annotations

from functools import partial

import pytest

from runs import auth, leases
from runs.domain.vocabulary import Ev
from runs.models import Lease
from tests.driver import Driver
from tests.race.connections import at_once

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


def test_a_limit_is_never_exceeded():
    driver = Driver.prepared(policy={"max_concurrent_runs": 2})
    for _ in range(6):
        driver.submit()
    principal = auth.of_worker(driver.worker)
    claims = at_once(*[partial(leases.lease_claim, principal=principal)] * 6)
    assert [c for c in claims if isinstance(c, Exception)] == []
    assert Lease.objects.filter(ended_at__isnull=True).count() <= 2
