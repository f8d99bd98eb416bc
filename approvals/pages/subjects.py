"""What is to be decided where it is not a patch: a plan, a call, a budget, a question."""

from __future__ import annotations

import json
from typing import Any

from approvals.pages.review import Review
from runs.domain.facts import Json
from runs.domain.vocabulary import Gate
from runs.selectors.words import money


def subject_of(review: Review) -> Json:
    subject = review.request.subject
    shown: dict[Gate, Any] = {
        Gate.PLAN: lambda: {"plan": (review.subject.document if review.subject else None) or {}},
        Gate.TOOL_CALL: lambda: {"call": subject, "arguments": _pretty(subject.get("arguments"))},
        Gate.BUDGET: lambda: {"budget": _budget(review)},
        Gate.QUESTION: lambda: {"question": subject},
    }
    return {"kind": review.gate.value, **(shown[review.gate]() if review.gate in shown else {})}


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _budget(review: Review) -> Json:
    limit = review.state.budget.get("max_cost_usd")
    ceiling = review.policy.values["budget_ceiling"].get("max_cost_usd")
    return {
        "spent": money(review.state.used["cost_usd"]),
        "limit": money(limit),
        "value": limit,
        "ceiling": money(ceiling) if ceiling is not None else "",
    }
