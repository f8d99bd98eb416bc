"""A campaign as its log tells it, and the fold that tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Final

from runs.domain.campaigns.limits import wave_size
from runs.domain.campaigns.words import CAMPAIGN_FINAL, CampaignEv, PartState
from runs.domain.facts import Event, Json

_P = PartState
E = CampaignEv


@dataclass(slots=True)
class Part:
    """One repository of a campaign. Stamps are "" while there is none; ``cost_usd`` is of all its tasks."""

    repository_id: str
    position: int  #: from 1, in the order in which they are begun
    state: str = _P.WAITING.value
    tries: int = 0
    task_id: str = ""
    wave: int = 0
    reason: str = ""  #: why it failed or was cancelled
    accepted: bool = False  #: a person went on in spite of its failure
    cost_usd: str = "0"
    started_at: str = ""
    ended_at: str = ""

    @property
    def is_begun(self) -> bool:
        """Whether a task is under way for it."""
        return self.state == _P.RUNNING

    @property
    def counts_as_failed(self) -> bool:
        """Whether it speaks against going on."""
        return self.state == _P.FAILED and not self.accepted


@dataclass(slots=True)
class CampaignState:
    """All of a campaign. ``parts`` by repository id, in their order; they are rows of their own."""

    id: str = ""
    title: str = ""
    status: str = ""
    sequence: int = 0
    contract: Json = field(default_factory=dict)
    limits: Json = field(default_factory=dict)
    selection: list[str] = field(default_factory=list)  #: the names and patterns that were asked for
    wave: int = 0
    opened: int = 0  #: parts up to this position may be begun
    halt: Json | None = None  #: {reason, sentence, since} while it stands still by itself
    pause: Json | None = None  #: {reason, by, by_id, since} while somebody paused it
    resumed: Json | None = None  #: {by, by_id} of who resumed it last
    cancel: Json | None = None  #: {reason, by, since} once somebody cancelled it
    created_at: str = ""
    updated_at: str = ""
    ended_at: str = ""
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.status in CAMPAIGN_FINAL

    def counts(self) -> dict[str, int]:
        """Part state → how many parts are in it; all states."""
        found = Counter(part.state for part in self.parts.values())
        return {state.value: found[state.value] for state in PartState}

    def to_json(self) -> Json:
        """All of it but its parts as JSON, with their ``counts``: one row tells the whole of one moment."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "parts"}
        return {**own, "counts": self.counts()}

    @classmethod
    def from_json(cls, data: Json, parts: Iterable[Part] = ()) -> CampaignState:
        """The state that ``to_json`` wrote, with its parts."""
        known = {f.name for f in fields(cls)} - {"parts"}
        own = {name: value for name, value in data.items() if name in known}
        return cls(**own, parts={part.repository_id: part for part in parts})


def fold_campaign(events: Iterable[Event]) -> CampaignState:
    """The campaign that these events add up to."""
    state = CampaignState()
    for event in events:
        evolve_campaign(state, event)
    return state


def evolve_campaign(state: CampaignState, event: Event) -> None:
    """Apply one event of the campaign's log in place."""
    state.sequence, state.updated_at = event.sequence, event.recorded_at
    _FOLDS.get(event.type, _nothing)(state, event)
    state.status = event.to_status
    if state.is_over:
        state.ended_at = event.recorded_at


def _nothing(state: CampaignState, event: Event) -> None:
    """The status says it all."""


def _created(state: CampaignState, event: Event) -> None:
    payload = event.payload
    state.id, state.created_at = event.run_id, event.recorded_at
    state.title, state.contract = payload["title"], payload["contract"]
    state.limits, state.selection = payload["limits"], payload["repositories"]
    ids = event.facts["repositories"]
    state.parts = {pk: Part(pk, position) for position, pk in enumerate(ids, start=1)}
    state.wave, state.opened = 1, min(len(ids), wave_size(state.limits, 1))


def _part(state: CampaignState, event: Event) -> None:
    facts, now = event.facts, event.recorded_at
    part = state.parts[facts["repository_id"]]
    if event.type == E.PART_STARTED:
        part.state, part.task_id, part.wave = _P.RUNNING.value, facts["task_id"], state.wave
        part.tries, part.reason, part.accepted = part.tries + 1, "", False
        part.started_at, part.ended_at = now, ""
        return
    part.reason = facts.get("reason", "")
    part.cost_usd = str(Decimal(part.cost_usd) + Decimal(facts.get("cost_usd", "0")))
    if event.type == E.PART_DELIVERED:
        part.state = _P.DELIVERED.value
        return
    part.state, part.ended_at = facts["outcome"], now


def _wave(state: CampaignState, event: Event) -> None:
    state.wave, state.opened = event.facts["wave"], event.facts["opened"]


def _retried(state: CampaignState, event: Event) -> None:
    for pk in event.facts["repositories"]:
        part = state.parts[pk]
        part.state, part.ended_at, part.accepted = _P.WAITING.value, "", False
    state.halt = None


def _halted(state: CampaignState, event: Event) -> None:
    facts = event.facts
    state.halt = {"reason": facts["reason"], "sentence": facts["sentence"], "since": event.recorded_at}


def _paused(state: CampaignState, event: Event) -> None:
    by = {"by": event.actor.name, "by_id": event.actor.id}
    state.pause = {"reason": event.payload.get("reason", ""), **by, "since": event.recorded_at}


def _changed(state: CampaignState, event: Event) -> None:
    state.limits = {**state.limits, **event.payload["limits"]}


def _resumed(state: CampaignState, event: Event) -> None:
    for pk in event.facts.get("accepted", ()):
        state.parts[pk].accepted = True
    state.halt = state.pause = None
    state.resumed = {"by": event.actor.name, "by_id": event.actor.id}


def _cancelled(state: CampaignState, event: Event) -> None:
    state.cancel = {"reason": event.payload["reason"], "by": event.actor.name, "since": event.recorded_at}
    state.halt = state.pause = None
    for part in state.parts.values():
        if part.state == _P.WAITING:
            part.state, part.ended_at = _P.CANCELLED.value, event.recorded_at
            part.reason = "The campaign was cancelled before it was begun."


_FOLDS: Final[dict[str, Callable[[CampaignState, Event], None]]] = {
    E.CAMPAIGN_CREATED: _created,
    E.WAVE_OPENED: _wave,
    E.PART_STARTED: _part,
    E.PART_DELIVERED: _part,
    E.PART_ENDED: _part,
    E.PARTS_RETRIED: _retried,
    E.CAMPAIGN_HALTED: _halted,
    E.CAMPAIGN_PAUSED: _paused,
    E.CAMPAIGN_RESUMED: _resumed,
    E.CAMPAIGN_CHANGED: _changed,
    E.CANCEL_REQUESTED: _cancelled,
}
