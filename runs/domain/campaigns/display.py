"""What people see of a campaign: its state, and what it waits for, whose move it is, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from runs.domain.campaigns.state import CampaignState
from runs.domain.campaigns.words import CampaignStatus, Halt, PartState
from runs.domain.facts import Json
from runs.domain.outgoing import Full
from runs.domain.times import clock
from runs.domain.waiting import Wait

S, P = CampaignStatus, PartState

_DRAWN: Final = {
    S.RUNNING: ("bolt", "busy"),
    S.HALTED: ("blocked", "warn"),
    S.PAUSED: ("pause", "quiet"),
    S.CANCELLING: ("stop", "busy"),
    S.CANCELLED: ("slash", "quiet"),
    S.COMPLETED: ("seal", "ok"),
}
_PARTS_DRAWN: Final = {
    P.WAITING: ("queue", "quiet"),
    P.RUNNING: ("bolt", "busy"),
    P.DELIVERED: ("clock", "quiet"),
    P.DONE: ("seal", "ok"),
    P.FAILED: ("fail", "bad"),
    P.CANCELLED: ("slash", "quiet"),
}
_WAYS_OUT: Final = {
    Halt.FAILURE_RATE: "Retry what failed, or resume: then these failures are accepted.",
    Halt.PARTS_FAILED: "Retry what failed, or resume: then it is completed with these failures.",
    Halt.SPEND_CAP: "Raise the cap and resume, or cancel it.",
}


def campaign_display(status: str) -> Json:
    """``{state, title, icon, tone, step}`` of a campaign, in the shape of a run's display."""
    word = CampaignStatus(status)
    icon, tone = _DRAWN[word]
    return {"state": word.value.lower(), "title": word.label, "icon": icon, "tone": tone, "step": ""}


def part_display(state: str) -> Json:
    """The same of one of its repositories."""
    word = PartState(state)
    icon, tone = _PARTS_DRAWN[word]
    return {"state": word.value, "title": word.label, "icon": icon, "tone": tone, "step": ""}


@dataclass(frozen=True, slots=True)
class Standing:
    """What a campaign's wait depends on: part state → how many, and what paces its pull requests now."""

    counts: Mapping[str, int]
    now: str
    full: Full | None = None

    @property
    def total(self) -> int:
        """How many repositories it is over."""
        return sum(self.counts.values())

    def to_begin(self, opened: int) -> int:
        """Of the open waves, how many are still to be begun: beyond them nothing is."""
        return max(0, opened - (self.total - self.counts[P.WAITING]))


def campaign_waits_for(state: CampaignState, standing: Standing) -> Wait | None:
    """Why it is not over yet; None when it is. ``state`` needs no parts."""
    match state.status:
        case S.PAUSED:
            pause = state.pause or {}
            reason = f": {pause['reason']}" if pause.get("reason") else ""
            sentence = (
                _ended(f"Paused by {pause.get('by')}{reason}") + " It goes on when somebody resumes it."
            )
            return Wait("paused", pause["since"], "", "operator", sentence)
        case S.HALTED:
            halt = state.halt or {}
            sentence = f"{halt['sentence']} {_WAYS_OUT[Halt(halt['reason'])]}"
            return Wait(halt["reason"], halt["since"], "", "operator", sentence)
        case S.CANCELLING:
            cancel, count = state.cancel or {}, standing.counts[P.RUNNING]
            sentence = f"Cancelled by {cancel.get('by')}: {_tasks(count)} still stopping."
            return Wait("stopping", cancel["since"], "", "worker", sentence)
        case S.RUNNING:
            return _going_on(state, standing)
    return None


def _going_on(state: CampaignState, standing: Standing) -> Wait:
    busy, begin = standing.counts[P.RUNNING], standing.to_begin(state.opened)
    words = [_wave(state, standing, busy, begin)]
    until = ""
    if standing.full is not None:
        until = standing.full.until
        more = f" The next may come at {clock(until, now=standing.now)}." if until else ""
        words.append(f"{standing.full.sentence}{more}")
    return Wait("wave", state.updated_at, until, "control_plane", " ".join(words))


def _wave(state: CampaignState, standing: Standing, busy: int, begin: int) -> str:
    if begin and busy and state.limits["max_cost_usd"] is not None:
        cap = Decimal(str(state.limits["max_cost_usd"]))
        return (
            f"Wave {state.wave}: {_tasks(busy)} under way, {begin} to be begun as soon as their budget fits"
            f" under the cap of ${cap:,.2f}."
        )
    if begin:
        return f"Wave {state.wave}: {begin} to be begun now, {_tasks(busy)} under way."
    if not busy and standing.counts[P.DELIVERED]:
        count = standing.counts[P.DELIVERED]
        return f"{count} pull request{' waits' if count == 1 else 's wait'} for a merge."
    if standing.counts[P.WAITING]:
        limit = state.limits["failure_limit_percent"]
        next_one = f"The next wave is begun when all of it has ended, while fewer than {limit} % failed."
        return f"Wave {state.wave}: {_tasks(busy)} under way. {next_one}"
    return f"The last wave: {_tasks(busy)} under way."


def _tasks(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
