"""A task's contract: its fields, what is wrong with one, and why a policy rejects it
(lifecycle contract, section 2)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, Final

from runs.domain.agents import check_agent
from runs.domain.facts import Json
from runs.domain.policy import BEATS_PER_LEASE, BUDGET, LEASE_CLOCKS, TIMEOUTS, is_money
from runs.domain.vocabulary import CompletionMode, Risk, RunStatus

MAX_TITLE: Final = 500
MAX_TEXTS: Final = 200
MAX_ITEMS: Final = 50
#: Every clock that a contract may shorten. ``command`` is the worker's own.
CLOCKS: Final = (*TIMEOUTS, *LEASE_CLOCKS, "command")

DEFAULTS: Final[Json] = {
    "title": "",
    "repository": "",
    "base_branch": "",
    "working_directory": "",
    "instruction": "",
    "completion_mode": CompletionMode.PR_CREATED.value,
    "risk_level": Risk.LOW.value,
    "setup": [],
    "verifiers": [],
    "allowed_paths": [],
    "forbidden_paths": [],
    "plan_approval": "never",
    "auto_pr": False,
    "agent": {"kind": "script", "command": ""},
    "priority": 5,
    "labels": [],
    "needs": [],
    "budget": {},
    "timeouts": {},
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,99}")
_BRANCH = re.compile(r"(?!-)(?!.*(\.\.|//|@\{))[A-Za-z0-9._/-]{1,200}(?<![./])")


def normalise(data: Mapping[str, Any]) -> Json:
    """The contract with defaults laid under it; fields that are not of the contract are left out."""
    given = {name: data[name] for name in DEFAULTS if data.get(name) is not None}
    return {**DEFAULTS, **given}


def check_contract(contract: Mapping[str, Any]) -> dict[str, list[str]]:
    """Every field that is not well-formed, with what to do."""
    wrong: dict[str, list[str]] = {}

    def say(name: str, message: str | None) -> None:
        if message:
            wrong.setdefault(name, []).append(message)

    say("title", _text(contract["title"], MAX_TITLE))
    say("instruction", _text(contract["instruction"], 100_000))
    say("repository", _text(contract["repository"], 200))
    say("base_branch", _branch(contract["base_branch"]))
    say("working_directory", _folder(contract["working_directory"]))
    say("completion_mode", _one_of(contract["completion_mode"], [*CompletionMode]))
    say("risk_level", _one_of(contract["risk_level"], [*Risk]))
    say("plan_approval", _one_of(contract["plan_approval"], ["required", "never"]))
    say("auto_pr", None if isinstance(contract["auto_pr"], bool) else "must be true or false")
    say("priority", _integer(contract["priority"], 0, 9))
    for name in ("setup", "allowed_paths", "forbidden_paths"):
        say(name, _texts(contract[name], 2_000))
    for name in ("labels", "needs"):
        say(name, _labels(contract[name]))
    say("verifiers", _verifiers(contract["verifiers"]))
    say("agent", check_agent(contract["agent"]))
    say("budget", _limits(contract["budget"], BUDGET))
    say("timeouts", _timeouts(contract["timeouts"]))
    return wrong


def _text(value: Any, limit: int) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    if not value.strip():
        return "is required"
    return f"must have at most {limit} characters" if len(value) > limit else None


def _branch(value: Any) -> str | None:
    if value == "":
        return None
    ok = isinstance(value, str) and _BRANCH.fullmatch(value) and not value.endswith(".lock")
    return None if ok else "must be a branch name that git accepts"


def _folder(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    ok = not value.startswith("/") and ".." not in value.split("/") and "\\" not in value
    return None if ok else "must be a folder inside the repository, without .. in it"


def _one_of(value: Any, options: list[Any]) -> str | None:
    words = [str(option) for option in options]
    return None if isinstance(value, str) and value in words else f"must be one of: {', '.join(words)}"


def _integer(value: Any, low: int, high: int) -> str | None:
    ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return None if ok else f"must be a whole number from {low} to {high}"


def _texts(value: Any, limit: int) -> str | None:
    if not isinstance(value, list) or len(value) > MAX_TEXTS:
        return f"must be a list of at most {MAX_TEXTS} texts"
    ok = all(isinstance(item, str) and item.strip() and len(item) <= limit for item in value)
    return None if ok else f"each must be text of 1 to {limit} characters"


def _labels(value: Any) -> str | None:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        return f"must be a list of at most {MAX_ITEMS} labels"
    ok = all(isinstance(item, str) and _NAME.fullmatch(item) for item in value)
    return None if ok else "each must be 1 to 100 of A-Z a-z 0-9 . _ / : -"


def _verifiers(value: Any) -> str | None:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        return f"must be a list of at most {MAX_ITEMS} verifiers"
    names = []
    for item in value:
        command = item.get("command") if isinstance(item, dict) else None
        if not isinstance(command, str) or not command.strip():
            return "each must be an object with name, command and timeout_seconds"
        name = item.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return "each name must be 1 to 100 of A-Z a-z 0-9 . _ / : -"
        if message := _integer(item.get("timeout_seconds", 600), 1, 86_400):
            return f"timeout_seconds of {name} {message}"
        names.append(name)
    return "names must differ" if len(set(names)) < len(names) else None


def _timeouts(value: Any) -> str | None:
    if message := _limits(value, CLOCKS):
        return message
    short = [name for name in LEASE_CLOCKS if value.get(name, BEATS_PER_LEASE) < BEATS_PER_LEASE]
    return f"{short[0]} must be at least {BEATS_PER_LEASE}: a heartbeat a second" if short else None


def _limits(value: Any, known: Collection[str]) -> str | None:
    if not isinstance(value, dict):
        return "must be an object"
    for name, limit in value.items():
        if name not in known:
            return f"{name} is not known here; known are {', '.join(known)}"
        if name == "max_cost_usd":
            if not is_money(limit):
                return f"{name} must be an amount in US dollars"
        elif message := _integer(limit, 0, 10**9):
            return f"{name} {message}"
    return None


# --- against the policy ------------------------------------------------------------------------


def rejection_reasons(contract: Mapping[str, Any], policy: Mapping[str, Any]) -> list[str]:
    """Every reason why this policy does not take the contract; all at once. Empty: accepted."""
    reasons = []
    if Risk(contract["risk_level"]).rank > Risk(policy["risk_ceiling"]).rank:
        reasons.append(
            f"Risk {contract['risk_level']} is above what the repository allows ({policy['risk_ceiling']})."
        )
    for name, ceiling in policy["budget_ceiling"].items():
        asked = contract["budget"].get(name)
        if asked is not None and Decimal(str(asked)) > Decimal(str(ceiling)):
            reasons.append(f"The budget's {name} of {asked} is above the ceiling of {ceiling}.")
    for name, seconds in contract["timeouts"].items():
        limit = _policy_seconds(name, policy)
        if limit is not None and seconds > limit:
            reasons.append(f"The {name} timeout of {seconds} s is longer than the policy's {limit} s.")
    own = {v["name"] for v in contract["verifiers"]}
    analysis = contract["completion_mode"] == CompletionMode.ANALYSIS_REPORT_CREATED
    if not analysis:
        if missing := [name for name in policy["required_verifiers"] if name not in own]:
            reasons.append(f"Required verifiers are missing: {', '.join(missing)}.")
        if not own:
            reasons.append("A task that changes code needs at least one verifier.")
    return reasons


def effective_budget(contract: Mapping[str, Any], policy: Mapping[str, Any]) -> Json:
    """Limits in force: the contract's, else the policy's, never above its ceilings."""
    limits = {**policy["budget"], **contract["budget"]}
    for name, ceiling in policy["budget_ceiling"].items():
        if Decimal(str(limits[name])) > Decimal(str(ceiling)):
            limits[name] = ceiling
    return limits


def timeout_seconds(scope: str, contract: Mapping[str, Any], policy: Mapping[str, Any]) -> int:
    """The clock of ``scope`` in seconds: the contract's, never longer than the policy's."""
    limit = _policy_seconds(scope, policy)
    if limit is None:
        raise KeyError(scope)
    return min(limit, int(contract["timeouts"].get(scope, limit)))


def _policy_seconds(scope: str, policy: Mapping[str, Any]) -> int | None:
    """The policy's own clock of ``scope``; None where it has none."""
    limits = [policy["timeouts"][scope]] if scope in policy["timeouts"] else []
    if scope in LEASE_CLOCKS:
        limits.append(policy["lease_seconds"])
    return int(min(limits)) if limits else None


def lease_seconds(status: str, contract: Mapping[str, Any], policy: Mapping[str, Any]) -> int:
    """How long a lease lives without a heartbeat while its run is in ``status``."""
    return timeout_seconds("lease" if status == RunStatus.LEASED else "heartbeat", contract, policy)


def heartbeat_seconds(contract: Mapping[str, Any], policy: Mapping[str, Any]) -> float:
    """How often a worker says that it lives: the policy's interval, and three times a lease at least."""
    shortest = min(timeout_seconds(scope, contract, policy) for scope in LEASE_CLOCKS)
    return min(float(policy["heartbeat_interval_seconds"]), shortest / BEATS_PER_LEASE)


def needs_plan_approval(contract: Mapping[str, Any], effective_risk: str) -> bool:
    """High and critical always need it; else as the contract says."""
    return contract["plan_approval"] == "required" or Risk(effective_risk).rank >= Risk.HIGH.rank
