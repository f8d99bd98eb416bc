"""A sentence about an event, and the words that sentences share."""

from __future__ import annotations

from dataclasses import dataclass

from runs.domain.facts import Json
from runs.domain.vocabulary import FailureCategory

KEY, NORMAL, DETAIL = 3, 2, 1


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence without its full stop. ``artifact_id`` is what can be read about it."""

    sentence: str
    tone: str = "quiet"
    icon: str = "dot"
    importance: int = NORMAL
    detail: str = ""
    artifact_id: str = ""


def plural(count: int, one: str, many: str = "") -> str:
    """``1 file``, ``3 files``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def failure_words(failure: Json) -> str:
    """The summary of a failure, or its category in words."""
    if failure.get("summary"):
        return short(str(failure["summary"])).rstrip(".")
    category = failure.get("category") or FailureCategory.UNKNOWN
    return FailureCategory(category).label.lower()


def listed(names: list[str]) -> str:
    """``ruff``, ``ruff and pytest``, ``ruff, pytest and 3 more``."""
    if len(names) <= 1:
        return "".join(names)
    if len(names) <= 3:  # noqa: PLR2004
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"


def short(text: str, limit: int = 160) -> str:
    """The first line, cut at a word where it is long."""
    line = next((part.strip() for part in str(text).splitlines() if part.strip()), "")
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0] + "…"
