"""What is to be decided where it is not a patch: a plan, a call, a budget, a question."""

from __future__ import annotations

import json
from typing import Any, Final

from approvals.pages.review import Review
from runs import service
from runs.domain.budgets import cost_ceiling, forecast, proposed_limit
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
        "forecast": _foretold(review.state),
    }


def _foretold(state: RunState) -> list[str]:
    """What more money would buy."""
    worked, found = duration(state.used["active_seconds"]), forecast(state)
    if found is None:
        return [f"It has worked for {worked}; what a step costs is not known."]
    buys = f"at {money(found.each)} each: a dollar more buys {int(1 / found.each):,}."
    lines = [f"It made {found.steps} {'step' if found.steps == 1 else 'steps'} in {worked}, {buys}"]
    if found.left:
        most = money(found.end)
        lines.append(f"At that pace the {found.left} steps that this attempt may still make end at {most}.")
    return lines
