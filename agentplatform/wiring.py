"""The only place where apps meet: who listens inside a run's transaction."""

from __future__ import annotations

from approvals.projection import follow_run
from runs import projections


def connect() -> None:
    """Make the introductions; called once, when all apps are ready."""
    projections.listen(follow_run)
