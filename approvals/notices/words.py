"""What a notice says and when it goes out. Pure.

Nothing of an agent's own words gets in: titles are people's, failures are named by category and reason. So
there is no markup to trust in a mail, and no secret but one typed into a title, which is masked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from runs.domain.secrets import mask
from runs.domain.vocabulary import FailureCategory, Gate, Word


class Kind(Word):
    """What people are told of, and nothing else (lifecycle contract, section 15)."""

    NEEDS_REVIEW = "needs_review", "Needs review"
    BLOCKED = "blocked", "Blocked"
    FAILED = "failed", "Failed"
    COMPLETED = "completed", "Completed"


class Pace(Word):
    """When a person gets mail."""

    NOW = "now", "At once", "Within a minute or so; what happens together comes together."
    DAILY = "daily", "Once a day", "In the morning, UTC."
    NEVER = "never", "Not by mail", "It is in the inbox all the same."


KINDS: Final = [(kind.value, kind.label) for kind in Kind]
PACES: Final = [(pace.value, pace.label) for pace in Pace]

#: How long the first notice waits for others before a letter is made.
GATHER: Final = timedelta(seconds=45)
#: The least time between two letters to one receiver.
QUIET: Final = timedelta(minutes=3)
#: The hour, UTC, of daily letters.
MORNING: Final = 7
#: How long notices of one likeness are shown as one.
ALIKE: Final = timedelta(hours=1)
#: Notices that a letter spells out, of each likeness and in all; the rest is counted.
SPELLED_ALIKE: Final = 3
SPELLED: Final = 30
MAX_TITLE: Final = 120

KIND_OF_GATE: Final = {
    Gate.PLAN: Kind.NEEDS_REVIEW,
    Gate.PATCH: Kind.NEEDS_REVIEW,
    Gate.TOOL_CALL: Kind.NEEDS_REVIEW,
    Gate.BUDGET: Kind.BLOCKED,
    Gate.QUESTION: Kind.BLOCKED,
}
_GATE_SENTENCES: Final = {
    Gate.PLAN: "The plan waits for a decision.",
    Gate.PATCH: "The patch waits for a decision.",
    Gate.TOOL_CALL: "The agent waits for leave to make a call.",
    Gate.BUDGET: "The budget is spent. Raise it, or let the run end.",
    Gate.QUESTION: "The agent asks a question and waits for the answer.",
}


def goes_out_at(pace: Pace, now: datetime) -> datetime | None:
    """From when on a notice of this pace may be put into a letter; None for never."""
    if pace is Pace.NEVER:
        return None
    if pace is Pace.NOW:
        return now
    morning = now.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    return morning if morning > now else morning + timedelta(days=1)


def one_line(text: str, limit: int = MAX_TITLE) -> str:
    """Text of one line that shows what it is: no control or invisible characters, no secret."""
    plain = "".join(" " if unicodedata.category(c) in _HIDDEN else c for c in text)
    short = mask(" ".join(plain.split()))
    return short if len(short) <= limit else f"{short[: limit - 1]}…"


_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def gate_sentence(gate: Gate, due_at: datetime | None) -> str:
    """What waits at a gate, and until when."""
    said = _GATE_SENTENCES[gate]
    return f"{said} Due {moment_words(due_at)}." if due_at else said


def moment_words(at: datetime) -> str:
    """``3 Dec 2026 14:00 UTC``."""
    return f"{at.day} {at:%b %Y %H:%M} UTC"


def failure_words(facts: Mapping[str, Any]) -> tuple[str, str]:
    """(sentence, likeness) of a task that failed: category and reason, never what the agent said of it."""
    failure, expiration = facts.get("failure") or {}, facts.get("expiration") or {}
    if failure:
        label = FailureCategory(failure["category"]).label
        reason = one_line(str(failure.get("reason") or ""), 80).replace("_", " ")
        said = f"{label}: {reason}." if reason else f"{label}."
        return said, f"{failure['category']} {failure.get('reason') or ''}".strip()
    scope = str(expiration.get("scope") or "its")
    return f"It expired: the {scope} clock ran out.", f"expired {scope}"


# --- letters ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One notice in a letter; ``url`` is a whole address."""

    kind: Kind
    title: str
    sentence: str
    why: str
    url: str
    likeness: str = ""


def subject_of(lines: Sequence[Line]) -> str:
    """The subject: the one thing, or how many of each kind."""
    if len(lines) == 1:
        return f"{lines[0].kind.label}: {lines[0].title}"
    counts = {kind: sum(line.kind is kind for line in lines) for kind in Kind}
    return ", ".join(f"{count} {kind.label.lower()}" for kind, count in counts.items() if count)


def body_of(lines: Sequence[Line], *, inbox: str, settings: str = "") -> str:
    """The text of a letter: each kind, what is alike once, why it came, and where to go."""
    parts = [_one(lines[0])] if len(lines) == 1 else [_kind(kind, lines) for kind in Kind]
    foot = f"All of it: {inbox}\nLinks open a page; nothing is decided by following one."
    if settings:
        foot += f"\nWhat you get by mail, and when: {settings}"
    return "\n\n".join([*filter(None, parts), f"-- \n{foot}"]) + "\n"


def _one(line: Line) -> str:
    return f"{line.title}\n{line.sentence}\n{line.url}\n\nWhy you: {line.why}"


def _kind(kind: Kind, lines: Sequence[Line]) -> str:
    mine = [line for line in lines if line.kind is kind]
    groups: dict[str, list[Line]] = {}
    for number, line in enumerate(mine):
        groups.setdefault(line.likeness or f"\0{number}", []).append(line)
    if not mine:
        return ""
    shown = list(groups.values())[:SPELLED]
    texts = [_group(group) for group in shown]
    left = len(mine) - sum(map(len, shown))
    more = [f"… and {left} more"] if left else []
    return "\n\n".join([f"{kind.label.upper()} ({len(mine)})", *texts, *more])


def _group(group: Sequence[Line]) -> str:
    if len(group) == 1:
        return _indented(_one(group[0]).replace("\n\nWhy", "\nWhy"))
    first, rest = group[:SPELLED_ALIKE], len(group) - SPELLED_ALIKE
    titles = "\n".join(f"- {line.title}\n  {line.url}" for line in first)
    more = f"\n- and {rest} more" if rest > 0 else ""
    return _indented(f"{len(group)} times: {group[0].sentence}\n{titles}{more}\nWhy you: {group[0].why}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())
