"""All that a review page is made of, read once."""

from __future__ import annotations

from dataclasses import dataclass

from approvals.models import ApprovalRequest
from approvals.people import Surroundings, surroundings
from approvals.selectors import Entry, read_entries
from runs.auth import Principal
from runs.domain.facts import Json
from runs.domain.guards import effective_risk
from runs.domain.paths import matches
from runs.domain.policy import Effective
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import Gate
from runs.models import Artifact
from runs.selectors import effective_policies


@dataclass(frozen=True, slots=True)
class Review:
    """Everything the page is made of; read once."""

    entry: Entry
    principal: Principal
    around: Surroundings
    state: RunState
    task: TaskState
    policy: Effective
    subject: Artifact | None  #: the patch or plan that is shown

    @property
    def request(self) -> ApprovalRequest:
        """The request under review."""
        return self.entry.request

    @property
    def gate(self) -> Gate:
        """Why the run waits."""
        return Gate(self.request.gate)

    @property
    def reading(self) -> Json:
        """The control plane's reading of the patch, or {}."""
        return self.subject.facts if self.subject and self.gate is Gate.PATCH else {}

    @property
    def risky(self) -> list[str]:
        """Changed paths that raise the risk."""
        return effective_risk(self.state.risk_level, self.reading, self.policy.values)[1]

    @property
    def unplanned(self) -> list[str]:
        """Changed paths that the plan did not name; nothing where there was no plan."""
        planned = (self.state.plan or {}).get("files")
        paths = [entry["path"] for entry in self.reading.get("files", ())]
        return [path for path in paths if not matches(planned, path)] if planned else []


def read_review(request: ApprovalRequest, principal: Principal) -> Review:
    """The request with all that its page shows. Eight queries; the place in the queue costs seven more."""
    subject = Artifact.objects.filter(run_id=request.run_id, pk=request.subject.get("id") or "").first()
    policies = effective_policies(repository_ids=[request.repository_id])
    around = surroundings([request])
    return Review(
        entry=read_entries([request], principal, around)[0],
        principal=principal,
        around=around,
        state=RunState.from_json(request.run.state),
        task=TaskState.from_json(request.task.state),
        policy=policies[request.repository_id],
        subject=subject,
    )
