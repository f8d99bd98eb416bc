"""What follows for a campaign from what became of its tasks, and what people may do with it. Pure.

One step at a time: the service asks for the next one, writes it, and asks again until nothing follows. So a
step that was lost in a crash is decided again from the same log, and none is taken twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from runs.domain.campaigns.limits import CHANGEABLE, check_limits, wave_size
from runs.domain.campaigns.state import CampaignState, Part
from runs.domain.campaigns.words import CampaignEv, CampaignStatus, Completion, Halt, PartState
from runs.domain.errors import Invalid, NotAllowedNow
from runs.domain.facts import CONTROL_PLANE, POLICY, Actor, Json
from runs.domain.vocabulary import PullRequestState, TaskStatus

S, P, E = CampaignStatus, PartState, CampaignEv
#: Tasks that one step makes: its transaction stays short, and a kill loses little.
MOST_STARTS: Final = 10
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a part's present task. ``cost_usd`` is of all its runs; ``merge`` is a pull request's
    state, "" where none was opened."""

    task_status: str
    merge: str = ""
    reason: str = ""
    cost_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Look:
    """What a step looks at beside the log: begun parts' tasks, by repository id, and repositories gone."""

    seen: Mapping[str, Seen] = field(default_factory=dict)
    archived: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to append."""

    event: CampaignEv
    payload: Json = field(default_factory=dict)
    facts: Json = field(default_factory=dict)
    actor: Actor = CONTROL_PLANE


def next_step(state: CampaignState, look: Look) -> list[Draft]:
    """The events that follow now; [] when the campaign stands as it should."""
    if state.is_over:
        return []
    if news := _news(state, look):
        return news
    if state.status == S.CANCELLING:
        busy = any(part.is_begun for part in state.parts.values())
        return [] if busy else [Draft(E.CAMPAIGN_CANCELLED)]
    if state.status != S.RUNNING:
        return []
    return _halted(state) or _completed(state) or _widened(state) or _started(state, look)


# --- what became of tasks -------------------------------------------------------------------------


def _news(state: CampaignState, look: Look) -> list[Draft]:
    drafts = []
    for pk, seen in look.seen.items():
        if draft := _of_part(state, state.parts[pk], seen):
            drafts.append(draft)
    return drafts


def _of_part(state: CampaignState, part: Part, seen: Seen) -> Draft | None:
    """The event that tells of a part's task or pull request; None while there is nothing new."""
    if part.state == P.DELIVERED:
        # Its task was told of, with its cost; only the pull request is still open.
        return _merged(part, seen, cost=Decimal(0))
    outcome = _OUTCOMES.get(seen.task_status) if part.is_begun else None
    if outcome is P.DONE and state.limits["completion"] == Completion.PULL_REQUESTS_MERGED:
        return _merged(part, seen, cost=seen.cost_usd) or _delivered(part, seen)
    return _ended(part, outcome, cost=seen.cost_usd, reason=seen.reason) if outcome else None


_OUTCOMES: Final[dict[str, PartState]] = {
    TaskStatus.COMPLETED: P.DONE,
    TaskStatus.FAILED: P.FAILED,
    TaskStatus.REJECTED: P.FAILED,
    TaskStatus.CANCELLED: P.CANCELLED,
}


def _merged(part: Part, seen: Seen, *, cost: Decimal) -> Draft | None:
    if seen.merge == PullRequestState.MERGED:
        return _ended(part, P.DONE, cost=cost)
    if seen.merge == PullRequestState.CLOSED:
        return _ended(part, P.FAILED, cost=cost, reason="Its pull request was closed without a merge.")
    return None


def _ended(part: Part, outcome: PartState, *, cost: Decimal, reason: str = "") -> Draft:
    facts = {**_which(part), "outcome": outcome.value, "reason": reason, "cost_usd": str(cost)}
    return Draft(E.PART_ENDED, facts=facts)


def _delivered(part: Part, seen: Seen) -> Draft:
    return Draft(E.PART_DELIVERED, facts={**_which(part), "cost_usd": str(seen.cost_usd)})


def _which(part: Part) -> Json:
    return {"repository_id": part.repository_id, "task_id": part.task_id, "tries": part.tries}


def not_startable(part: Part, reason: str) -> Draft:
    """Its task could not be made: told as a failure, so that the campaign goes on or stops by its limit."""
    return _ended(part, P.FAILED, cost=Decimal(0), reason=reason)


# --- going on -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Failed parts among those that may have been begun; cancelled and accepted ones do not count."""

    failed: int
    counted: int

    @property
    def percent(self) -> int:
        """Rounded down."""
        return self.failed * _PERCENT // self.counted if self.counted else 0

    def reaches(self, limit_percent: int) -> bool:
        """Whether the limit is reached even if everything else that is open succeeds."""
        return bool(self.failed) and self.failed * _PERCENT >= limit_percent * self.counted


def failure_rate(state: CampaignState) -> FailureRate:
    """Of the waves that are open."""
    opened = [part for part in state.parts.values() if part.position <= state.opened]
    counted = [part for part in opened if part.state != P.CANCELLED and not part.accepted]
    return FailureRate(sum(part.counts_as_failed for part in counted), len(counted))


def _halted(state: CampaignState) -> list[Draft]:
    rate, limit = failure_rate(state), state.limits["failure_limit_percent"]
    if any(part.state == P.WAITING for part in state.parts.values()):
        if not rate.reaches(limit):
            return []
        sentence = f"{rate.failed} of {rate.counted} failed; the limit is {limit} %."
        return [_halt(Halt.FAILURE_RATE, sentence, failed=rate.failed, counted=rate.counted)]
    failed = sum(part.counts_as_failed for part in state.parts.values())
    if not failed or _in_hand(state):
        return []
    sentence = f"Everything has ended, and {failed} of {len(state.parts)} failed."
    return [_halt(Halt.PARTS_FAILED, sentence, failed=failed)]


def _halt(why: Halt, sentence: str, **facts: Any) -> Draft:
    return Draft(E.CAMPAIGN_HALTED, facts={"reason": why.value, "sentence": sentence, **facts}, actor=POLICY)


def _in_hand(state: CampaignState) -> bool:
    return any(part.state in (P.RUNNING, P.DELIVERED) for part in state.parts.values())


def _completed(state: CampaignState) -> list[Draft]:
    unfinished = (P.WAITING, P.RUNNING, P.DELIVERED)
    if any(part.state in unfinished for part in state.parts.values()):
        return []
    return [Draft(E.CAMPAIGN_COMPLETED, facts={"counts": state.counts()})]


def _widened(state: CampaignState) -> list[Draft]:
    """The next wave, once everything of those before has ended. Below the limit: else it would be halted."""
    opened = [part for part in state.parts.values() if part.position <= state.opened]
    if state.opened >= len(state.parts) or any(part.state in (P.WAITING, P.RUNNING) for part in opened):
        return []
    rate, number = failure_rate(state), state.wave + 1
    wide = min(len(state.parts), state.opened + wave_size(state.limits, number))
    facts = {"wave": number, "opened": wide, "failed": rate.failed, "counted": rate.counted}
    return [Draft(E.WAVE_OPENED, facts=facts, actor=POLICY)]


def _started(state: CampaignState, look: Look) -> list[Draft]:
    ready = [p for p in state.parts.values() if p.position <= state.opened and p.state == P.WAITING]
    if gone := [part for part in ready if part.repository_id in look.archived]:
        why = "The repository is archived."
        return [_ended(part, P.CANCELLED, cost=Decimal(0), reason=why) for part in gone]
    affordable = room_for(state, look)
    chosen = ready[: MOST_STARTS if affordable is None else min(MOST_STARTS, affordable)]
    if ready and not chosen and not any(part.is_begun for part in state.parts.values()):
        return [_out_of_money(state, look)]
    return [
        Draft(E.PART_STARTED, facts={"repository_id": p.repository_id, "wave": state.wave}) for p in chosen
    ]


def _out_of_money(state: CampaignState, look: Look) -> Draft:
    cap, each, spent = state.limits["max_cost_usd"], _each(state), committed(state, look)
    sentence = f"${spent:,.2f} of ${Decimal(str(cap)):,.2f} are spent; one more task may cost ${each:,.2f}."
    return _halt(Halt.SPEND_CAP, sentence, spent_usd=str(spent), max_cost_usd=str(cap), each_usd=str(each))


def committed(state: CampaignState, look: Look) -> Decimal:
    """What was spent, and what tasks under way may still spend, US dollars."""
    total = sum((Decimal(part.cost_usd) for part in state.parts.values()), Decimal(0))
    if state.limits["max_cost_usd"] is None:
        return total
    under_way = [look.seen.get(part.repository_id) for part in state.parts.values() if part.is_begun]
    each = _each(state)
    return total + sum((max(each, seen.cost_usd if seen else Decimal(0)) for seen in under_way), Decimal(0))


def room_for(state: CampaignState, look: Look) -> int | None:
    """For how many more tasks the cap has room, each with its whole budget; None where there is no cap."""
    cap = state.limits["max_cost_usd"]
    if cap is None:
        return None
    each, left = _each(state), Decimal(str(cap)) - committed(state, look)
    return max(0, int(left // each)) if each else len(state.parts)


def _each(state: CampaignState) -> Decimal:
    return Decimal(str(state.contract["budget"].get("max_cost_usd") or 0))


# --- what people want -----------------------------------------------------------------------------


def pause(state: CampaignState, *, reason: str, by: Actor) -> list[Draft]:
    """Stop everything until somebody resumes it; [] where it is paused already."""
    if state.status == S.PAUSED:
        return []
    _require(state, S.RUNNING, S.HALTED, what="paused")
    return [Draft(E.CAMPAIGN_PAUSED, payload={"reason": reason}, actor=by)]


def resume(state: CampaignState, *, by: Actor) -> list[Draft]:
    """Go on; after it stopped by itself in spite of what failed. [] where it runs already."""
    if state.status == S.RUNNING:
        return []
    _require(state, S.PAUSED, S.HALTED, what="resumed")
    accepted: Sequence[str] = ()
    if state.status == S.HALTED:
        accepted = [pk for pk, part in state.parts.items() if part.counts_as_failed]
    return [Draft(E.CAMPAIGN_RESUMED, facts={"accepted": list(accepted)}, actor=by)]


def retry_failed(state: CampaignState, *, by: Actor) -> list[Draft]:
    """Begin every failed part again. Raises ``NotAllowedNow`` where none failed."""
    _require(state, S.RUNNING, S.HALTED, S.PAUSED, what="retried")
    failed = [pk for pk, part in state.parts.items() if part.state == P.FAILED]
    if not failed:
        raise NotAllowedNow("None of its repositories has failed; there is nothing to retry.")
    return [Draft(E.PARTS_RETRIED, facts={"repositories": failed}, actor=by)]


def change(state: CampaignState, limits: Mapping[str, Any], *, by: Actor) -> list[Draft]:
    """Change limits of an unfinished campaign; [] where nothing differs. Raises ``Invalid``."""
    _require(state, S.RUNNING, S.HALTED, S.PAUSED, what="changed")
    _require_changeable(limits)
    wanted = {**state.limits, **limits}
    if wrong := check_limits(wanted, state.contract):
        raise Invalid(wrong)
    differing = {name: value for name, value in limits.items() if state.limits[name] != value}
    return [Draft(E.CAMPAIGN_CHANGED, payload={"limits": differing}, actor=by)] if differing else []


def _require_changeable(names: Collection[str]) -> None:
    if fixed := [name for name in names if name not in CHANGEABLE]:
        message = f"cannot be changed any more; only {', '.join(CHANGEABLE)} can"
        raise Invalid({name: [message] for name in fixed})


def cancel(state: CampaignState, *, reason: str, by: Actor) -> list[Draft]:
    """Cancel it and its parts; [] where that is under way already."""
    if state.status == S.CANCELLING:
        return []
    _require(state, S.RUNNING, S.HALTED, S.PAUSED, what="cancelled")
    not_begun = sum(part.state == P.WAITING for part in state.parts.values())
    facts = {"not_begun": not_begun}
    return [Draft(E.CANCEL_REQUESTED, payload={"reason": reason}, facts=facts, actor=by)]


def _require(state: CampaignState, *statuses: CampaignStatus, what: str) -> None:
    if state.status not in statuses:
        label = CampaignStatus(state.status).label.lower()
        raise NotAllowedNow(f"The campaign is {label}; it cannot be {what}.", status=state.status)
