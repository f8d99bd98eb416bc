"""All that a review page is made of, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from approvals.models import ApprovalRequest
from approvals.people import Surroundings, surroundings
from approvals.policy import CHANGEABLE
from approvals.selectors import Entry, read_entries
from runs.auth import Principal
from runs.domain.facts import Json
from runs.domain.guards import effective_risk
from runs.domain.paths import matches
from runs.domain.policy import Effective
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import ApprovalStatus, Gate
from runs.models import Artifact
from runs.selectors import effective_policies


@dataclass(frozen=True)
class Review:
    """Everything the page is made of; read once."""

    entry: Entry
    principal: Principal
    around: Surroundings
    state: RunState
    task: TaskState
    policy: Effective
    subject: Artifact | None  #: the patch or plan that is shown
    before: ApprovalRequest | None  #: the last request of this task at this gate
    before_subject: Artifact | None  #: what that one showed
    successor: str = ""  #: the open request that stands in the place of this one

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

    @cached_property
    def risky(self) -> list[str]:
        """Changed paths that raise the risk."""
        return effective_risk(self.state.risk_level, self.reading, self.policy.values)[1]

    @cached_property
    def unplanned(self) -> list[str]:
        """Changed paths that the plan did not name; nothing where there was no plan."""
        planned = (self.state.plan or {}).get("files")
        paths = [entry["path"] for entry in self.reading.get("files", ())]
        return [path for path in paths if not matches(planned, path)] if planned else []


def read_review(request: ApprovalRequest, principal: Principal) -> Review:
    """The request with all that its page shows. Ten queries; the place in the queue costs seven more."""
    before = _before(request)
    subjects = {pk for one in (request, before) if one and (pk := one.subject.get("id"))}
    artifacts = {
        row.pk: row for row in Artifact.objects.filter(run__task_id=request.task_id, pk__in=subjects)
    }
    policies = effective_policies(repository_ids=[request.repository_id])
    around = surroundings([request])
    entry = read_entries([request], principal, around)[0]
    return Review(
        entry=entry,
        principal=principal,
        around=around,
        state=RunState.from_json(request.run.state),
        task=TaskState.from_json(request.task.state),
        policy=policies[request.repository_id],
        subject=artifacts.get(request.subject.get("id") or ""),
        before=before,
        before_subject=artifacts.get(before.subject.get("id") or "") if before else None,
        successor=successor_of(request) if entry.closed else "",
    )


def _before(request: ApprovalRequest) -> ApprovalRequest | None:
    """The request that showed this gate's last version of the work."""
    if request.gate not in CHANGEABLE:
        return None
    earlier = ApprovalRequest.objects.filter(task_id=request.task_id, gate=request.gate)
    return earlier.filter(requested_at__lt=request.requested_at).order_by("-requested_at").first()


def successor_of(request: ApprovalRequest) -> str:
    """The request of the same task that is open in this one's place, or ""."""
    opened = ApprovalRequest.objects.filter(task_id=request.task_id, status=ApprovalStatus.OPEN)
    return opened.exclude(pk=request.pk).values_list("pk", flat=True).first() or ""
