"""What a run may cost: what the next run of a task gets, what an extension may be
(lifecycle contract, section 8). Money in US dollars."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import Any, Final

from runs.domain.contract import effective_budget
from runs.domain.facts import Json
from runs.domain.state import RunState

_CENT: Final = Decimal("0.01")


def next_budget(
    contract: Mapping[str, Any], policy: Mapping[str, Any], *, last: RunState | None, spent: Decimal
) -> Json:
    """Limits of a task's next run. ``last`` is the run before it, ``spent`` what all runs before it cost.

    Of the money it gets what the last run left of its own, with what a person added there; what else a
    person raised holds on. Nothing goes above the policy's ceiling of today.
    """
    limits = effective_budget(contract, policy)
    left = Decimal(str(limits["max_cost_usd"]))
    if last is not None:
        limits |= last.raised
        left = Decimal(str(last.budget["max_cost_usd"])) - Decimal(last.used["cost_usd"])
        most = cost_ceiling(policy, spent=spent)
        left = left if most is None else min(left, most)
    limits["max_cost_usd"] = f"{max(left, Decimal(0)).normalize():f}"
    return limits


def cost_ceiling(policy: Mapping[str, Any], *, spent: Decimal) -> Decimal | None:
    """The most that a run's cost limit may be when the task's other runs cost ``spent``; None: no ceiling."""
    ceiling = policy["budget_ceiling"].get("max_cost_usd")
    return None if ceiling is None else max(Decimal(str(ceiling)) - spent, Decimal(0))


def proposed_limit(state: RunState, ceiling: Decimal | None) -> Decimal:
    """A new cost limit to begin from: half as much again, at most the ceiling, to the cent."""
    spent, limit = Decimal(state.used["cost_usd"]), Decimal(str(state.budget.get("max_cost_usd", 0)))
    wanted = max(limit * Decimal("1.5"), spent + _CENT)
    wanted = wanted if ceiling is None else min(wanted, ceiling)
    return wanted.quantize(_CENT, rounding=ROUND_UP)
