"""A secret that somebody lets slip is shown nowhere but in the patch: pages, answers, files, the outbox."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from approvals.models import ApprovalRequest
from runs import service
from runs.auth import of_person
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Artifact, OutboxMessage, Person, RunEvent
from tests import factories as make
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db
TOKEN = "AKIA" + "Z7Q4M2X9T1B6K3WD"
SAID = f"key={TOKEN} used"


@pytest.fixture
def sam() -> Person:
    return make.person(PersonRole.SUBMITTER)


@pytest.fixture
def talkative(sam: Person) -> make.Holder:
    """A run at its gate, of an agent that repeats a secret wherever it may say something."""
    holder = make.run_in(RunStatus.EXECUTING, by=sam)
    holder.post(Ev.MODEL_DECISION, decision="tool", summary=SAID)
    call: Any = {"tool": "shell", "label": SAID, "arguments": {"command": ["sh", {"-c": SAID}]}}
    holder.post(Ev.TOOL_REQUESTED, operation_id="op-1", **call)
    holder.post(Ev.TOOL_COMPLETED, operation_id="op-1", outcome="failed", summary=SAID)
    service.run_note(run_id=holder.run_id, text=SAID, by=of_person(sam).caller)
    holder.hand_in()
    holder.begin_checks()
    holder.check()
    holder.judge(confidence=0.1, reasons=[SAID], feedback=SAID)
    return holder


@pytest.fixture
def failed(sam: Person) -> make.Holder:
    holder = make.run_in(RunStatus.EXECUTING, by=sam)
    failure = {"category": "POLICY_DENIED", "reason": "no", "summary": SAID}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    return holder


def test_no_page_answer_or_message_shows_it(talkative, failed):
    admin = make.person(PersonRole.ADMIN)
    browser, caller = Client(), Caller(make.person_token(admin))
    browser.force_login(admin)
    request = ApprovalRequest.objects.get(run_id=talkative.run_id)
    told, pages = [], ["/", "/runs/", "/tasks/", "/runs/export.csv", f"/approvals/{request.pk}/"]
    for holder in (talkative, failed):
        run = f"/runs/{holder.run_id}/"
        pages += [f"{run}?tab={tab}" for tab in ("timeline", "steps", "events", "result", "evidence")]
        pages += [f"{run}events.jsonl", f"/tasks/{holder.run.task_id}/"]
        parts = ("", "/events", "/steps", "/attempts", "/timeline", "/receipt")
        told += [(part, caller.get(f"runs/{holder.run_id}{part}").content.decode()) for part in parts]
    for address in pages:
        answer = browser.get(address)
        assert answer.status_code == 200, address
        told.append((address, (b"".join(answer) if answer.streaming else answer.content).decode()))
    for where, text in told:
        assert TOKEN[4:12] not in text, where
    assert sum("[redacted]" in text for _, text in told) > 10, "it is told that something was there"


def test_it_is_not_kept_and_the_log_still_holds(talkative, failed):
    rows = (RunEvent.objects.all(), OutboxMessage.objects.all(), Artifact.objects.all())
    kept = json.dumps([list(found.values()) for found in rows], default=str)
    assert TOKEN not in kept


def test_the_same_call_again_is_answered_as_before(sam):
    holder = make.run_in(RunStatus.EXECUTING, by=sam)
    first = holder.post(Ev.MODEL_DECISION, "one-key", decision="tool", summary=SAID)
    again = holder.post(Ev.MODEL_DECISION, "one-key", decision="tool", summary=SAID)
    assert again.replayed
    assert first.event is not None
    assert again.event == first.event
