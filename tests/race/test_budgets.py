"""Reports and requests of one moment: nothing spent is lost, and together they pass no limit."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from runs import service
from runs.domain.commands import Command
from runs.domain.errors import BudgetExhausted, LeaseLost, Refusal
from runs.domain.vocabulary import MACHINE_ROLES, Ev, RunStatus
from runs.models import Run, RunEvent
from runs.models.spending import read_spending
from tests.driver import Driver
from tests.race.connections import at_once, behind

pytestmark = pytest.mark.django_db(transaction=True)
TOGETHER = 10


def together(driver: Driver, event: Ev, payloads: list[Any]) -> list[Any]:
    by = driver.caller(*MACHINE_ROLES)
    commands = [Command(event, payload, by, f"k-{n}", driver.token) for n, payload in enumerate(payloads)]
    return at_once(*[partial(service.apply_event, driver.run_id, command) for command in commands])


def test_calls_of_one_moment_do_not_pass_the_limit_together():
    driver = Driver.at(RunStatus.EXECUTING, budget={"max_tool_calls": 4})
    answers = together(driver, Ev.TOOL_REQUESTED, [driver.tool() for _ in range(TOGETHER)])
    assert sum(isinstance(answer, service.Outcome) for answer in answers) == 4
    assert sum(isinstance(answer, BudgetExhausted) for answer in answers) == TOGETHER - 4
    assert driver.state.used["tool_calls"] == 4


def test_the_call_that_comes_second_waits_and_then_finds_the_limit_reached(owner_connection):
    driver = Driver.at(RunStatus.EXECUTING, budget={"max_tool_calls": 1})
    by = driver.caller(*MACHINE_ROLES)
    calls = [Command(Ev.TOOL_REQUESTED, driver.tool(), by, key, driver.token) for key in ("a", "b")]
    _, refused = behind(
        owner_connection, *[partial(service.apply_event, driver.run_id, call) for call in calls]
    )
    assert isinstance(refused, BudgetExhausted)
    assert driver.state.used["tool_calls"] == 1


def test_reports_of_one_moment_are_all_added_up():
    driver = Driver.at(RunStatus.EXECUTING, budget={"max_cost_usd": "1.00"})
    reports = [{"decision": "tool", "cost_usd": "0.09"}] * TOGETHER
    answers = together(driver, Ev.MODEL_DECISION, reports)
    assert all(isinstance(answer, service.Outcome) for answer in answers)
    assert driver.state.used["cost_usd"] == "0.90"
    assert Run.objects.get(pk=driver.run_id).cost_usd == Decimal("0.90")
    _, spent = read_spending([driver.repository.pk])
    assert spent["repository", driver.repository.pk] == Decimal("0.90")


@pytest.mark.parametrize("on_exceeded", ["stop", "ask"])
def test_the_report_that_reaches_the_limit_has_one_consequence(on_exceeded):
    policy = {"on_budget_exceeded": on_exceeded}
    driver = Driver.at(RunStatus.EXECUTING, policy=policy, budget={"max_cost_usd": "1.00"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "0.90"})
    answers = together(driver, Ev.MODEL_DECISION, [{"decision": "tool", "cost_usd": "0.09"}] * TOGETHER)
    taken = [answer for answer in answers if isinstance(answer, service.Outcome)]
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert len(taken) + len(refused) == TOGETHER
    assert all(isinstance(answer, LeaseLost) or answer.code == "run_terminal" for answer in refused)
    spent = Decimal("0.90") + Decimal("0.09") * len(taken)
    assert Decimal(driver.state.used["cost_usd"]) == spent >= 1
    ends = {"stop": Ev.NON_RETRYABLE_FAILURE, "ask": Ev.HUMAN_APPROVAL_REQUIRED}
    assert RunEvent.objects.filter(run_id=driver.run_id, event_type=ends[on_exceeded]).count() == 1
