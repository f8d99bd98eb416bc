"""Holds: a stop over many runs at once, as rules and words (lifecycle contract, section 9).

A hold in force keeps every run that it covers from being claimed, and with it from opening a pull request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from runs.domain.facts import Json
from runs.domain.payloads import MAX_REASON
from runs.domain.times import clock
from runs.domain.vocabulary import Word

#: Who sets a hold where runs keep failing.
BREAKER: Final = "Circuit breaker"
MAX_VALUE: Final = 100


class HoldScope(Word):
    """What a hold is over."""

    PLATFORM = "platform", "Platform", "Every run of every repository."
    REPOSITORY = "repository", "Repository", "Every run of one repository."
    AGENT_KIND = "agent_kind", "Agent kind", "Every run whose task names this kind of agent."
    LABEL = "label", "Label", "Every run whose task has this label."
    CAMPAIGN = "campaign", "Campaign", "Every run of one campaign, while it is paused."


#: Those that people set. A campaign is paused and resumed, and its hold comes and goes with that.
SET_BY_PEOPLE: Final = tuple(scope for scope in HoldScope if scope is not HoldScope.CAMPAIGN)


@dataclass(frozen=True, slots=True)
class Covered:
    """What of a run holds and caps look at: its task's repository, agent kind, labels, submitter and
    campaign."""

    repository_id: str
    agent_kind: str = ""
    labels: frozenset[str] = frozenset()
    submitter_id: str = ""
    campaign_id: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold in force. ``since`` and ``until`` are stamps, ``until`` is "" where it has no end."""

    id: str
    scope: str
    target: str  #: id of the repository or campaign, agent kind or label; "" for the platform
    name: str  #: the target as people know it
    reason: str
    by: str
    since: str
    until: str = ""
    cancels: bool = False

    def covers(self, run: Covered) -> bool:
        """Whether it stops this run."""
        match self.scope:
            case HoldScope.PLATFORM:
                return True
            case HoldScope.REPOSITORY:
                return self.target == run.repository_id
            case HoldScope.AGENT_KIND:
                return self.target == run.agent_kind
            case HoldScope.CAMPAIGN:
                return self.target == run.campaign_id
            case _:
                return self.target in run.labels

    def covers_repository(self, repository_id: str) -> bool:
        """Whether it stops every run of this repository."""
        return self.scope in (HoldScope.PLATFORM, HoldScope.REPOSITORY) and self.covers(
            Covered(repository_id)
        )

    @property
    def subject(self) -> str:
        """What it is over, in words: ``Repository clock``."""
        if self.scope == HoldScope.PLATFORM:
            return "Everything"
        return f"{HoldScope(self.scope).label} {self.name}"

    def sentence(self, *, now: str) -> str:
        """``Repository clock is held by carol until 12:00: the forge is down.``"""
        until = f" until {clock(self.until, now=now)}" if self.until else ""
        return f"{self.subject} is held by {self.by}{until}: {_ended(self.reason)}"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def longest(holds: Iterable[Hold], run: Covered) -> Hold | None:
    """Of the holds that cover this run the one that stands longest: until it ends nothing moves."""
    covering = [hold for hold in holds if hold.covers(run)]
    return max(covering, key=lambda hold: (not hold.until, hold.until), default=None)


def problems(*, scope: str, target: str, reason: str) -> dict[str, list[str]]:
    """What is wrong with a hold that somebody wants, by field; {} when it may be set."""
    wrong: dict[str, list[str]] = {}
    if scope not in SET_BY_PEOPLE:
        wrong["scope"] = [f"must be one of: {', '.join(SET_BY_PEOPLE)}"]
    elif (scope == HoldScope.PLATFORM) != (not target):
        wrong["value"] = ["is not for the platform" if target else "is required: what is to be held"]
    elif len(target) > MAX_VALUE:
        wrong["value"] = [f"must have at most {MAX_VALUE} characters"]
    if not reason or len(reason) > MAX_REASON:
        wrong["reason"] = [f"say why, in 1 to {MAX_REASON} characters"]
    return wrong


def set_facts(hold: Hold) -> Json:
    """What the domain event about a hold says."""
    names = ("id", "scope", "target", "name", "reason", "by", "since", "until", "cancels")
    automatic = {"automatic": hold.by == BREAKER}
    return automatic | {f"hold_{name}" if name == "id" else name: getattr(hold, name) for name in names}
