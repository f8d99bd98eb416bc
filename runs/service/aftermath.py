"""What follows a stop after its commit: a cancelled task cancels its parts (lifecycle contract, section 9).

A consumer of the outbox; doing it twice does nothing twice.
"""

from __future__ import annotations

from runs.domain.commands import Caller
from runs.domain.errors import NotAllowedNow
from runs.domain.facts import POLICY
from runs.domain.vocabulary import TASK_FINAL, Role
from runs.models import Task
from runs.service.tasks import task_cancel

_POLICY = Caller(POLICY.id, POLICY.name, frozenset({Role.POLICY}))


def parts_cancel(*, task_id: str) -> list[str]:
    """Cancel the unfinished tasks that belong to a cancelled one; returns their ids.

    A part that can no longer be cancelled ends by itself.
    """
    parts = Task.objects.filter(parent_id=task_id).exclude(status__in=[s.value for s in TASK_FINAL])
    cancelled = []
    for part_id in list(parts.order_by("pk").values_list("pk", flat=True)):
        try:
            task_cancel(task_id=part_id, reason=f"Its parent {task_id} was cancelled.", by=_POLICY)
        except NotAllowedNow:
            continue
        cancelled.append(part_id)
    return cancelled
