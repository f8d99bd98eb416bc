"""A run's log folded again: its state and every row that follows it, from the first event or a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from runs import projections, store
from runs.domain.facts import Event, Json, transactions
from runs.domain.fold import evolve
from runs.domain.state import Changes, RunState
from runs.models import Run
from runs.projections import Told
from runs.rebuild.chain import wrong_link


@dataclass(slots=True)
class Folded:
    """What events 1 to ``state.sequence`` add up to; ``link`` is the last one's hash."""

    state: RunState = field(default_factory=RunState)
    changes: Changes = field(default_factory=Changes)
    others: dict[str, dict[str, Json]] = field(default_factory=dict)  #: rows of other apps, by name and key
    link: str = ""
    chain_holds: bool = True


def fold_run(run: Run, start: Folded | None = None) -> Folded:
    """The fold of the whole log, going on from ``start`` where there is one."""
    folded = start or Folded()
    for events in transactions(_linked(folded, store.events_of(run.pk, after=folded.state.sequence))):
        for event in events:
            folded.changes.update(evolve(folded.state, event))
        told = Told(run, tuple(events), folded.state)
        for rows in projections.followers():
            rows.evolve(folded.others.setdefault(rows.name, {}), told)
    return folded


def _linked(folded: Folded, events: Iterable[Event]) -> Iterator[Event]:
    """The same events; notes whether each continues the one before it."""
    number = folded.state.sequence
    for event in events:
        number += 1
        if folded.chain_holds and wrong_link(event, number, folded.link):
            folded.chain_holds = False
        folded.link = event.hash
        yield event
