"""Listeners inside the transaction. This registry knows none of them; wiring makes the introductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runs.domain.facts import Event
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
