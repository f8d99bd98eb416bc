"""How a run ended, in one narrow row: what charts and exports count (interface contract, leads' home)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from runs.domain.facts import Json, moment
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev

EXPIRED: Final = "EXPIRED"
#: What a check can say of its subject: it is good, or it goes back to the agent.
VERIFIER: Final = (Ev.VERIFICATION_PASSED, Ev.VERIFICATION_FAILED_RETRYABLE)
JUDGE: Final = (Ev.JUDGE_PASSED, Ev.JUDGE_REQUIRES_FIX)
TOLD: Final = frozenset({*VERIFIER, *JUDGE})


class Move(NamedTuple):
    """As much of an event as an outcome needs."""

    type: str
    from_status: str
    to_status: str
    recorded_at: datetime


def outcome_columns(state: RunState, moves: Iterable[Move], contract: Json) -> Json:
    """The row of a run that ended. ``moves``: its events in sequence, at least those that changed its status
    and those in ``TOLD``."""
    moves = list(moves)
    told = Counter(move.type for move in moves)
    return {
        "repository_id": state.repository_id,
        "agent": contract["agent"]["kind"],
        "status": state.status,
        "failure_category": _category(state),
        "created_at": moment(state.created_at),
        "ended_at": moment(state.completed_at),
        "verifier_repairs": _sent_back(told, *VERIFIER),
        "judge_repairs": _sent_back(told, *JUDGE),
        "spent": spent(moves),
    }


def _category(state: RunState) -> str:
    return EXPIRED if state.expiration else str((state.failure or {}).get("category", ""))


def _sent_back(told: Counter[str], good: Ev, bad: Ev) -> int | None:
    """How often it was sent back; None where it was never looked at."""
    return told[bad] if told[good] or told[bad] else None


def spent(moves: Iterable[Move]) -> dict[str, float]:
    """Status → seconds spent in it, over all of its visits. The final status is not left and has none."""
    found: dict[str, float] = {}
    since: datetime | None = None
    for move in moves:
        if move.from_status == move.to_status:
            continue
        if since is not None and move.from_status:
            seconds = (move.recorded_at - since).total_seconds()
            found[move.from_status] = round(found.get(move.from_status, 0) + seconds, 3)
        since = move.recorded_at
    return found
