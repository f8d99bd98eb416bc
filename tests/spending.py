"""Runs that cost something."""

from __future__ import annotations

from typing import Any

from runs.domain.vocabulary import Ev
from tests.factories import Holder


def spend(holder: Holder, amount: Any, **more: Any) -> Any:
    """The agent decides something that cost this much, in US dollars; None: nobody knows."""
    known = {} if amount is None else {"cost_usd": amount}
    return holder.post(Ev.MODEL_DECISION, decision="tool", **known, **more)
