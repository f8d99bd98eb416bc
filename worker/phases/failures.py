"""A failure in the contract's words, on its way to an event."""

from __future__ import annotations

from worker.checks.feedback import clean
from worker.client.protocol import Json

SUMMARY_LIMIT = 2000


class RunFailure(Exception):  # noqa: N818  named by what happened
    """The run cannot go on here: `category` and `reason` (a slug) as in the lifecycle contract."""

    def __init__(
        self,
        category: str,
        reason: str,
        summary: str,
        *,
        retryable: bool,
        evidence: str | None = None,
    ) -> None:
        super().__init__(f"{category} {reason}: {summary}")
        self.category = category
        self.reason = reason
        self.summary = summary
        self.retryable = retryable
        self.evidence = evidence

    def document(self) -> Json:
        """The `failure` of a payload."""
        failure: Json = {
            "category": self.category,
            "reason": self.reason,
            "summary": clean(self.summary)[:SUMMARY_LIMIT],
            "retryable": self.retryable,
        }
        if self.evidence:
            failure["evidence_artifact_id"] = self.evidence
        return failure
