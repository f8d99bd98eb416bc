"""The only place where apps meet: who listens inside a run's transaction, and who hears of it afterwards,
and who knows whose turn a review is."""

from __future__ import annotations

from approvals.projection import follow_run
from runs import livelogs, outbox, projections
from runs.auth import Principal
from runs.selectors import reviews


def connect() -> None:
    """Make the introductions; called once, when all apps are ready."""
    projections.listen(follow_run)
    projections.listen(livelogs.seal_after)
    outbox.register("pull_requests", outbox.nudge_pull_requests, wants={"RunPrCreating"})
    reviews.ask(_turns)


def _turns(principal: Principal) -> frozenset[str]:
    from approvals.selectors import filtered_requests

    return frozenset(filtered_requests(principal, mine=True).values_list("run_id", flat=True))
