"""A person's own repositories: what "mine" means on home and in lists."""

from __future__ import annotations

from runs.auth import Principal
from runs.models import Task


def my_repositories(principal: Principal) -> frozenset[str]:
    """Ids of the repositories that a role was granted for by name, else of those this person asked work in.

    One query at most.
    """
    named = frozenset(where for _, where in principal.grants if where)
    if named:
        return named
    asked = Task.objects.filter(created_by_id=principal.id).order_by()
    return frozenset(asked.values_list("repository_id", flat=True).distinct())
