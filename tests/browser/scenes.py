"""Who and what the browser's tests meet: the people of one repository, and runs brought to a status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from approvals.models import ApprovalRequest
from approvals.service import approval_decide
from runs import auth
from runs.domain.vocabulary import ApprovalStatus, DecisionWord, PersonRole, RunStatus
from runs.models import Person, Repository, Run
from tests.factories import Holder, claim, drive, person, repository, run_in

PASSWORD = "secret"
TITLE = "Replace utcnow"


@dataclass
class Scene:
    """Bob asks for work, Carol and Erin review it, Dana operates and administrates."""

    bob: Person
    carol: Person
    erin: Person
    dana: Person
    repository: Repository

    @classmethod
    def make(cls) -> Scene:
        """People with their roles everywhere, and one repository."""
        return cls(
            bob=person(PersonRole.SUBMITTER, PersonRole.REVIEWER, name="bob"),
            carol=person(PersonRole.REVIEWER, name="carol"),
            erin=person(PersonRole.REVIEWER, name="erin"),
            dana=person(*PersonRole, name="dana", is_staff=True, is_superuser=True),
            repository=repository("clock"),
        )

    def run(self, status: RunStatus, **fields: Any) -> Holder:
        """A run of Bob's, brought to this status by a worker."""
        return run_in(status, where=self.repository, by=self.bob, **fields)


def open_request(run: Run) -> ApprovalRequest:
    """The request that the run waits at."""
    return ApprovalRequest.objects.get(run=run, status=ApprovalStatus.OPEN)


def replace_patch(holder: Holder, patch: bytes, *, by: Person) -> Holder:
    """Somebody asks for changes at the patch gate, and the worker comes back with another patch."""
    request = open_request(holder.run)
    approval_decide(
        approval_id=request.pk,
        decision=DecisionWord.REQUEST_CHANGES,
        version=request.version,
        subject_sha256=request.subject_sha256,
        comment="Say it in a module of its own.",
        by=auth.of_person(by),
    )
    again = claim(holder.machine, holder.run)
    again.patch = patch
    return drive(again, RunStatus.WAITING_FOR_APPROVAL)
