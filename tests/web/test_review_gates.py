"""The gates that show no patch: a plan, a call, a budget, a question; and the override."""

from __future__ import annotations

import pytest
from django.test import Client

from approvals.models import ApprovalRequest, Decision
from runs.domain.vocabulary import ArtifactKind, Ev, RunStatus
from tests import factories as make
from tests.reviewing import P, page, post, text, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def carol(client: Client):
    somebody = make.person(P.REVIEWER, name="carol")
    client.force_login(somebody)
    return somebody


def test_a_plan_that_came_again_shows_what_changed_in_it(client, carol):
    request = waiting(plan_approval="required")
    client.force_login(make.person(P.REVIEWER, name="bob"))
    post(client, request, "request_changes", comment="test it, too")
    holder = make.claim(run=request.run)
    holder.plan(files=["clock.py", "test_clock.py"])
    client.force_login(carol)
    shown = text(page(client, ApprovalRequest.objects.get(status="open")))
    assert "Since the request before (bob asked for changes" in shown
    assert "The plan changed in: files. Files clock.py clock.py; test_clock.py" in shown


def test_a_call_says_what_it_reaches_and_what_was_approved_instead(client, carol):
    holder = make.run_in(RunStatus.EXECUTING)
    holder.post(
        Ev.TOOL_REQUESTED, operation_id="op-1", tool="shell", arguments={"command": "make \u202e"},
        label="Deploy", requires_approval=True, effect="outside",
    )  # fmt: skip
    request = ApprovalRequest.objects.get()
    shown = text(page(client, request))
    assert "shell Deploy It reaches beyond the sandbox" in shown
    assert "Hidden characters in the arguments: U+202E" in shown
    assert "Refuse the call" in shown
    post(client, request, arguments='{"command": "make test"}')
    shown = text(page(client, request))
    assert "carol approved with other values" in shown
    assert '"command": "make test"' in shown


def test_one_of_the_choices_is_the_answer_with_what_was_written_beside_it(client, carol):
    holder = make.run_in(RunStatus.EXECUTING)
    holder.post(Ev.QUESTION_ASKED, question="Which zone?", choices=["UTC", "local"])
    request = ApprovalRequest.objects.get()
    assert 'type="radio" name="choice" value="UTC"' in page(client, request).content.decode()
    assert post(client, request, choice="Mars").status_code == 422
    assert post(client, request, choice="UTC", comment="It is the default.").status_code == 303
    assert Decision.objects.get().comment == "UTC\n\nIt is the default."
    assert (holder.state.feedback or {})["text"] == "UTC\n\nIt is the default."


def test_a_budget_shows_what_was_made_and_what_more_would_buy(client, carol):
    where = make.repository(policy={"on_budget_exceeded": "ask"})
    holder = make.run_in(RunStatus.EXECUTING, where=where, budget={"max_cost_usd": "1"})
    checkpoint = holder.upload(ArtifactKind.CHECKPOINT, holder.patch)
    holder.post(Ev.CHECKPOINT_SAVED, checkpoint_artifact_id=checkpoint, base_commit=holder.base_commit)
    holder.post(Ev.MODEL_DECISION, decision="tool", cost_usd="1.50")
    shown = text(page(client, ApprovalRequest.objects.get()))
    assert "It made 1 step in" in shown
    assert "at $1.50 each" in shown
    assert "What it has made so far 1 file, +1 −1" in shown
    assert "datetime.UTC" in shown.replace(" ", "")


def test_the_override_is_a_switch_in_red_with_a_reason(client):
    alice = make.person(P.SUBMITTER, P.ADMIN, name="alice")
    plain, loose = waiting(by=alice), waiting(by=alice, where=make.repository(policy={"override": True}))
    client.force_login(alice)
    assert 'role="switch"' not in page(client, plain).content.decode()
    raw = page(client, loose).content.decode()
    assert (
        '<label class="callout" data-tone="bad"><input type="checkbox" name="override" role="switch">' in raw
    )
    assert post(client, plain, override="on", comment="urgent").status_code == 403
    assert post(client, loose, comment="urgent").status_code == 403
    assert post(client, loose, override="on").status_code == 422
    assert post(client, loose, override="on", comment="urgent").status_code == 303
    assert "overriding four-eyes" in text(page(client, loose))
