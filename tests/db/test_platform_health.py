"""Health names what is missing, and only answers ready when work can be done."""

from __future__ import annotations

import json
import shutil

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import RequestFactory

from agentplatform import celery, health
from agentplatform.clock import database_now

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_broker(settings, tmp_path) -> None:
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(tmp_path / "messages"),
        "control_folder": str(tmp_path / "control"),
    }


def _ready() -> tuple[int, dict[str, str]]:
    answer = health.readyz(RequestFactory().get("/readyz"))
    return answer.status_code, json.loads(answer.content)["checks"]


def test_all_is_well():
    assert _ready() == (200, {"database": "ok", "migrations": "ok", "broker": "ok"})


def test_a_migration_that_was_not_applied_is_named():
    MigrationRecorder.Migration.objects.filter(app="axes", name="0001_initial").delete()
    status, checks = _ready()
    assert status == 503
    assert checks["migrations"] == "not applied: axes.0001_initial"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_said_without_details(monkeypatch):
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(settings.DATABASES["default"], "NAME", "not_there")
        status, checks = _ready()
    connection.close()
    assert status == 503
    assert checks["database"] == checks["migrations"] == "no connection"


def test_broker_folders_that_were_removed_come_back():
    celery.make_broker_folders()
    for folder in celery.broker_folders():
        shutil.rmtree(folder)
    assert _ready()[0] == 200


def test_a_broker_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "messages").write_text("a file where the folder should be")
    status, checks = _ready()
    assert status == 503
    assert checks["broker"] == "no connection"


def test_the_process_answers_without_asking_the_database(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert health.healthz(RequestFactory().get("/healthz")).status_code == 200


def test_metrics_are_prometheus_text():
    answer = health.metrics(RequestFactory().get("/metrics"))
    assert answer["Content-Type"].startswith("text/plain")
    assert b"process_cpu_seconds_total" in answer.content


def test_the_clock_is_the_databases_and_moves_within_a_transaction():
    first, second = database_now(), database_now()
    assert first < second
    assert str(first.tzinfo) == settings.TIME_ZONE
