"""Runs at a gate and people who decide, for tests of approvals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from approvals.models import ApprovalRequest
from approvals.service import DecisionOutcome, approval_decide
from runs import auth
from runs.domain.facts import Event
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Person, Repository, Run
from tests import factories as make

WAITING = RunStatus.WAITING_FOR_APPROVAL


def reviewer(name: str = "", where: Repository | None = None, **fields: Any) -> Person:
    return make.person(PersonRole.REVIEWER, name=name, repository=where, **fields)


def waiting(**fields: Any) -> tuple[make.Holder, ApprovalRequest]:
    """A run at a gate, and its request."""
    holder = make.run_in(WAITING, **fields)
    return holder, open_request(holder)


def open_request(holder: make.Holder) -> ApprovalRequest:
    return ApprovalRequest.objects.get(run_id=holder.run_id, status="open")


def decide(request: ApprovalRequest, who: Person, word: str = "approve", **fields: Any) -> DecisionOutcome:
    """What the page posts, of what the request shows."""
    shown = {"version": request.version, "subject_sha256": request.subject_sha256}
    return approval_decide(
        approval_id=request.pk, decision=word, by=auth.of_person(who), **{**shown, **fields}
    )


def event_of(outcome: DecisionOutcome) -> Event:
    """The run's event of a decision that was recorded just now."""
    assert outcome.run
    assert outcome.run.event
    return outcome.run.event


def after_due(request: ApprovalRequest) -> datetime:
    assert request.due_at
    return request.due_at + timedelta(seconds=5)


def status(holder: make.Holder) -> str:
    return Run.objects.get(pk=holder.run_id).status


@pytest.fixture(autouse=True)
def queue_and_runs_agree(request: pytest.FixtureRequest) -> Iterator[None]:
    """The invariant, after every test: one open request for each waiting run, and for none else."""
    yield
    waiting_runs = set(Run.objects.filter(status=WAITING).values_list("pk", flat=True))
    asked = list(ApprovalRequest.objects.filter(status="open").values_list("run_id", flat=True))
    assert len(asked) == len(set(asked))
    assert set(asked) == waiting_runs
