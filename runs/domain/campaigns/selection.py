"""Which repositories a campaign is over: names and patterns, as somebody wrote them down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Final

from runs.domain.campaigns.limits import MOST_PARTS

#: Lines of a selection.
MOST_LINES: Final = MOST_PARTS
#: Of them, those that are compared with every name there is.
MOST_PATTERNS: Final = 100
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
    plain = set(names)
    for line in lines:
        pattern = line.removeprefix(_NOT)
        if is_pattern(pattern):
            fits = re.compile(translate(pattern)).match
            found = [name for name in names if fits(name)]
        else:
            found = [pattern] if pattern in plain else []
        if not found:
            unmatched.append(line)
        for name in found:
            if line.startswith(_NOT):
                chosen.pop(name, None)
            else:
                chosen.setdefault(name)
    return Selection(tuple(chosen), tuple(unmatched))


def is_pattern(line: str) -> bool:
    """Whether the line means names by a pattern, and not one by itself."""
    return any(sign in line for sign in _GLOB)


def check_selection(lines: object) -> str | None:
    """What is wrong with the lines themselves; None where they can be read."""
    if not isinstance(lines, list) or not lines or len(lines) > MOST_LINES:
        return f"must be a list of 1 to {MOST_LINES} names or patterns"
    if not all(isinstance(line, str) and line.strip() and len(line) <= MAX_LINE for line in lines):
        return f"each must be a name or pattern of 1 to {MAX_LINE} characters"
    if sum(map(is_pattern, lines)) > MOST_PATTERNS:
        return f"must hold at most {MOST_PATTERNS} patterns; the rest must be names"
    return None
