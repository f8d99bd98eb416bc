"""The only place where apps meet: who listens inside a run's transaction, and who hears of it afterwards."""

from __future__ import annotations

from approvals.projection import follow_run
from runs import outbox, projections


def connect() -> None:
    """Make the introductions; called once, when all apps are ready."""
    projections.listen(follow_run)
    outbox.register("pull_requests", outbox.nudge_pull_requests)
