"""Whose turn a review is, and which are nobody's.

Runs know no approvals: ``agentplatform.wiring`` says whom to ask."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from runs.auth import Principal

#: Ids of the runs whose open request this person may decide or answer.
Turns = Callable[[Principal], frozenset[str]]
_ASKED: Final[list[Turns]] = []
#: Of these repositories, and of these runs unless None, ids of the runs whose open request nobody is left to
#: decide.
Stuck = Callable[[Collection[str], Collection[str] | None], frozenset[str]]
_ASKED_STUCK: Final[list[Stuck]] = []


def ask(turns: Turns) -> None:
    """Introduce who knows; asked once for each page."""
    if turns not in _ASKED:
        _ASKED.append(turns)


def turns_of(principal: Principal) -> frozenset[str]:
    """Runs that wait for this person. As many queries as those who were introduced say."""
    return frozenset().union(*(turns(principal) for turns in _ASKED))


def ask_stuck(stuck: Stuck) -> None:
    """Introduce who knows which requests nobody can decide; asked with the surroundings of runs."""
    if stuck not in _ASKED_STUCK:
        _ASKED_STUCK.append(stuck)


def stuck_in(repository_ids: Collection[str], *, run_ids: Collection[str] | None = None) -> frozenset[str]:
    """Runs of these repositories, and of these runs where given, that wait for a decision nobody may make."""
    return frozenset().union(*(stuck(repository_ids, run_ids) for stuck in _ASKED_STUCK))
