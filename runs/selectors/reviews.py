"""Whose turn a review is. Runs know no approvals: ``agentplatform.wiring`` says whom to ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runs.auth import Principal

#: Ids of the runs whose open request this person may decide or answer.
Turns = Callable[[Principal], frozenset[str]]
_ASKED: Final[list[Turns]] = []


def ask(turns: Turns) -> None:
    """Introduce who knows; asked once for each page."""
    if turns not in _ASKED:
        _ASKED.append(turns)


def turns_of(principal: Principal) -> frozenset[str]:
    """Runs that wait for this person. As many queries as those who were introduced say."""
    return frozenset().union(*(turns(principal) for turns in _ASKED))
