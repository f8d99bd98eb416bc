"""What a campaign may do at once, and what is wrong with limits that somebody wants."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from runs.domain.campaigns.words import Completion
from runs.domain.facts import Json
from runs.domain.policy import is_money
from runs.domain.vocabulary import CompletionMode

#: Repositories of one campaign.
MOST_PARTS: Final = 2_000
MAX_GROWTH: Final = 10
MAX_PACE: Final = 1_000

DEFAULTS: Final[Json] = {
    "first_wave": 5,
    "growth": 2,
    "failure_limit_percent": 20,
    "pull_requests_per_hour": None,
    "max_cost_usd": None,
    "completion": Completion.TASKS_COMPLETED.value,
}
#: What may be changed while a campaign is unfinished; the rest is what it is.
CHANGEABLE: Final = ("failure_limit_percent", "pull_requests_per_hour", "max_cost_usd")

MEANINGS: Final = {
    "first_wave": "How many repositories are begun first",
    "growth": "Each further wave is so many times as large as the one before it",
    "failure_limit_percent": "Nothing more is begun once so many of a hundred begun repositories have failed",
    "pull_requests_per_hour": "How many of its pull requests may be opened within an hour; null: no limit",
    "max_cost_usd": (
        "US dollars that all of its tasks together may cost; a task is begun only while its own budget still"
        " fits; null: no cap"
    ),
    "completion": "When a repository counts as done; the campaign is complete when every one is",
}


def with_defaults(given: Mapping[str, Any]) -> Json:
    """The limits with defaults laid under them; what is no limit is left out."""
    return {name: given.get(name, default) for name, default in DEFAULTS.items()}


def check_limits(limits: Mapping[str, Any], contract: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with limits over tasks of this (well-formed) contract, by field; {} where nothing is."""
    wrong: dict[str, list[str]] = {}
    for name, low, high in (
        ("first_wave", 1, MOST_PARTS),
        ("growth", 1, MAX_GROWTH),
        ("failure_limit_percent", 1, 100),
    ):
        if not _is_whole(limits[name], low, high):
            wrong[name] = [f"must be a whole number from {low} to {high}"]
    pace = limits["pull_requests_per_hour"]
    if pace is not None and not _is_whole(pace, 1, MAX_PACE):
        wrong["pull_requests_per_hour"] = [f"must be a whole number from 1 to {MAX_PACE}, or null"]
    if message := _cap(limits["max_cost_usd"], contract["budget"].get("max_cost_usd")):
        wrong["max_cost_usd"] = [message]
    if message := _completion(limits["completion"], contract["completion_mode"]):
        wrong["completion"] = [message]
    return wrong


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _cap(cap: Any, each: Any) -> str | None:
    if cap is None:
        return None
    if not is_money(cap) or not Decimal(str(cap)):
        return "must be an amount in US dollars above 0, or null"
    if each is None:
        return "needs the contract's budget to say max_cost_usd: what one task may cost"
    if Decimal(str(cap)) < Decimal(str(each)):
        return f"is less than the {each} that the contract allows a single task"
    return None


def _completion(value: Any, mode: str) -> str | None:
    if value not in list(Completion):
        return f"must be one of: {', '.join(Completion)}"
    if value == Completion.PULL_REQUESTS_MERGED and mode != CompletionMode.PR_CREATED:
        return f"{value} needs a contract whose completion_mode is {CompletionMode.PR_CREATED}"
    return None


def wave_size(limits: Mapping[str, Any], number: int) -> int:
    """How many repositories wave ``number`` (from 1) adds."""
    return int(limits["first_wave"] * limits["growth"] ** (number - 1))


def waves_of(limits: Mapping[str, Any], parts: int) -> list[int]:
    """How many repositories each wave adds until all ``parts`` are begun."""
    sizes: list[int] = []
    while (left := parts - sum(sizes)) > 0:
        sizes.append(min(left, wave_size(limits, len(sizes) + 1)))
    return sizes
