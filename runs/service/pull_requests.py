"""The life of a pull request after it was opened, as the git integration reports it."""

from __future__ import annotations

from agentplatform.clock import database_now
from runs.domain.vocabulary import PullRequestState
from runs.models import PullRequest

#: What a forge says of a pull request's checks; "" while nothing is known.
CHECKS = ("pending", "passed", "failed")


def pull_request_report(
    *, pull_request_id: str, state: PullRequestState | None = None, checks: str | None = None
) -> None:
    """Record what the provider says now; None leaves a value as it is. The run does not depend on it."""
    said = {"state": state.value if state else None, "checks": checks}
    changed = {name: value for name, value in said.items() if value is not None}
    PullRequest.objects.filter(pk=pull_request_id).update(updated_at=database_now(), **changed)
