"""What an attempt may still use. The control plane holds the same limits; looked at here as well, a limit
costs no model call to find out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from worker.client.protocol import Json, Resume

# Of one attempt; `max_cost_usd`, `max_outside_writes` and `max_duration_seconds` are of the run.
OF_THE_RUN = frozenset({"max_cost_usd", "max_outside_writes", "max_duration_seconds"})


class OutOfBounds(Exception):  # noqa: N818  named by what happened
    """A limit is reached: its name in the budget, and a sentence."""

    def __init__(self, limit: str, sentence: str) -> None:
        super().__init__(sentence)
        self.limit = limit

    @property
    def ends_the_run(self) -> bool:
        return self.limit in OF_THE_RUN


@dataclass
class Bounds:
    """Counts of this attempt (and of the run's money, outside writes and time) beside their limits.

    `deadline` is a reading of the clock that `now` reads, in seconds. Money counts what was reported:
    an unknown cost leaves only the other limits to end a loop.
    """

    limits: Mapping[str, Any]
    steps: int = 0
    tool_calls: int = 0
    outside_writes: int = 0
    cost_usd: Decimal = Decimal(0)
    deadline: float = float("inf")
    repeats: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, resume: Resume, *, now: float, attempt_seconds: float) -> Bounds:
        attempt, used = resume.attempt_used, resume.budget_used
        left = attempt_seconds
        if (most := resume.budget_limit.get("max_duration_seconds")) is not None:
            left = min(left, float(most) - float(used.get("active_seconds") or 0))
        return cls(
            limits=resume.budget_limit,
            steps=int(attempt.get("steps") or 0),
            tool_calls=int(attempt.get("tool_calls") or 0),
            outside_writes=int(used.get("outside_writes") or 0),
            cost_usd=Decimal(str(used.get("cost_usd") or 0)),
            deadline=now + left,
        )

    def before_model_call(self, *, now: float) -> None:
        """Raises OutOfBounds where another answer could not be used."""
        self._within("max_steps", self.steps, "model calls")
        if self.cost_usd > 0:
            self._within("max_cost_usd", self.cost_usd, "US dollars")
        self._within("max_tool_calls", self.tool_calls, "tool calls")
        self._in_time(now)

    def before_tool_call(self, *, effect: str, same: str, now: float) -> None:
        """Raises OutOfBounds. `same` tells equal calls; the control plane ends the attempt at the excess."""
        self._within("max_tool_calls", self.tool_calls, "tool calls")
        if effect == "outside":
            self._within("max_outside_writes", self.outside_writes, "writes to the outside")
        self._in_time(now)
        self.tool_calls += 1
        self.outside_writes += effect == "outside"
        self.repeats[same] = self.repeats.get(same, 0) + 1

    def decided(self, cost_usd: Decimal | None) -> None:
        self.steps += 1
        self.cost_usd += cost_usd or Decimal(0)

    def _within(self, name: str, used: Decimal | int, what: str) -> None:
        limit = self.limits.get(name)
        if limit is not None and used >= Decimal(str(limit)):
            raise OutOfBounds(name, f"{used} of {limit} {what} are used")

    def _in_time(self, now: float) -> None:
        if now >= self.deadline:
            raise OutOfBounds("attempt_time", "the attempt's time is used up")


def failure_of(bound: OutOfBounds) -> Json:
    """The `failure` of a payload."""
    reason = bound.limit
    return {"category": "BUDGET_EXCEEDED", "reason": reason, "summary": str(bound), "retryable": False}
