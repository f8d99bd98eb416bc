"""A transaction that stays open holds back the vacuum: claims must not slow down for it."""

from __future__ import annotations

import statistics
import time

import psycopg
import pytest
from django.conf import settings

from runs import leases
from tests import database, factories
from tests.race.test_many_claimers import copy_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """Nothing: the copies' logs are chained as their original's."""


def test_claims_stay_fast_while_an_old_snapshot_is_held(owner_connection):
    count, sample = 6_000, 300
    copy_run(factories.queued_run(), owner_connection, times=count - 1)
    owner_connection.execute("ANALYZE runs")
    machine = factories.worker()
    with psycopg.connect(database.owner_url(settings.DATABASES["default"]["NAME"])) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM runs")
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            assert leases.lease_claim(principal=machine.principal)
            times.append(1000 * (time.perf_counter() - begun))
    first, last = (statistics.quantiles(part, n=20)[18] for part in (times[:sample], times[-sample:]))
    assert last < 3 * first, f"95 of 100 claims took {first:.1f} ms at first and {last:.1f} ms at last"
