"""What may happen to a run of the past, how often, and how long each part of it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runs.domain.facts import Json


@dataclass(frozen=True, slots=True)
class Place:
    """A repository of the past: its name, how much of the work it gets, what a model costs there."""

    name: str
    weight: int
    dollars: float


PLACES: Final = (Place("billing", 5, 0.11), Place("storefront", 3, 0.06), Place("reports", 2, 0.03))

#: (title, folder it touches, agent, label). The folder takes a note, so that each patch is real.
REQUESTS: Final = (
    ("Replace datetime.utcnow() by an aware moment", "clock", "script", "migration"),
    ("Give every public function a docstring", "clock", "command", "docs"),
    ("Rename pad to zero_padded", "clock", "script", "rename"),
    ("Write headings with f-strings", "clock", "script", "style"),
    ("Index the agenda by start time", "schema", "script", "schema"),
    ("Close files that are opened", "clock", "command", "bug"),
    ("Type the stopwatch in full", "clock", "command", "types"),
    ("Sort imports", "codemods", "script", "style"),
    ("Tell how long an entry lasts", "clock", "command", "feature"),
    ("Test the agenda across midnight", "tests", "command", "tests"),
)


def failure(category: str, reason: str, summary: str) -> Json:
    """As a worker reports it."""
    return {"category": category, "reason": reason, "summary": summary}


FAILURES: Final = (
    failure("TOOL_FAILED", "agent_failed", "The agent ended with status 1: no such option --fix-all."),
    failure(
        "VERIFICATION_FAILED", "checks_failed", "test_agenda fails: 1 of 14, AssertionError in test_midnight."
    ),
    failure(
        "PLANNING_FAILED", "no_plan", "No plan was found: the instruction names a module that is not there."
    ),
    failure("INFRASTRUCTURE", "sandbox_lost", "The sandbox was gone: no space left on the device."),
    failure("POLICY_DENIED", "path_denied", "The agent wrote outside the paths that the contract allows."),
)


@dataclass(frozen=True, slots=True)
class Story:
    """One way that a run can go, and how many of a hundred go it."""

    name: str
    weight: int
    reviewed: bool = False
    checks_fail: int = 0
    judge_sends_back: int = 0
    ends: str = "completed"  #: completed, failed, rejected, cancelled or lost


STORIES: Final = (
    Story("by itself", 30),
    Story("after a review", 22, reviewed=True),
    Story("repaired once", 14, checks_fail=1),
    Story("repaired twice", 4, checks_fail=2),
    Story("sent back by the judge", 7, judge_sends_back=1, reviewed=True),
    Story("failed", 11, ends="failed"),
    Story("rejected", 4, reviewed=True, ends="rejected"),
    Story("cancelled", 5, ends="cancelled"),
    Story("lost", 3, ends="lost"),
)
#: Runs of one working day, by weekday from Monday on.
PER_DAY: Final = (7, 8, 8, 7, 5, 1, 1)
