"""The event methods of runs, tasks and campaigns, guarded by django-fsm on the one table of each.

Each method takes the target that the domain decided and does nothing else: the FSM refuses, in
memory and under the row's lock, what the table does not have. A second, independent reader of the
table beside the domain and the database trigger.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import models
from django_fsm import GET_STATE, FSMField, TransitionNotAllowed, transition

from runs.domain.campaigns.table import campaign_edges
from runs.domain.campaigns.words import CampaignEv, CampaignStatus
from runs.domain.table import edges
from runs.domain.tasks import task_edges
from runs.domain.vocabulary import Ev, RunStatus, TaskEv, TaskStatus

Edges = frozenset[tuple[str, str, str]]
RUN_EDGES: Final[Edges] = frozenset((event.value, a.value, b.value) for event, a, b in edges())
TASK_EDGES: Final[Edges] = frozenset((event.value, a.value, b.value) for event, a, b in task_edges())

CAMPAIGN_EDGES: Final[Edges] = frozenset((event.value, a.value, b.value) for event, a, b in campaign_edges())


def edge(event: Ev | TaskEv | CampaignEv, table: Edges) -> dict[str, Any]:
    """Source and target of ``event`` for ``@transition``, read from the table."""

    def chosen(row: models.Model, to: str) -> str:
        # Which of the targets is right in this status is the table's word, not only which exist.
        if (event.value, row.status, to) not in table:  # type: ignore[attr-defined]
            raise TransitionNotAllowed(f"{event} does not lead from {row.status} to {to}.")  # type: ignore[attr-defined]
        return to

    cells = sorted((a, b) for name, a, b in table if name == event.value)
    return {
        "source": sorted({a for a, _ in cells}),
        "target": GET_STATE(chosen, states=sorted({b for _, b in cells})),
    }


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


class TaskLifecycle(models.Model):
    """A task's status, and one method per event."""

    status = FSMField(
        max_length=30,
        protected=True,
        default=TaskStatus.DRAFT.value,
        choices=[(s.value, s.label) for s in TaskStatus],
    )

    class Meta:
        abstract = True


class CampaignLifecycle(models.Model):
    """A campaign's status, and one method per event."""

    status = FSMField(
        max_length=30,
        protected=True,
        default=CampaignStatus.RUNNING.value,
        choices=[(s.value, s.label) for s in CampaignStatus],
    )

    class Meta:
        abstract = True


def _event_method(event: Ev | TaskEv | CampaignEv, table: Edges) -> Any:
    def method(self: models.Model, to: str) -> None:
        pass

    method.__name__ = event.value
    method.__doc__ = f"{event.label}: sets the status to ``to``, one of the targets the table has for it."
    return transition(field="status", **edge(event, table))(method)


# One method per event of the table: written out they would be sixty copies of the same two lines.
for _table, _owner, _events in (
    (RUN_EDGES, RunLifecycle, Ev),
    (TASK_EDGES, TaskLifecycle, TaskEv),
    (CAMPAIGN_EDGES, CampaignLifecycle, CampaignEv),
):
    for _event in _events:
        if any(name == _event.value for name, _, _ in _table):
            setattr(_owner, _event.value, _event_method(_event, _table))
