"""How many pull requests of a repository may stand open, and how fast they may come
(lifecycle contract, section 16: policy)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from runs.domain.facts import stamp
from runs.domain.state import RunState
from runs.domain.vocabulary import Directive, PullRequestState, RunStatus

OVER: Final = frozenset({PullRequestState.MERGED, PullRequestState.CLOSED})
PACE: Final = timedelta(hours=1)
LIMITS: Final = ("max_open_pull_requests", "max_pull_requests_per_hour")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What a repository has out: open pull requests, and when each of the last hour was opened.

    ``begun`` are runs whose creation is under way: each may have a pull request by now.
    """

    is_open: int = 0
    begun: int = 0
    recent: tuple[datetime, ...] = ()


class Full(NamedTuple):
    """No room: why, in a sentence, and until when (a stamp), "" where that depends on people."""

    sentence: str
    until: str


def has_limits(policy: Mapping[str, Any]) -> bool:
    """Whether the policy limits pull requests at all."""
    return any(policy[name] is not None for name in LIMITS)


def full(policy: Mapping[str, Any], outgoing: Outgoing) -> Full | None:
    """Why no further pull request may be begun now, or None."""
    most, pace = policy["max_open_pull_requests"], policy["max_pull_requests_per_hour"]
    if most is not None and outgoing.is_open + outgoing.begun >= most:
        return Full(f"The limit of {most} open pull requests is reached; merge or close one.", "")
    if pace is not None and _is_paced(pace, outgoing):
        return Full(f"The limit of {pace} pull requests an hour is reached.", _next_place(outgoing))
    return None


def campaign_full(pace: int, outgoing: Outgoing) -> Full | None:
    """Why a campaign that may open ``pace`` pull requests an hour may begin no further one now, or None."""
    if not _is_paced(pace, outgoing):
        return None
    return Full(f"Its campaign opens at most {pace} pull requests an hour.", _next_place(outgoing))


def _is_paced(pace: int, outgoing: Outgoing) -> bool:
    return len(outgoing.recent) + outgoing.begun >= pace


def _next_place(outgoing: Outgoing) -> str:
    """The one that leaves the hour next makes room, unless creations under way take it."""
    return stamp(min(outgoing.recent) + PACE) if outgoing.recent else ""


def is_kept_in(state: RunState) -> bool:
    """Whether a limit holds this run back: one that was begun may have its pull request already."""
    waits = state.status == RunStatus.PR_CREATING and not state.pr_begun
    return waits and state.directive == Directive.CONTINUE
