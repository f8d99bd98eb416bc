"""Policies: defaults, inheritance that only tightens, and the effective value with its origin
(lifecycle contract, section 16)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from runs.domain.facts import Json
from runs.domain.vocabulary import Risk

#: Seconds. Each scope is a clock of its own (section 10).
TIMEOUTS: Final[Json] = {
    "queue": 86_400,
    "step": 900,
    "attempt": 3_600,
    "approval": 259_200,
    "cancel": 60,
    "pause": 600,
}

#: How long a lease lives without a heartbeat, before work began and after; without one, ``lease_seconds``.
LEASE_CLOCKS: Final = ("lease", "heartbeat")
#: With fewer beats in a lease, one lost packet would kill healthy work.
BEATS_PER_LEASE: Final = 3

BUDGET: Final[Json] = {
    "max_runs": 3,
    "max_attempts": 2,
    "max_repairs": 2,
    "max_steps": 100,
    "max_tool_calls": 300,
    "max_outside_writes": 20,
    "max_repeats": 3,
    "max_cost_usd": "10.00",
    "max_duration_seconds": 7_200,
    "max_takeovers": 2,
}

DEFAULTS: Final[Json] = {
    "allow_auto_pr": True,
    "judge_confidence": 0.8,
    "autonomy_error_rate": 0.1,
    "required_verifiers": [],
    "forbidden_paths": [],
    "allowed_paths": [],
    "generated_paths": [],
    "allow_binary": False,
    "risky_paths": [
        ".github/**",
        ".gitlab-ci.yml",
        ".gitea/**",
        ".circleci/**",
        "Jenkinsfile",
        "**/CODEOWNERS",
        "**/package-lock.json",
        "**/yarn.lock",
        "**/pnpm-lock.yaml",
        "**/poetry.lock",
        "**/uv.lock",
        "**/Cargo.lock",
        "**/go.sum",
        "**/conftest.py",
        "**/pytest.ini",
        "**/tox.ini",
        "**/setup.cfg",
        "**/pyproject.toml",
        "**/Makefile",
    ],
    "risk_ceiling": Risk.CRITICAL.value,
    "approval_tools": [],
    "require_isolation": "none",
    "budget": BUDGET,
    "budget_ceiling": {},
    "spend_cap_usd_per_day": None,
    "submitter_spend_cap_usd_per_day": None,
    "max_concurrent_runs": None,
    "timeouts": TIMEOUTS,
    "on_budget_exceeded": "stop",
    "on_approval_timeout": "cancel",
    "on_red_base": "continue",
    "approvals": {"low": 1, "medium": 1, "high": 1, "critical": 1},
    "override": False,
    "pull_request_draft": False,
    "pull_request_labels": [],
    "max_open_pull_requests": None,
    "max_pull_requests_per_hour": None,
    "close_pull_requests_after_days": None,
    "follow_up_tasks": "never",
    "retry_base_seconds": 5,
    "retry_max_seconds": 300,
    "heartbeat_interval_seconds": 15,
    "lease_seconds": 60,
}

#: What each field means, for people.
MEANINGS: Final[dict[str, str]] = {
    "allow_auto_pr": "Whether a pull request may go out without a person, when every guard passes",
    "judge_confidence": "The least confidence, 0 to 1, with which a judge's pass counts",
    "autonomy_error_rate": "The share, 0 to 1, of the judge's passes that people or later reverts may find"
    " wrong: beyond it, with certainty, a higher judge_confidence is proposed, within it a lower one",
    "required_verifiers": "Names of verifiers that must pass, beside those of the contract",
    "forbidden_paths": "Globs that no patch may touch, by old or new name",
    "allowed_paths": "Globs outside which no patch may touch anything; empty: no such limit",
    "generated_paths": "Globs of files that are left to their generator",
    "allow_binary": "Whether binary content may change",
    "risky_paths": "Globs that raise the risk of a run to high when its patch touches them",
    "risk_ceiling": "A higher risk than this is refused",
    "approval_tools": "Names of tools whose calls a person must allow",
    "require_isolation": "The least isolation with which a worker may do the work",
    "budget": "Limits of runs whose contract names none",
    "budget_ceiling": "Limits that no contract may exceed",
    "spend_cap_usd_per_day": (
        "US dollars that the repository's runs may report in a day (UTC) before no more is claimed; "
        "in the platform's policy also what all runs together may; null: no cap"
    ),
    "submitter_spend_cap_usd_per_day": (
        "US dollars that the runs of one person's tasks, in all repositories, may report in a day (UTC) "
        "before no more of theirs is claimed here; null: no cap"
    ),
    "max_concurrent_runs": "How many begun runs of the repository may be leased at once; null: no limit",
    "timeouts": "Seconds until the sweep acts, one clock each",
    "on_budget_exceeded": "What happens at a limit: the run stops, or a person is asked",
    "on_approval_timeout": "What happens when nobody decides: the run is cancelled, fails, or is escalated",
    "on_red_base": "What happens when verifiers fail on the untouched base: the run fails, a person is asked,"
    " or it goes on and says so",
    "approvals": "How many people must approve, by effective risk",
    "override": "Whether an admin may approve what they asked for themselves, with a reason",
    "pull_request_draft": "Whether pull requests are opened as drafts, where the provider knows them",
    "pull_request_labels": "Labels that each pull request gets, where the provider knows them",
    "max_open_pull_requests": "How many pull requests of the repository may be open at once; null: no limit",
    "max_pull_requests_per_hour": "How many pull requests may be opened within an hour; null: no limit",
    "close_pull_requests_after_days": "Days without any change after which an open pull request is closed;"
    " null: never",
    "follow_up_tasks": "What red checks and requested changes at the provider make: nothing, a draft of a"
    " task, or a task that is submitted",
    "retry_base_seconds": "The first delay before a retry; each further one doubles it",
    "retry_max_seconds": "The longest delay before a retry",
    "heartbeat_interval_seconds": "How often a worker says that it lives",
    "lease_seconds": "How long a lease lives without a heartbeat; at least three intervals",
}

MOST: Final = 10**9
ISOLATION: Final = ("none", "process", "namespace", "container", "vm")

Pair = Callable[[Any, Any], Any]


def _lowest(a: Any, b: Any) -> Any:
    """The lower one; null is no limit."""
    # Money is compared as a decimal and keeps its spelling.
    if a is None or b is None:
        return b if a is None else a
    return a if Decimal(str(a)) <= Decimal(str(b)) else b


def _highest(a: Any, b: Any) -> Any:
    """The higher one."""
    return max(a, b)


def _both(a: bool, b: bool) -> bool:  # noqa: FBT001  two values of one field
    """True only where every level says so."""
    return a and b


def _either(a: bool, b: bool) -> bool:  # noqa: FBT001  two values of one field
    """True where any level says so."""
    return a or b


def _union(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """All of them together."""
    return list(dict.fromkeys((*a, *b)))


def _beside(a: list[list[str]], b: list[list[str]]) -> list[list[str]]:
    """Side by side: a path must match every level's list."""
    return [*a, *b]


def _ranked(*order: str) -> Pair:
    def stricter(a: str, b: str) -> str:
        return max(a, b, key=order.index)

    stricter.__doc__ = f"The stricter one: {', '.join(reversed(order))}."
    return stricter


def _each(pair: Pair) -> Pair:
    def entries(a: Json, b: Json) -> Json:
        return {**a, **{k: pair(a[k], v) if k in a else v for k, v in b.items()}}

    entries.__doc__ = f"Entry by entry. {pair.__doc__}"
    return entries


def _last(_: Any, b: Any) -> Any:
    """That of the level nearest to the repository."""
    return b


#: How a lower level's value meets the one above it; each function's docstring tells people.
STRICTER: Final[dict[str, Pair]] = {
    "allow_auto_pr": _both,
    "judge_confidence": _highest,
    "autonomy_error_rate": _lowest,
    "required_verifiers": _union,
    "forbidden_paths": _union,
    "allowed_paths": _beside,
    "generated_paths": _union,
    "allow_binary": _both,
    "risky_paths": _union,
    "risk_ceiling": _ranked(*reversed([r.value for r in Risk])),
    "approval_tools": _union,
    "require_isolation": _ranked(*ISOLATION),
    "budget": _each(_last),
    "budget_ceiling": _each(_lowest),
    "spend_cap_usd_per_day": _lowest,
    "submitter_spend_cap_usd_per_day": _lowest,
    "max_concurrent_runs": _lowest,
    "timeouts": _each(_lowest),
    "on_budget_exceeded": _ranked("ask", "stop"),
    "on_approval_timeout": _ranked("escalate", "cancel", "fail"),
    "on_red_base": _ranked("continue", "ask", "fail"),
    "approvals": _each(_highest),
    "override": _both,
    "pull_request_draft": _either,
    "pull_request_labels": _union,
    "max_open_pull_requests": _lowest,
    "max_pull_requests_per_hour": _lowest,
    "close_pull_requests_after_days": _lowest,
    "follow_up_tasks": _ranked("submit", "draft", "never"),
    "retry_base_seconds": _last,
    "retry_max_seconds": _last,
    "heartbeat_interval_seconds": _last,
    "lease_seconds": _last,
}


#: How a policy comes to hold for a repository.
VIA: Final = ("own", "pattern", "inherited")


@dataclass(frozen=True, slots=True)
class Level:
    """One policy of the chain, from the platform down to the repository's own.

    ``via`` says how it comes to hold: ``own`` (the repository names it), ``pattern`` (a rule puts it over
    names such as this), ``inherited`` (one of those inherits from it).
    """

    name: str
    number: int
    values: Json
    via: str = "own"
    pattern: str = ""  #: of the rule, where it came by one


@dataclass(frozen=True, slots=True)
class Effective:
    """The policy in force: values, each field's origins (names of policies), a version text, the levels."""

    values: Json
    origins: dict[str, list[str]]
    version: str
    levels: tuple[Level, ...] = ()


def effective(levels: Sequence[Level]) -> Effective:
    """Combine the chain. A field that no level sets has the built-in default, which is no ceiling.

    ``allowed_paths`` becomes a list of lists: a path must match each level's list.
    """
    values: Json = {}
    origins: dict[str, list[str]] = {}
    for name, default in DEFAULTS.items():
        setters = [level for level in levels if name in level.values]
        given = [level.values[name] for level in setters]
        if name == "allowed_paths":
            given = [[paths] for paths in given if paths]
        merged = reduce(STRICTER[name], given) if given else default
        values[name] = {**default, **merged} if isinstance(default, dict) else merged
        origins[name] = [level.name for level in setters] or ["built-in"]
    version = "/".join(f"{level.name}@{level.number}" for level in levels) or "built-in"
    return Effective(values, origins, version, tuple(levels))


def check_values(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with a policy file, by field."""
    wrong: dict[str, list[str]] = {}
    for name, value in values.items():
        if name not in DEFAULTS:
            wrong[name] = ["is not a policy field"]
        elif message := _wrong(name, value):
            wrong[name] = [message]
    lease = values.get("lease_seconds", DEFAULTS["lease_seconds"])
    beat = values.get("heartbeat_interval_seconds", DEFAULTS["heartbeat_interval_seconds"])
    if (
        "lease_seconds" not in wrong
        and "heartbeat_interval_seconds" not in wrong
        and lease < BEATS_PER_LEASE * beat
    ):
        wrong["lease_seconds"] = ["must be at least three times heartbeat_interval_seconds"]
    return wrong


_WORDS: Final = {
    "risk_ceiling": [r.value for r in Risk],
    "require_isolation": list(ISOLATION),
    "on_budget_exceeded": ["stop", "ask"],
    "on_approval_timeout": ["cancel", "fail", "escalate"],
    "on_red_base": ["fail", "ask", "continue"],
    "follow_up_tasks": ["never", "draft", "submit"],
}
_INNER: Final = {
    "timeouts": (*TIMEOUTS, *LEASE_CLOCKS),
    "budget": BUDGET,
    "budget_ceiling": BUDGET,
    "approvals": DEFAULTS["approvals"],
}


def _wrong(name: str, value: Any) -> str | None:
    default = DEFAULTS[name]
    if name in _WORDS:
        return None if value in _WORDS[name] else f"must be one of: {', '.join(_WORDS[name])}"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "must be true or false"
    if isinstance(default, list):
        ok = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        return None if ok else "must be a list of texts"
    if name in _INNER:
        return _wrong_inner(name, value)
    return _wrong_number(name, value)


def _wrong_number(name: str, value: Any) -> str | None:
    if name in ("judge_confidence", "autonomy_error_rate"):
        return None if is_number(value) and 0 <= value <= 1 else "must be a number from 0 to 1"
    if value is None and DEFAULTS[name] is None:
        return None
    money = name.endswith("spend_cap_usd_per_day") and is_money(value)
    return None if money or (is_number(value) and 0 < value <= MOST) else "must be a number above 0"


def _wrong_inner(name: str, value: Any) -> str | None:
    if not isinstance(value, dict):
        return "must be an object"
    for key, inner in value.items():
        if key not in _INNER[name]:
            return f"{key} is not known here; known are {', '.join(_INNER[name])}"
        if key == "max_cost_usd":
            if not is_money(inner):
                return f"{key} must be an amount in US dollars"
        elif not isinstance(inner, int) or isinstance(inner, bool) or not 0 <= inner <= 10**9:
            return f"{key} must be a whole number"
    return None


def is_number(value: Any) -> bool:
    """A finite JSON number, and not a boolean in disguise."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_money(value: Any) -> bool:
    """Decimal text or number of 0 to 1,000,000."""
    from runs.domain.payloads import cost_of

    return cost_of(value) is not None
