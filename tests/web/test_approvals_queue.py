"""The queue: whose turn it is, in constant queries, and low risk in bulk."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentplatform.clock import database_now
from approvals.asking.assign import approval_assign
from approvals.badge import reviews_waiting
from approvals.models import ApprovalRequest, Decision
from runs import auth
from runs.domain.vocabulary import Risk, RunStatus
from runs.models import RoleGrant, Run
from tests import factories as make
from tests.reviewing import WAITING, P, post, status_of, text, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def carol(client):
    somebody = make.person(P.REVIEWER, name="carol")
    client.force_login(somebody)
    return somebody


# --- the queue ------------------------------------------------------------------------------------


def bucket(response: Any, name: str) -> str:
    part = response.content.decode().split(f'id="bucket-{name}"')[1].split("</section>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


def test_the_queue_says_whose_turn_it_is(client, carol):
    make.person(P.REVIEWER, name="bob")
    RoleGrant.objects.create(person=carol, role=P.SUBMITTER)
    mine, own = waiting(title="For carol"), waiting(title="By carol", by=carol)
    sent_back = waiting(title="Sent back")
    post(client, sent_back, "request_changes", comment="smaller please")
    shown = client.get("/approvals/")
    assert "For carol" in bucket(shown, "yours")
    assert "By carol" in bucket(shown, "others")
    assert "You asked for this task" in bucket(shown, "others")
    assert "Sent back" in bucket(shown, "agent")
    assert "carol asked for: smaller please" in bucket(shown, "agent")
    assert {mine.status, own.status} == {"open"}


def test_empty_buckets_say_what_will_be_there(client, carol):
    shown = text(client.get("/approvals/"))
    for title in ("Nothing waits for you", "Nothing waits for others", "Nothing was sent back"):
        assert title in shown


def test_the_queue_costs_the_same_however_long_it_is(client, carol):
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get("/approvals/")
        return len(queries)

    waiting(title="1")
    one = cost()
    for number in range(2, 5):
        waiting(title=str(number))
    assert cost() == one


def test_only_low_risk_is_approved_in_bulk_and_each_is_its_own_decision(client, carol):
    low = [waiting(title=f"low {n}") for n in range(2)]
    high = waiting(title="high", risk_level="high")
    if high.gate == "plan":
        post(client, high)
        make.drive(make.claim(run=Run.objects.get(pk=high.run_id)), WAITING)
        high = ApprovalRequest.objects.get(run_id=high.run_id, status="open")
    shown = client.get("/approvals/").content.decode()
    offered = re.findall(r'name="approval" value="([^"]+)"', shown)
    assert {value.split(":")[0] for value in offered} == {request.pk for request in low}
    forced = f"{high.pk}:{high.version}:{high.subject_sha256}"
    client.post("/approvals/bulk/", {"approval": [*offered, forced]})
    assert [status_of(request) for request in low] == [RunStatus.PR_CREATING] * 2
    assert status_of(high) == WAITING
    assert Decision.objects.filter(request__in=low).count() == 2


def test_the_badge_follows_an_assignment_that_is_given_back_and_an_escalation(carol):
    request = waiting()
    other, by = make.person(P.REVIEWER, name="otto"), auth.of_person(carol)
    waiting()  # another, asked of nobody
    approval_assign(approval_id=request.pk, to=other.username, by=by)
    assert reviews_waiting(by) == 1
    approval_assign(approval_id=request.pk, to="", by=by)
    assert reviews_waiting(by) == 2
    approval_assign(approval_id=request.pk, to=other.username, by=by)
    assert reviews_waiting(by) == 1
    ApprovalRequest.objects.filter(pk=request.pk).update(escalated_at=database_now())
    assert reviews_waiting(by) == 2


def test_the_badge_counts_what_waits_for_this_person(carol):
    waiting()
    waiting(where=make.repository(policy={"approvals": {risk.value: 2 for risk in Risk}}))
    assert reviews_waiting(auth.of_person(carol)) == 2
    assert reviews_waiting(auth.of_person(make.person(P.VIEWER))) == 0


def test_what_is_overdue_is_nobodys_turn_before_any_sweep(client, carol):
    overdue, escalating = waiting(title="Too late"), waiting(title="Escalates")
    ApprovalRequest.objects.filter(pk=escalating.pk).update(on_timeout="escalate")
    ApprovalRequest.objects.update(due_at=overdue.requested_at)
    assert reviews_waiting(auth.of_person(carol)) == 1
    shown = client.get("/approvals/")
    assert "Escalates" in bucket(shown, "yours")
    assert "Too late" not in text(shown)
