"""What a person may raise a run's budget to at its budget gate."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from runs.domain.budgets import cost_ceiling
from runs.domain.payloads import cost_of
from runs.domain.policy import BUDGET
from runs.domain.state import RunState

_MOST: Final = 10**9


def problems(
    budget: Any, state: RunState, policy: Mapping[str, Any], spent_before: Decimal
) -> dict[str, list[str]]:
    """What is wrong with ``budget`` (limit → new value), by field; {} when it may be set.

    ``spent_before``: what the task's other runs cost; the policy's ceiling on money is the whole task's.
    It must get the run going again: a cost limit not above what is spent would only open the gate anew.
    """
    if not isinstance(budget, dict) or not budget:
        return {"budget": ["say the new limits, such as max_cost_usd"]}
    ceiling = dict(policy["budget_ceiling"])
    if (most := cost_ceiling(policy, spent=spent_before)) is not None:
        ceiling["max_cost_usd"] = f"{most.normalize():f}"
    wrong = {f"budget.{name}": [text] for name in budget if (text := _wrong(name, budget[name], ceiling))}
    spent, limit = Decimal(state.used["cost_usd"]), budget.get("max_cost_usd", state.budget["max_cost_usd"])
    amount = cost_of(limit)
    if not wrong and amount is not None and amount <= spent:
        wrong["budget.max_cost_usd"] = [f"must be above the ${spent:f} that are spent"]
    return wrong


def _wrong(name: str, value: Any, ceiling: Mapping[str, Any]) -> str:
    if name not in BUDGET:
        return f"is not known; known are {', '.join(BUDGET)}"
    if name == "max_cost_usd":
        if cost_of(value) is None:
            return "must be an amount in US dollars"
    elif not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        return "must be a whole number"
    if name in ceiling and Decimal(str(value)) > Decimal(str(ceiling[name])):
        return f"is above what the policy's ceiling leaves: {ceiling[name]}"
    return ""
