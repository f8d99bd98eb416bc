"""Many claimers, few runs: no run twice, none left."""

from __future__ import annotations

from functools import partial

import pytest

from runs import auth, leases
from runs.domain.vocabulary import Ev
from runs.models import Lease, Run
from tests.driver import Driver
from tests.race.connections import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_twenty_claimers_of_one_run_have_one_winner():
    driver = Driver.started()
    principal = auth.of_worker(driver.worker)
    claims = at_once(*[partial(leases.lease_claim, principal=principal)] * 20)
    assert [type(c) for c in claims if c is not None] == [leases.Claim]
    assert driver.types().count(Ev.LEASE_ACQUIRED) == 1


def test_claimers_take_every_run_once():
    driver = Driver.prepared()
    for _ in range(30):
        driver.submit()
    principal = auth.of_worker(driver.worker)

    def take_all() -> list[str]:
        found = []
        while claim := leases.lease_claim(principal=principal):
            found.append(claim.run.pk)
        return found

    taken = [run_id for result in at_once(*[take_all] * 8) for run_id in result]
    assert len(taken) == len(set(taken))
    assert Lease.objects.filter(ended_at__isnull=True).count() == len(taken)
    # A claimer passes over runs that others have in hand; what all of them passed over is still there.
    taken += take_all()
    assert sorted(taken) == sorted(Run.objects.values_list("pk", flat=True))


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
