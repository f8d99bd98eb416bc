"""Budgets: what they count, what is refused beyond them, and what a person's extension changes."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from approvals.models import ApprovalRequest
from runs import store
from runs.api.resume import policy_of, resume
from runs.domain.budgets import proposed_limit
from runs.domain.commands import Command, Context
from runs.domain.errors import BudgetExhausted, Invalid
from runs.domain.facts import moment
from runs.domain.meanings_work import tool_requested
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev, Gate, RunStatus
from runs.models import Policy
from runs.models.spending import read_spending
from tests import factories
from tests.deciding import decide, open_request, reviewer
from tests.driver import Driver, failure_of
from tests.spending import spend

pytestmark = pytest.mark.django_db
S = RunStatus
ASK = {"on_budget_exceeded": "ask"}


def fail(driver: Driver, category: str = "INFRASTRUCTURE") -> None:
    driver.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of(category, "node_gone")})


def raise_at_gate(driver: Driver, **limits: Any) -> None:
    driver.post(Ev.BUDGET_RAISED, facts={"budget": limits})
    driver.decide(Ev.APPROVED)


def test_what_a_person_raised_holds_for_the_next_runs_too():
    driver = Driver.at(S.EXECUTING, policy=ASK, budget={"max_cost_usd": "10"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "12"})
    raise_at_gate(driver, max_cost_usd="20", max_steps=500, max_runs=9)
    driver.claim()
    fail(driver)
    assert driver.follow().budget | {"max_cost_usd": "8", "max_steps": 500} == driver.state.budget
    driver.drive(S.EXECUTING)
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "1.5"})
    fail(driver)
    third = driver.follow()
    assert (third.budget["max_cost_usd"], third.budget["max_steps"], third.budget["max_runs"]) == (
        "6.5",
        500,
        9,
    )


def test_the_ceiling_is_the_tasks_whatever_its_other_runs_were_given():
    policy = {**ASK, "budget_ceiling": {"max_cost_usd": "10"}}
    driver = Driver.at(S.EXECUTING, policy=policy, budget={"max_cost_usd": "6"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "4"})
    fail(driver)
    driver.follow()
    driver.drive(S.EXECUTING)
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "2"})
    request = ApprovalRequest.objects.get(run_id=driver.run_id, status="open")
    with pytest.raises(Invalid) as refused:
        decide(request, reviewer(), budget={"max_cost_usd": "6.01"})
    assert refused.value.errors == {"budget.max_cost_usd": ["is above what the policy's ceiling leaves: 6"]}
    decide(request, reviewer(), budget={"max_cost_usd": "6"})
    assert driver.state.budget["max_cost_usd"] == "6"


def test_a_ceiling_that_fell_meanwhile_holds_for_the_next_run():
    driver = Driver.at(S.EXECUTING, policy=ASK, budget={"max_cost_usd": "10"})
    driver.post(Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": "3"})
    policy = Policy.objects.get(pk=driver.repository.policy_id)
    store.add_policy_version(policy, {"budget_ceiling": {"max_cost_usd": "5"}}, by="test")
    fail(driver)
    assert driver.follow().budget["max_cost_usd"] == "2"


def test_the_resumed_run_repeats_nothing_and_stops_at_the_new_limit():
    where = factories.repository(policy=ASK)
    holder = factories.run_in(S.EXECUTING, where=where, budget={"max_cost_usd": "1"})
    call: Any = {"operation_id": "mail-1", "tool": "mail", "arguments": {"to": "x"}, "label": "Mail"}
    holder.post(Ev.TOOL_REQUESTED, **call, effect="outside")
    holder.post(Ev.TOOL_COMPLETED, operation_id="mail-1", outcome="succeeded", cost_usd="1.25")
    assert (holder.state.gate or {})["gate"] == Gate.BUDGET
    decide(open_request(holder), reviewer(), budget={"max_cost_usd": "2"})
    again = factories.claim(holder.machine)
    known = resume(again.run, again.state, policy_of(again.run))
    assert [done["operation_id"] for done in known["operations"]] == ["mail-1"]
    assert known["budget"]["limit"]["max_cost_usd"] == "2"
    spend(again, "0.75")
    assert (again.state.status, (again.state.gate or {})["gate"]) == (S.WAITING_FOR_APPROVAL, Gate.BUDGET)
    assert Decimal(again.state.used["cost_usd"]) == 2


def test_cost_that_nobody_reported_is_counted_as_unknown_and_not_as_nothing():
    holder = factories.run_in(S.EXECUTING)
    spend(holder, "0.10")
    for _ in range(2):
        spend(holder, None)
    spend(holder, "0")
    assert holder.state.used["unknown_costs"] == 2
    assert Decimal(holder.state.used["cost_usd"]) == Decimal("0.10")


@pytest.mark.parametrize(("seconds", "refused"), [(59, False), (61, True)])
def test_nothing_new_is_begun_when_the_time_is_up_though_no_sweep_came(seconds, refused):
    driver = Driver.at(S.EXECUTING, budget={"max_duration_seconds": 60})
    state = driver.state
    command = Command(Ev.TOOL_REQUESTED, driver.tool(), driver.caller(), "k", driver.token)
    now = moment(state.active_since) + timedelta(seconds=seconds)
    context = Context(now=now, policy={"approval_tools": []}, policy_version="", contract={})
    with pytest.raises(BudgetExhausted, match="max_duration_seconds") if refused else nullcontext():
        tool_requested(state, command, context)


def test_an_agent_that_only_thinks_is_stopped_before_there_is_a_plan():
    driver = Driver.at(S.PLANNING, budget={"max_steps": 3})
    for _ in range(3):
        driver.post(Ev.MODEL_DECISION, {"decision": "tool"})
    assert driver.state.status == S.FAILED
    assert (driver.state.failure or {})["reason"] == "max_steps"


def test_the_ledger_holds_what_the_runs_of_a_day_cost():
    where = factories.repository()
    for amount in ("0.0000004", "1.25"):
        spend(factories.run_in(S.EXECUTING, where=where), amount)
    _, spent = read_spending([where.pk])
    assert spent["repository", where.pk] == Decimal("1.2500004")


@pytest.mark.parametrize(
    ("spent", "limit", "ceiling", "proposed"),
    [
        ("1.2", "1", None, "1.50"),
        ("1.60", "1", None, "1.61"),
        ("1.2", "1", "1.337", "1.33"),
        ("0.0001", "0.003", None, "0.02"),
    ],
)
def test_a_proposed_limit_is_above_what_is_spent_and_never_above_the_ceiling(spent, limit, ceiling, proposed):
    state = RunState(budget={"max_cost_usd": limit})
    state.used["cost_usd"] = spent
    assert proposed_limit(state, Decimal(ceiling) if ceiling else None) == Decimal(proposed)
