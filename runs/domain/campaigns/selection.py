"""Which repositories a campaign is over: names and patterns, as somebody wrote them down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from runs.domain.campaigns.limits import MOST_PARTS

#: Lines of a selection.
MOST_LINES: Final = MOST_PARTS
MAX_LINE: Final = 200
_NOT: Final = "!"
_GLOB: Final = "*?["


@dataclass(frozen=True, slots=True)
class Selection:
    """Names in the order in which they are begun, and the lines that no repository answers to."""

    names: tuple[str, ...]
    unmatched: tuple[str, ...]


def select(lines: Sequence[str], known: Iterable[str]) -> Selection:
    """The known names that these lines choose: a name or a pattern (``team-*``) each; ``!pattern`` takes away
    what earlier lines chose. A pattern's names come in alphabetical order."""
    names, chosen, unmatched = sorted(known), dict[str, None](), []
    for line in lines:
        pattern = line.removeprefix(_NOT)
        found = [name for name in names if is_match(pattern, name)]
        if not found:
            unmatched.append(line)
        for name in found:
            if line.startswith(_NOT):
                chosen.pop(name, None)
            else:
                chosen.setdefault(name)
    return Selection(tuple(chosen), tuple(unmatched))


def is_match(pattern: str, name: str) -> bool:
    """Whether the pattern, or plain name, means this repository."""
    if any(sign in pattern for sign in _GLOB):
        return fnmatchcase(name, pattern)
    return pattern == name


def check_selection(lines: object) -> str | None:
    """What is wrong with the lines themselves; None where they can be read."""
    if not isinstance(lines, list) or not lines or len(lines) > MOST_LINES:
        return f"must be a list of 1 to {MOST_LINES} names or patterns"
    ok = all(isinstance(line, str) and line.strip() and len(line) <= MAX_LINE for line in lines)
    return None if ok else f"each must be a name or pattern of 1 to {MAX_LINE} characters"
