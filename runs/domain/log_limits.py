"""How long a run's log may get, and that it never gets so long that the run cannot end.

At the limit the control plane winds the run down: what there is may still be handed in, checked, judged and
brought out, and the run can always be cancelled, failed and finished. Only what would let the log grow for
ever is refused: new intents and remarks at the limit, reports of the work under way a reserve later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runs.domain.errors import HistoryLimit
from runs.domain.state import RunState
from runs.domain.vocabulary import Directive, Ev, RunStatus

S = RunStatus
#: Events beyond the limit that a worker may still need to report what it was doing.
RESERVE: Final = 500
_AT_THE_LIMIT: Final = frozenset({Ev.TOOL_REQUESTED, Ev.QUESTION_ASKED, Ev.NOTE_ADDED})
_AFTER_THE_RESERVE: Final = frozenset({Ev.MODEL_DECISION, Ev.CHECKPOINT_SAVED})
_WORKING: Final = frozenset(
    {S.CONTEXT_BUILDING, S.PLANNING, S.EXECUTING, S.PATCH_READY, S.VERIFYING, S.JUDGING}
)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Events of one run, and bytes of all their payloads and facts as JSON."""

    events: int = 10_000
    size: int = 50 << 20


def is_full(state: RunState, limits: LogLimits, *, reserve: int = 0) -> bool:
    """Whether the log has reached its limit, or with a ``reserve`` of events on top."""
    return state.sequence >= limits.events + reserve or state.log_bytes >= limits.size + reserve * 1024


def check_room(state: RunState, event: Ev, limits: LogLimits) -> None:
    """Raise ``HistoryLimit`` for what a full log does not take any more."""
    late = event in _AFTER_THE_RESERVE and is_full(state, limits, reserve=RESERVE)
    if late or (event in _AT_THE_LIMIT and is_full(state, limits)):
        raise HistoryLimit(
            sequence=state.sequence, limit_events=limits.events,
            log_bytes=state.log_bytes, limit_bytes=limits.size,
        )  # fmt: skip


def must_wind_down(state: RunState, limits: LogLimits) -> bool:
    """Whether a run at work has to come to its end, and nobody asked for that yet."""
    asked = state.directive in (Directive.CANCEL, Directive.WIND_DOWN)
    return not asked and state.run_status in _WORKING and is_full(state, limits)


def why(state: RunState, limits: LogLimits) -> str:
    """The reason of that directive, in words."""
    full = f"{limits.events} events" if state.sequence >= limits.events else f"{limits.size >> 20} MiB"
    return f"The run's log is full ({full}). What there is may be handed in."
