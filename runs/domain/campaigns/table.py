"""A campaign's table: which event leads from which status to which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from runs.domain.campaigns.words import CampaignEv, CampaignStatus

S = CampaignStatus
E = CampaignEv
_BEFORE_CANCEL: Final = (S.RUNNING, S.HALTED, S.PAUSED)


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """In any of ``sources``, ``event`` leads to ``target``; None stays."""

    event: CampaignEv
    sources: tuple[CampaignStatus, ...]
    target: CampaignStatus | None


CAMPAIGN_ROWS: Final = (
    CampaignRow(E.WAVE_OPENED, (S.RUNNING,), None),
    CampaignRow(E.PART_STARTED, (S.RUNNING,), None),
    # What is under way ends whatever became of the campaign meanwhile.
    CampaignRow(E.PART_DELIVERED, (*_BEFORE_CANCEL, S.CANCELLING), None),
    CampaignRow(E.PART_ENDED, (*_BEFORE_CANCEL, S.CANCELLING), None),
    CampaignRow(E.CAMPAIGN_HALTED, (S.RUNNING,), S.HALTED),
    CampaignRow(E.CAMPAIGN_PAUSED, (S.RUNNING, S.HALTED), S.PAUSED),
    CampaignRow(E.CAMPAIGN_RESUMED, (S.PAUSED, S.HALTED), S.RUNNING),
    CampaignRow(E.CAMPAIGN_CHANGED, _BEFORE_CANCEL, None),
    CampaignRow(E.PARTS_RETRIED, (S.RUNNING, S.HALTED), S.RUNNING),
    CampaignRow(E.PARTS_RETRIED, (S.PAUSED,), None),
    CampaignRow(E.CANCEL_REQUESTED, _BEFORE_CANCEL, S.CANCELLING),
    CampaignRow(E.CAMPAIGN_CANCELLED, (S.CANCELLING,), S.CANCELLED),
    CampaignRow(E.CAMPAIGN_COMPLETED, (S.RUNNING,), S.COMPLETED),
)
#: The domain event of each move of a campaign that is announced.
CAMPAIGN_DOMAIN_EVENTS: Final = {
    E.CAMPAIGN_CREATED: "CampaignCreated",
    E.CAMPAIGN_HALTED: "CampaignHalted",
    E.CAMPAIGN_PAUSED: "CampaignPaused",
    E.CAMPAIGN_RESUMED: "CampaignResumed",
    E.PARTS_RETRIED: "CampaignRetried",
    E.CANCEL_REQUESTED: "CampaignCancelling",
    E.CAMPAIGN_CANCELLED: "CampaignCancelled",
    E.CAMPAIGN_COMPLETED: "CampaignCompleted",
}
_CELLS: Final = {(row.event, source): row for row in CAMPAIGN_ROWS for source in row.sources}


def campaign_edges() -> Iterator[tuple[CampaignEv, CampaignStatus, CampaignStatus]]:
    """Each (event, from, to) that the table allows."""
    for row in CAMPAIGN_ROWS:
        for source in row.sources:
            yield row.event, source, row.target or source


CAMPAIGN_MOVES: Final = tuple(sorted({(a, b) for _, a, b in campaign_edges() if a is not b}))


def campaign_target(event: CampaignEv, status: str) -> CampaignStatus | None:
    """Where ``event`` leads from ``status``, "" before the first; None where the table has no such cell."""
    if event is E.CAMPAIGN_CREATED:
        return None if status else S.RUNNING
    row = _CELLS.get((event, CampaignStatus(status))) if status else None
    return None if row is None else row.target or CampaignStatus(status)
