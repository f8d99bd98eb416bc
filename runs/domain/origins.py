"""Where each value of a policy in force comes from, entry by entry (lifecycle contract, section 16). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runs.domain.policy import DEFAULTS, Effective, Level

#: Fields in which the nearest level speaks alone, whatever those above it say.
_NEAREST: Final = frozenset(
    {"budget", "retry_base_seconds", "retry_max_seconds", "heartbeat_interval_seconds", "lease_seconds"}
)


@dataclass(frozen=True, slots=True)
class Origin:
    """One value in force, of the field ``name``; ``entry`` is its name within it, "" where there is none.

    ``given_by`` are the levels that it comes from, none of them for a built-in default; ``overruled`` those
    that say something laxer, or farther away, with what they say.
    """

    name: str
    entry: str
    value: Any
    given_by: list[Level] = field(default_factory=list)
    overruled: list[tuple[Level, Any]] = field(default_factory=list)


def origins_of(policy: Effective) -> Iterator[Origin]:
    """Every value in force, in the order of the fields."""
    for name, default in DEFAULTS.items():
        value = policy.values[name]
        if isinstance(default, dict) and value:
            for entry, inner in value.items():
                said = [
                    (level, level.values[name][entry])
                    for level in policy.levels
                    if entry in level.values.get(name, {})
                ]
                yield _origin(name, entry, inner, said)
        else:
            said = [(level, level.values[name]) for level in policy.levels if name in level.values]
            yield _origin(name, "", value, said)


def _origin(name: str, entry: str, value: Any, said: Sequence[tuple[Level, Any]]) -> Origin:
    if isinstance(DEFAULTS[name], list):  # each level adds to the list
        return Origin(name, entry, value, [level for level, words in said if words])
    if name in _NEAREST:
        return Origin(name, entry, value, [level for level, _ in said[-1:]], list(said[:-1]))
    given_by = [level for level, words in said if words == value]
    return Origin(name, entry, value, given_by, [(level, words) for level, words in said if words != value])


def sentence_of(level: Level) -> str:
    """How a level came to hold, in words: ``strict (pattern acme/*)``."""
    how = {"own": "its own", "pattern": f"pattern {level.pattern}", "inherited": "inherited"}[level.via]
    return f"{level.name} ({how})"
