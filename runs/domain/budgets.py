"""What a run may cost: what the next run of a task gets, what an extension may be
(lifecycle contract, section 8). Money in US dollars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from typing import Any, Final

from runs.domain.contract import effective_budget
from runs.domain.facts import Json
from runs.domain.state import RunState

_CENT: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What comes if the work goes on as it went. ``left``: steps that the attempt may still make, ``end``:
    what the run will have cost after them."""

    steps: int
    each: Decimal
    left: int
    end: Decimal


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
    if ceiling is not None and wanted >= ceiling:
        return ceiling.quantize(_CENT, rounding=ROUND_DOWN)
    return wanted.quantize(_CENT, rounding=ROUND_UP)


def forecast(state: RunState) -> Forecast | None:
    """What the steps so far foretell; None while nothing is known of what a step costs."""
    spent, steps = Decimal(state.used["cost_usd"]), int(state.used["steps"])
    if not steps or not spent:
        return None
    each = spent / steps
    left = int(state.budget.get("max_steps", 0)) - int((state.attempt or {}).get("steps", 0))
    return Forecast(steps, each, max(left, 0), spent + each * max(left, 0))
