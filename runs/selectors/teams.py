"""Which teams own which repositories.

Runs know no teams: ``agentplatform.wiring`` says whom to ask."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

#: (team, repository id) of every team that owns a repository.
Owned = Callable[[], Iterable[tuple[str, str]]]
_ASKED: Final[list[Owned]] = []


def ask(owned: Owned) -> None:
    """Introduce who knows; asked once for each page that counts by team."""
    if owned not in _ASKED:
        _ASKED.append(owned)


def repositories_by_team() -> dict[str, frozenset[str]]:
    """Team → ids of the repositories that it owns, by name. As many queries as were introduced."""
    found: dict[str, set[str]] = defaultdict(set)
    for owned in _ASKED:
        for team, repository_id in owned():
            found[team].add(repository_id)
    return {team: frozenset(found[team]) for team in sorted(found)}
