"""What is to be decided where it is not a patch: a plan, a call, a budget, a question."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from approvals.pages.review import Review
from runs import service
from runs.domain.budgets import cost_ceiling, proposed_limit
from runs.domain.facts import Json
from runs.domain.patch.invisible import hidden_in
from runs.domain.state import RunState
from runs.domain.vocabulary import Gate
from runs.selectors.words import money
from runs.templatetags.ui import duration

#: What a call reaches, as its agent declares it.
_EFFECT: Final = {
    "none": "It changes nothing, says the agent.",
    "workspace": "It changes files of the run's own checkout, says the agent.",
    "outside": "It reaches beyond the sandbox; what it does there cannot be taken back.",
}


def subject_of(review: Review) -> Json:
    """``{kind, plan? | call, arguments, hidden, effect | budget | question}`` for approvals/_subject.html."""
    subject = review.request.subject
    shown: dict[Gate, Any] = {
        Gate.PLAN: lambda: {"plan": (review.subject.document if review.subject else None) or {}},
        Gate.TOOL_CALL: lambda: _call(review),
        Gate.BUDGET: lambda: {"budget": _budget(review)},
        Gate.QUESTION: lambda: {"question": subject},
    }
    return {"kind": review.gate.value, **(shown[review.gate]() if review.gate in shown else {})}


def _call(review: Review) -> Json:
    subject = review.request.subject
    pending = review.state.pending.get(subject["operation_id"], {})
    arguments = pretty(subject.get("arguments"))
    hidden = ", ".join(dict.fromkeys(name for line in arguments.split("\n") for name in hidden_in(line)))
    effect = _EFFECT.get(pending.get("effect", ""), "")
    return {
        "call": subject,
        "label": pending.get("label", ""),
        "arguments": arguments,
        "hidden": hidden,
        "effect": effect,
    }


def pretty(value: Any) -> str:
    """JSON as somebody edits it."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _budget(review: Review) -> Json:
    ceiling = cost_ceiling(review.policy.values, spent=service.spent_by_others(review.request.run))
    return {
        "spent": money(review.state.used["cost_usd"]),
        "limit": money(review.state.budget.get("max_cost_usd")),
        "value": f"{proposed_limit(review.state, ceiling):f}",
        "ceiling": money(ceiling) if ceiling is not None else "",
        "forecast": _forecast(review.state),
    }


def _forecast(state: RunState) -> list[str]:
    """What more money would buy, if the work goes on as it went."""
    spent, steps = Decimal(state.used["cost_usd"]), int(state.used["steps"])
    worked = duration(state.used["active_seconds"])
    if not steps or not spent:
        return [f"It has worked for {worked}; what a step costs is not known."]
    each = spent / steps
    left = int(state.budget.get("max_steps", 0)) - int((state.attempt or {}).get("steps", 0))
    lines = [
        f"It made {steps} steps in {worked}, at {money(each)} each: a dollar more buys {int(1 / each):,}."
    ]
    if left > 0:
        most = money(spent + each * left)
        lines.append(f"At that pace the {left} steps that this attempt may still make end at {most}.")
    return lines
