"""Figures for Prometheus: from the database for the fleet, from the web processes for what they answered."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F
from django.test import Client
from prometheus_client import REGISTRY

from agentplatform.clock import database_now
from runs import timeouts
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Delivery, Lease, Run, WorkerAccount
from runs.selectors.gauges import FleetCollector
from tests import factories
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db


def figure(name: str, **labels: str) -> float | None:
    """What the database says now."""
    for metric in FleetCollector().collect():
        for sample in metric.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def counted(name: str, **labels: str) -> float:
    """What this process counted so far."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_runs_are_told_by_status_with_the_age_of_the_oldest():
    assert figure("agentplatform_runs", status="QUEUED") == 0
    run = factories.queued_run()
    Run.objects.filter(pk=run.pk).update(status_since=F("status_since") - timedelta(hours=1))
    assert figure("agentplatform_runs", status="QUEUED") == 1
    age = figure("agentplatform_runs_oldest_seconds", status="QUEUED")
    assert age is not None
    assert 3600 <= age < 3660
    Run.objects.filter(pk=run.pk).update(status_since=F("status_since") + timedelta(hours=1))


def test_the_queue_tells_who_is_waited_for_and_how_long():
    run = factories.queued_run()
    since = run.idle_since
    Run.objects.filter(pk=run.pk).update(
        idle_since=database_now() - timedelta(minutes=5), not_before=database_now() - timedelta(minutes=4)
    )
    waits = figure("agentplatform_queue_wait_seconds", role="worker")
    assert waits is not None
    assert 240 <= waits < 300
    assert figure("agentplatform_claimable_runs", role="worker") == 1
    assert figure("agentplatform_queue_wait_seconds", role="judge") == 0
    Run.objects.filter(pk=run.pk).update(not_before=database_now() + timedelta(minutes=4))
    assert figure("agentplatform_claimable_runs", role="worker") == 0
    Run.objects.filter(pk=run.pk).update(idle_since=since, not_before=run.not_before)


def test_leases_in_force_lost_and_overdue_are_told():
    holder = factories.run_in(RunStatus.PREPARING)
    assert figure("agentplatform_leases") == 1
    assert figure("agentplatform_sweep_lag_seconds") == 0
    Lease.objects.filter(run_id=holder.run_id).update(expires_at=database_now() - timedelta(seconds=90))
    lag = figure("agentplatform_sweep_lag_seconds")
    assert lag is not None
    assert lag >= 90
    timeouts.sweep()
    assert figure("agentplatform_leases") == 0
    assert figure("agentplatform_leases_lost_recently") == 1


def test_what_waits_in_the_outbox_is_told_by_consumer():
    factories.queued_run()
    pending = Delivery.objects.filter(consumer="webhooks")
    pending.update(next_try_at=database_now() - timedelta(seconds=30))
    assert figure("agentplatform_outbox_pending", consumer="webhooks") == pending.count() > 0
    lag = figure("agentplatform_outbox_lag_seconds", consumer="webhooks")
    assert lag is not None
    assert lag >= 30


def test_workers_that_were_seen_are_counted():
    machine = factories.worker()
    assert figure("agentplatform_workers") == 0
    Caller(machine.token).post("leases", {})
    assert figure("agentplatform_workers") == 1
    WorkerAccount.objects.update(last_asked_at=database_now() - timedelta(minutes=2), last_seen_at=None)
    assert figure("agentplatform_workers") == 0


def test_runs_that_ended_are_told_with_their_failure():
    holder = factories.run_in(RunStatus.PREPARING)
    failure = {"category": "INFRASTRUCTURE", "reason": "disk", "summary": "full", "retryable": False}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    assert figure("agentplatform_runs_ended_recently", status="FAILED", category="INFRASTRUCTURE") == 1


def test_the_fleet_costs_a_fixed_number_of_statements(django_assert_num_queries):
    for _ in range(3):
        factories.queued_run()
    with django_assert_num_queries(10):
        list(FleetCollector().collect())


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_a_figure_too(monkeypatch):
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(settings.DATABASES["default"], "NAME", "not_there")
        assert figure("agentplatform_database_up") == 0
    connection.close()
    assert figure("agentplatform_database_up") == 1


def test_answers_refusals_and_claims_are_counted():
    route, machine = "api/v1/leases", factories.worker()
    asked = {"method": "POST", "call": route, "status": "204"}
    before = (
        counted("agentplatform_answers_total", **asked),
        counted("agentplatform_claims_total", result="nothing"),
    )
    Caller(machine.token).post("leases", {})
    assert counted("agentplatform_answers_total", **asked) == before[0] + 1
    assert counted("agentplatform_claims_total", result="nothing") == before[1] + 1
    assert counted("agentplatform_request_seconds_count", method="POST", call=route) >= 1
    refused = counted("agentplatform_refusals_total", code="not_found")
    Caller(machine.token).get(f"runs/run_{'0' * 26}")
    assert counted("agentplatform_refusals_total", code="not_found") == refused + 1


def test_a_claim_tells_how_long_the_run_had_waited():
    run = factories.queued_run()
    before = counted("agentplatform_claim_wait_seconds_count")
    claimed = Caller(factories.worker().token).post("leases", {})
    assert claimed.json()["run"]["id"] == run.pk
    assert counted("agentplatform_claim_wait_seconds_count") == before + 1


def test_addresses_that_nobody_has_make_no_series_of_their_own():
    Client().get("/nobody/has/this/1")
    Client().get("/nobody/has/this/2")
    assert counted("agentplatform_answers_total", method="GET", call="none", status="404") >= 2
    assert not counted("agentplatform_answers_total", method="GET", call="/nobody/has/this/1", status="404")


COUNT = """
import sys
from agentplatform import measures
for _ in range(int(sys.argv[1])):
    measures.REFUSALS.labels("invalid").inc()
measures.WEB_RESIDENT.set(1000)
print(measures.latest().decode())
"""


def test_several_web_processes_answer_for_each_other_and_what_the_dead_counted_stays(tmp_path):
    said = ""
    for count in (2, 3):
        said = subprocess.run(
            [sys.executable, "-c", COUNT, str(count)],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            cwd=settings.BASE_DIR,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    assert 'agentplatform_refusals_total{code="invalid"} 5.0' in said
    resident = [line for line in said.splitlines() if line.startswith("agentplatform_web_resident_bytes{")]
    assert len(resident) == 1, "the first of them is dead"
