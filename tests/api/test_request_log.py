"""One line for each request, with the ids of what it was about and of what came of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import structlog

from agentplatform import celery
from runs import tasks
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import RunEvent
from tests import factories
from tests.api.calls import Caller, LeasedCaller

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="agentplatform.middleware")


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of each line, as the formatter gets them."""
    return [dict(record.msg) for record in caplog.records if isinstance(record.msg, dict)]


def test_a_request_that_moves_a_run_names_request_run_and_event(caplog):
    holder = factories.run_in(RunStatus.LEASED)
    answer = LeasedCaller(holder).event("worker_started", {"worker_version": "1"})
    (line,) = lines(caplog)
    assert line["run_id"] == holder.run_id
    assert line["event_id"] == answer.json()["event"]["id"]
    assert line["request_id"] == answer["X-Request-ID"]
    assert RunEvent.objects.filter(pk=line["event_id"]).exists()


def test_the_next_request_names_nothing_of_the_one_before(caplog):
    holder = factories.run_in(RunStatus.LEASED)
    LeasedCaller(holder).event("worker_started", {"worker_version": "1"})
    Caller(factories.person_token(factories.person(PersonRole.VIEWER))).get("runs")
    assert not {"run_id", "event_id"} & lines(caplog)[-1].keys()


def test_lines_of_a_background_task_name_the_task_and_its_call():
    celery.name_task(task_id="call-1", task=tasks.sweep)
    bound = structlog.contextvars.get_contextvars()
    assert (bound["task"], bound["task_call"]) == ("runs.tasks.sweep", "call-1")
    celery.forget_task()
    assert structlog.contextvars.get_contextvars() == {}
