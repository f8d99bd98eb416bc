"""The run's event methods, guarded by django-fsm on the one table.

Each method takes the target that the domain decided and does nothing else: the FSM refuses, in
memory and under the row's lock, what the table does not have. A second, independent reader of the
table beside the domain and the database trigger.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import models
from django_fsm import GET_STATE, FSMField, TransitionNotAllowed, transition

from runs.domain.table import edges, sources_of
from runs.domain.vocabulary import Ev, RunStatus

_EDGES: Final = frozenset((event.value, a.value, b.value) for event, a, b in edges())


def edge(event: Ev) -> dict[str, Any]:
    """Source and target of ``event`` for ``@transition``, read from the table."""

    def chosen(run: RunLifecycle, to: str) -> str:
        # Which of the targets is right in this status is the table's word, not only which exist.
        if (event.value, run.status, to) not in _EDGES:
            raise TransitionNotAllowed(f"{event} does not lead from {run.status} to {to}.")
        return to

    targets = sorted({b.value for ev, _, b in edges() if ev is event})
    return {"source": [s.value for s in sources_of(event)], "target": GET_STATE(chosen, states=targets)}


class RunLifecycle(models.Model):
    """The status, and one method per event."""

    status = FSMField(
        max_length=30,
        protected=True,
        default=RunStatus.CREATED.value,
        choices=[(s.value, s.label) for s in RunStatus],
    )

    class Meta:
        abstract = True


def _event_method(event: Ev) -> Any:
    def method(self: RunLifecycle, to: str) -> None:
        pass

    method.__name__ = event.value
    method.__doc__ = f"{event.label}: sets the status to ``to``, one of the targets the table has for it."
    return transition(field="status", **edge(event))(method)


# One method per event of the table: written out they would be fifty copies of the same two lines.
for _event in Ev:
    if sources_of(_event):
        setattr(RunLifecycle, _event.value, _event_method(_event))
