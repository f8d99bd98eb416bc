"""How a run ended, in one narrow row: what charts and exports count (interface contract, leads' home)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from runs.domain.facts import Json, moment
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev, Gate

EXPIRED: Final = "EXPIRED"
#: What a check can say of its subject: it is good, or it goes back to the agent.
VERIFIER: Final = (Ev.VERIFICATION_PASSED, Ev.VERIFICATION_FAILED_RETRYABLE)
JUDGE: Final = (Ev.JUDGE_PASSED, Ev.JUDGE_REQUIRES_FIX)
TOLD: Final = frozenset({*VERIFIER, *JUDGE})
#: What a patch that went out without a person has for a verdict: its later life says the rest.
ALONE: Final = "alone"
_VERDICTS: Final[dict[str, str]] = {
    Ev.APPROVED: "approved",
    Ev.CHANGES_REQUESTED: "changes_requested",
    Ev.REJECTED: "rejected",
    Ev.AUTO_PR_ALLOWED: ALONE,
}


class Move(NamedTuple):
    """As much of an event as an outcome needs."""

    type: str
    from_status: str
    to_status: str
    recorded_at: datetime
    confidence: str | None = None  #: of a judge's report, as text
    gate: str | None = None  #: of a request that was opened


def outcome_columns(state: RunState, moves: Iterable[Move], contract: Json) -> Json:
    """The row of a run that ended. ``moves``: its events in sequence, at least those that changed its status
    and those in ``TOLD``."""
    moves = list(moves)
    told = Counter(move.type for move in moves)
    return {
        "task_id": state.task_id,
        "repository_id": state.repository_id,
        "agent": contract["agent"]["kind"],
        "status": state.status,
        "failure_category": _category(state),
        "created_at": moment(state.created_at),
        "ended_at": moment(state.completed_at),
        "verifier_repairs": _sent_back(told, *VERIFIER),
        "judge_repairs": _sent_back(told, *JUDGE),
        "spent": spent(moves),
        "verdicts": list(verdicts(moves)),
    }


def _category(state: RunState) -> str:
    return EXPIRED if state.expiration else str((state.failure or {}).get("category", ""))


def _sent_back(told: Counter[str], good: Ev, bad: Ev) -> int | None:
    """How often it was sent back; None where it was never looked at."""
    return told[bad] if told[good] or told[bad] else None


def verdicts(moves: Iterable[Move]) -> Iterator[Json]:
    """What became of each patch that the judge passed, in sequence: ``{verdict, confidence, seconds}``; the
    seconds from the request to the decision are None where nobody was asked."""
    confidence: float | None = None
    asked: Move | None = None
    for move in moves:
        if move.type == Ev.JUDGE_PASSED and move.confidence is not None:
            confidence = float(move.confidence)
        elif move.type == Ev.PATCH_CREATED:
            confidence = None
        elif move.type == Ev.HUMAN_APPROVAL_REQUIRED:
            asked = move
        elif verdict := _VERDICTS.get(move.type):
            is_about_the_patch = verdict == ALONE or (asked is not None and asked.gate == Gate.PATCH)
            if is_about_the_patch and confidence is not None:
                waited = None if verdict == ALONE or asked is None else move.recorded_at - asked.recorded_at
                seconds = None if waited is None else int(waited.total_seconds())
                yield {"verdict": verdict, "confidence": confidence, "seconds": seconds}


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
