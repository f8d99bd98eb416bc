"""Each alert is quiet, fires when its condition is provoked in the product, and leads to its chapter."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import resolve

from agentplatform import ids, measures
from agentplatform.clock import database_now
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Alarm, Delivery, Lease, LogCheck, Run
from tests import alerting, factories
from tests.alerting import Scrape
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db(transaction=True)

RULES = {rule["alert"]: rule for rule in alerting.rules()}
RUNBOOK = (alerting.ROOT / "docs" / "runbook.md").read_text()


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """Rows are set to times long ago here."""


def scrape(*, at: float) -> Scrape:
    return Scrape.of(measures.latest().decode(), at=at)


# --- what provokes them -----------------------------------------------------------------------------


def wait_long_in_queue() -> None:
    factories.queued_run()
    Run.objects.update(idle_since=ago(hours=1), not_before=ago(hours=1))


def leave_work_without_workers() -> None:
    factories.queued_run()


def let_leases_run_out() -> None:
    factories.run_in(RunStatus.PREPARING)
    Lease.objects.update(expires_at=ago(minutes=5))


def lose_leases() -> None:
    holder = factories.run_in(RunStatus.PREPARING)
    lost = Lease.objects.get(run_id=holder.run_id)
    Lease.objects.filter(pk=lost.pk).update(ended_at=database_now(), end_reason="lease_lost")
    for fence in range(2, 12):
        lost.pk, lost.fence = f"lease_{fence}", fence
        lost.ended_at, lost.end_reason = database_now(), "lease_lost"
        lost.save(force_insert=True)


def deliver_nothing() -> None:
    factories.queued_run()
    Delivery.objects.update(next_try_at=ago(minutes=10))


def give_deliveries_up() -> None:
    factories.queued_run()
    Delivery.objects.update(state=Delivery.PARKED)


def find_drift() -> None:
    Alarm.objects.create(kind=Alarm.ROWS, stream="run_x", place="status", detail="", found_at=database_now())


def check_nothing() -> None:
    LogCheck.objects.create(started_at=ago(days=2), finished_at=ago(days=2))


def fail_for_infrastructure() -> None:
    where = factories.repository(policy={"budget": {"max_runs": 1}})
    for _ in range(11):
        failure = {"category": "INFRASTRUCTURE", "reason": "disk", "summary": "full", "retryable": False}
        factories.run_in(RunStatus.PREPARING, where=where).post(Ev.NON_RETRYABLE_FAILURE, failure=failure)


def leave_a_review() -> None:
    factories.run_in(RunStatus.WAITING_FOR_APPROVAL)
    Run.objects.update(status_since=ago(days=3))


def be_refused() -> None:
    caller = Caller(factories.worker().token)
    for _ in range(20):
        caller.post("leases", b"{")


def be_broken() -> None:
    caller = Caller(factories.worker().token, client=Client(raise_request_exception=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runs.leases.lease_claim", lambda **_: 1 / 0)
        caller.post("leases", {})


def be_unavailable() -> None:
    caller = Caller(factories.worker().token)
    connection.close()
    with pytest.MonkeyPatch.context() as away:
        away.setitem(settings.DATABASES["default"], "NAME", "not_there")
        for _ in range(3):
            caller.post("leases", {})
    connection.close()


def answer_slowly() -> None:
    route = resolve(f"/api/v1/runs/run_{'0' * 26}/events").route
    measures.answered(method="POST", call=route, status=201, seconds=4.0)


def run_without_a_partition() -> None:
    """As if nobody had made any for years."""
    with pytest.MonkeyPatch.context() as later:
        later.setattr(ids, "_last", 0)
        years, real = timedelta(days=3_000), time.time_ns
        later.setattr(time, "time_ns", lambda: real() + int(years.total_seconds()) * 10**9)
        factories.queued_run()


def ago(**words: int) -> Any:
    return database_now() - timedelta(**words)


PROVOKED: dict[str, Callable[[], None]] = {
    "QueueWaits": wait_long_in_queue,
    "WorkersGone": leave_work_without_workers,
    "SweepLate": let_leases_run_out,
    "LeasesLost": lose_leases,
    "OutboxLate": deliver_nothing,
    "DeliveriesParked": give_deliveries_up,
    "RecordsDrift": find_drift,
    "RecordsUnchecked": check_nothing,
    "InfrastructureFails": fail_for_infrastructure,
    "ReviewsWait": leave_a_review,
    "RefusalsMany": be_refused,
    "AnswersFail": be_broken,
    "AnswersUnavailable": be_unavailable,
    "EventsSlow": answer_slowly,
    "ConnectionsShort": lambda: measures.POOL_WAITING.set(3),
    "PartitionsShort": run_without_a_partition,
    "MemoryHigh": lambda: measures.WEB_RESIDENT.set(300 * 2**20),
}


@pytest.mark.parametrize("name", sorted(PROVOKED))
def test_an_alert_is_quiet_until_what_it_is_about_happens(name):
    now = database_now().timestamp()
    measures.POOL_WAITING.set(0)
    measures.WEB_RESIDENT.set(100 * 2**20)
    before = scrape(at=now)
    assert not alerting.fires(RULES[name]["expr"], before, before.later(10))
    PROVOKED[name]()
    assert alerting.fires(RULES[name]["expr"], before, scrape(at=now + 10))


def test_the_alert_on_the_database_fires_without_one(monkeypatch):
    expression, away = RULES["DatabaseAway"]["expr"], RULES["PlatformAway"]["expr"]
    assert not alerting.fires(expression, scrape(at=0))
    assert not alerting.fires(away, scrape(at=0))
    connection.close()
    with monkeypatch.context() as patch:
        patch.setitem(settings.DATABASES["default"], "NAME", "not_there")
        assert alerting.fires(expression, scrape(at=1))
    connection.close()
    assert alerting.fires(away, Scrape.of("", at=2)), "nobody answers"


def test_the_alert_on_open_transactions_fires_at_one_that_is_old():
    said = measures.latest().decode()
    expression = RULES["TransactionsOpen"]["expr"]
    assert not alerting.fires(expression, Scrape.of(said, at=0))
    for name in ("agentplatform_oldest_transaction_seconds", "agentplatform_idle_transactions"):
        aged = re.sub(rf"^{name} .*$", f"{name} 400.0", said, flags=re.MULTILINE)
        assert alerting.fires(expression, Scrape.of(aged, at=1)), name


def test_every_alert_is_provoked_somewhere():
    elsewhere = {"DatabaseAway", "PlatformAway", "TransactionsOpen"}
    assert set(RULES) == set(PROVOKED) | elsewhere


# --- what they and the dashboard name ---------------------------------------------------------------


def known() -> set[str]:
    """Every series that the product can give, those that have no value yet included."""
    factories.queued_run()
    LogCheck.objects.create(started_at=database_now(), finished_at=database_now())
    families = re.findall(r"^# TYPE (\w+) (\w+)$", measures.latest().decode(), re.MULTILINE)
    endings = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + ending for name, kind in families for ending in endings.get(kind, ("",))}


def test_every_series_of_alerts_and_dashboard_exists():
    panels = json.loads(alerting.DASHBOARD.read_text())["panels"]
    drawn = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(drawn) > 10
    series = known()
    for expression in [*(rule["expr"] for rule in RULES.values()), *drawn]:
        assert alerting.names_in(expression), expression
        assert alerting.names_in(expression) <= series, expression


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_leads_to_a_chapter_that_says_symptom_check_and_action(name):
    assert RULES[name]["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"
    chapter = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert chapter, f"docs/runbook.md has no chapter {name}"
    for word in ("**Symptom**", "**Check**", "**Action**"):
        assert word in chapter[1], word
    assert set(RULES[name]["labels"]) == {"severity"}
