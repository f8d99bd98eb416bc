"""Listeners inside the transaction, and rows of other apps that follow a run's log. This registry knows none
of them; wiring makes the introductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runs.domain.facts import Event, Json
from runs.domain.state import RunState
from runs.models import Run


@dataclass(frozen=True, slots=True)
class Told:
    """What a transaction did to one run: its row, the new events, the state after them."""

    run: Run
    events: tuple[Event, ...]
    state: RunState


Listener = Callable[[Told], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Call ``listener`` in every transaction that moves a run, after rows and events are written."""
    if listener not in _listeners:
        _listeners.append(listener)


def tell(told: Told) -> None:
    """Tell all of them."""
    for listener in _listeners:
        listener(told)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a run's log accounts for, in another app: ``rebuild`` compares and writes them, too.

    ``evolve`` lays what one transaction did over the rows so far, which are JSON by primary key; ``columns``
    makes of one such row what the model's columns hold. The model has a foreign key ``run``.
    """

    name: str
    model: Any
    evolve: Callable[[dict[str, Json], Told], None]
    columns: Callable[[Json], Json]


_rows: dict[str, Rows] = {}


def follow(rows: Rows) -> None:
    """Count these rows among what a run's log accounts for."""
    _rows[rows.name] = rows


def followers() -> tuple[Rows, ...]:
    """All of them."""
    return tuple(_rows.values())
