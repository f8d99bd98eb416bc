"""The queue and the review page: what they show, to whom, and that only a POST decides."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.models import ApprovalRequest, Decision
from runs import auth, service
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Run, RunEvent
from tests import factories as make
from tests.reviewing import WAITING, P, page, post, status_of, text, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def carol(client):
    somebody = make.person(P.REVIEWER, name="carol")
    client.force_login(somebody)
    return somebody


# --- only a POST decides --------------------------------------------------------------------------


def test_looking_never_changes_anything(client, carol):
    request = waiting()
    before = RunEvent.objects.count()
    for suffix in ("", "?decision=approve", "standing/", "decision/", "waiver/"):
        for method in (client.get, client.head, client.options):
            response = method(f"/approvals/{request.pk}/{suffix}")
            assert response.status_code in (200, 405)
    assert client.get("/approvals/bulk/?approval=all").status_code == 405
    assert RunEvent.objects.count() == before
    assert status_of(request) == WAITING


def test_a_stranger_is_sent_to_the_sign_in(client):
    request = waiting()
    assert page(client, request).status_code == 302
    assert post(client, request).status_code == 302
    assert status_of(request) == WAITING


def test_a_post_without_the_token_is_refused(carol):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(carol)
    request = waiting()
    assert post(strict, request).status_code == 403
    assert status_of(request) == WAITING


def test_another_repositorys_reviewer_finds_nothing(client):
    request = waiting()
    client.force_login(make.person(P.REVIEWER, repository=make.repository()))
    unknown = ApprovalRequest(pk="apr_" + "0" * 26, version=1, subject_sha256="")
    for found in (page, post):
        hidden, missing = found(client, request), found(client, unknown)
        assert hidden.status_code == missing.status_code == 404
    assert request.task.title not in text(client.get("/approvals/"))


# --- deciding -------------------------------------------------------------------------------------


def test_the_form_posts_what_was_shown_and_the_page_then_says_who_decided(client, carol):
    request = waiting()
    shown = page(client, request).content.decode()
    form = dict(re.findall(r'type="hidden" name="(version|subject_sha256)" value="(\w+)"', shown))
    assert form == {"version": "1", "subject_sha256": request.subject_sha256}
    response = client.post(
        reverse("approval-decision", args=[request.pk]), {**form, "decision": "approve"}, follow=True
    )
    assert response.redirect_chain == [(reverse("approval", args=[request.pk]), 303)]
    assert "Approved." in text(response)
    assert "carol approved this at" in text(response)
    assert 'id="verdict"' not in response.content.decode()
    assert status_of(request) == RunStatus.PR_CREATING


def test_a_reload_of_the_post_says_what_was_decided_and_does_nothing(client, carol):
    request = waiting()
    post(client, request)
    again = post(client, request)
    assert again.status_code == 303
    assert "You had decided this already" in text(client.get(again["Location"]))
    assert Decision.objects.count() == 1


def test_whoever_is_second_keeps_the_comment_and_reads_who_was_first(client, carol):
    request = waiting()
    other = make.person(P.REVIEWER, name="bob")
    client.force_login(other)
    post(client, request)
    client.force_login(carol)
    response = post(client, request, "reject", comment="my careful words")
    assert response.status_code == 409
    assert "bob approved this" in text(response)
    assert "Your decision was not recorded" in text(response)
    assert "my careful words" in text(response)


def test_a_replaced_patch_is_not_approved_and_the_page_says_what_is_new(client, carol):
    holder = make.run_in(WAITING)
    old = ApprovalRequest.objects.get(run_id=holder.run_id)
    bob = make.person(P.REVIEWER, name="bob")
    client.force_login(bob)
    post(client, old, "request_changes", comment="and tell the zone")
    holder = make.drive(make.claim(holder.machine, holder.run), RunStatus.EXECUTING)
    holder.hand_in(make.patch_writing({"clock.py": make.EDITED + "\nZONE = 'UTC'\n", "zone.py": "UTC = 0\n"}))
    make.drive(holder, WAITING)
    new = ApprovalRequest.objects.get(status="open")
    client.force_login(carol)
    response = post(client, old, comment="looks good")
    assert response.status_code == 409
    assert reverse("approval", args=[new.pk]) in response.content.decode()
    assert "Since the request before (bob asked for changes" in text(response)
    assert "2 files differ from the patch before." in text(response)
    assert "zone.py was not changed before" in text(response)
    assert f'action="{reverse("approval-decision", args=[new.pk])}"' in response.content.decode()
    assert "looks good" in text(response)
    assert status_of(old) == WAITING


def test_a_missing_digest_decides_nothing(client, carol):
    request = waiting()
    response = client.post(reverse("approval-decision", args=[request.pk]), {"decision": "approve"})
    assert response.status_code == 400
    assert "Nothing was decided. The form does not say what was shown" in text(response)
    assert status_of(request) == WAITING


def test_a_reason_that_is_missing_is_asked_for_and_nothing_is_lost(client, carol):
    request = waiting()
    response = post(client, request, "reject", comment=" ")
    assert response.status_code == 422
    assert "comment: say why" in text(response)


@pytest.mark.parametrize("ending", ["overdue", "cancelled"])
def test_what_is_over_shows_no_buttons(client, carol, monkeypatch, ending):
    request = waiting()
    if ending == "overdue":
        later = (request.due_at or request.requested_at) + timedelta(seconds=5)
        monkeypatch.setattr("approvals.people.database_now", lambda: later)
    else:
        alice = auth.of_person(make.person(P.OPERATOR, name="alice")).caller
        service.run_direct(run_id=request.run_id, event=Ev.CANCEL_REQUESTED, reason="old", by=alice)
    shown = page(client, request)
    assert 'name="decision"' not in shown.content.decode()
    assert ("was due at" if ending == "overdue" else "ended by alice") in text(shown)
    assert request.task.title not in text(client.get("/approvals/"))
    assert post(client, request).status_code == 409


# --- who may --------------------------------------------------------------------------------------


def button(response: Any, value: str) -> str:
    found = re.search(rf'<button[^>]*value="{value}"[^>]*>', response.content.decode())
    assert found
    return found[0]


def test_own_work_shows_approve_off_with_the_reason(client):
    alice = make.person(P.SUBMITTER, P.REVIEWER, name="alice")
    request = waiting(by=alice)
    client.force_login(alice)
    shown = page(client, request)
    assert "disabled" in button(shown, "approve")
    assert "disabled" not in button(shown, "reject")
    assert "You asked for this task: somebody else has to approve." in text(shown)
    assert post(client, request).status_code == 403


def test_a_reviewer_is_warned_before_the_comment_makes_them_an_author(client, carol):
    assert "you cannot approve what follows" in text(page(client, waiting()))


def test_a_request_that_nobody_may_decide_says_so(client):
    alice = make.person(P.ADMIN, name="alice")
    request = waiting(by=alice)
    client.force_login(alice)
    assert "Nobody is left who may decide this" in text(page(client, request))
    make.person(P.REVIEWER)
    assert "Nobody is left" not in text(page(client, request))


def test_a_blocking_guard_turns_approve_off_and_an_operator_can_waive_it(client):
    where = make.repository(policy={"forbidden_paths": ["clock.py"]})
    request = waiting(where=where)
    client.force_login(make.person(P.REVIEWER, P.OPERATOR, name="olga"))
    shown = page(client, request)
    assert "disabled" in button(shown, "approve")
    assert "Approve is off: Paths does not pass and nobody has waived it." in text(shown)
    assert "Waive Paths" in text(shown)
    assert "Paths must pass or be waived before anybody may approve" in text(shown)
    waiver = {"guard": "paths", "reason": "agreed with the owners", "version": "1"}
    assert client.post(reverse("approval-waiver", args=[request.pk]), waiver).status_code == 303
    shown = page(client, request)
    assert "disabled" not in button(shown, "approve")
    assert "waived by olga: agreed with the owners" in text(shown)


# --- what is shown --------------------------------------------------------------------------------


def test_the_page_holds_what_was_done_against_what_was_asked(client, carol):
    holder = make.run_in(RunStatus.EXECUTING)
    holder.hand_in(make.patch_writing({"clock.py": make.EDITED, "pytest.ini": "[pytest]\n"}))
    make.drive(holder, WAITING)
    shown = text(page(client, ApprovalRequest.objects.get()))
    assert "Replace datetime.utcnow() by an aware time." in shown
    assert "2 files, +2 −1 on main@" in shown
    assert "The plan named 1 of them; 1 it did not : pytest.ini" in shown
    assert "low risk, raised to high by pytest.ini" in shown
    assert "Written by the agent. Not checked, not part of the evidence. replaced one call" in shown
    assert shown.index("pytest.ini risky path, not in the plan") < shown.rindex("clock.py")


def test_text_of_agents_and_people_is_text(client, carol):
    evil = "<script>alert(1)</script>"
    request = waiting(title=evil, instruction=evil, plan_approval="required")
    raw = page(client, request).content.decode()
    assert evil not in raw
    assert html.escape(evil) in raw


def test_a_plan_is_shown_beside_the_contract(client, carol):
    request = waiting(plan_approval="required", forbidden_paths=["secrets/**"])
    shown = text(page(client, request))
    assert "What is planned" in shown
    assert "replace one call" in shown
    assert "Never secrets/**" in shown.replace("Only", "")
    assert "Request changes" in shown


@pytest.mark.parametrize("plan_approval", ["required", "never"])
def test_every_gate_shows_what_will_be_run(client, carol, plan_approval):
    request = waiting(
        plan_approval=plan_approval,
        agent={"kind": "script", "command": "sed -i 's/a<b/c/' clock.py"},
        setup=["make deps"],
        verifiers=[{"name": "test", "command": "pytest -q", "timeout_seconds": 60}],
        working_directory="service",
    )
    shown = page(client, request)
    assert html.escape("sed -i 's/a<b/c/' clock.py") in shown.content.decode()
    said = text(shown)
    assert "Agent, script a shell line, run in the checkout, in service sed -i" in said
    assert "Setup before the agent, with network access make deps" in said
    assert "Verifier test at most 60 s pytest -q" in said


def test_a_long_command_is_cut_with_the_whole_behind_it_and_nothing_hides_in_it(client, carol):
    command = "echo go\u202e\n" + "true\n" * 40 + "rm last"
    request = waiting(plan_approval="required", agent={"kind": "script", "command": command})
    raw = page(client, request).content.decode()
    assert '<span class="mark-char"><i>U+202E</i><bdi>\u202e</bdi></span>' in raw
    head, _, whole = raw.partition("The whole command, 42 lines")
    assert "rm last" not in head
    assert "rm last" in whole


def test_where_the_work_was_done_is_said_as_it_is(client, carol):
    request = waiting()
    Run.objects.filter(pk=request.run_id).update(state={**request.run.state, "isolation": "process"})
    assert "so a person decides; none of them stops an approval" in text(page(client, request))
    assert "in a process of its own, not isolated from the worker's machine" in text(page(client, request))


def test_arguments_that_were_changed_are_approved_as_changed(client, carol):
    holder = make.run_in(RunStatus.EXECUTING)
    holder.post(
        Ev.TOOL_REQUESTED, operation_id="op-1", tool="shell", arguments={"command": "make"},
        label="make", requires_approval=True,
    )  # fmt: skip
    request = ApprovalRequest.objects.get()
    shown = page(client, request)
    assert "&quot;command&quot;: &quot;make&quot;" in shown.content.decode()
    assert 'value="request_changes"' not in shown.content.decode()
    assert post(client, request, arguments="{not json").status_code == 422
    assert post(client, request, arguments='{"command": "make test"}').status_code == 303
    assert holder.state.pending["op-1"]["arguments"] == {"command": "make test"}


def test_the_answer_to_a_question_is_the_comment(client, carol):
    holder = make.run_in(RunStatus.EXECUTING)
    holder.post(Ev.QUESTION_ASKED, question="Which zone?", choices=["UTC", "local"])
    request = ApprovalRequest.objects.get()
    shown = text(page(client, request))
    assert "Which zone?" in shown
    assert "Answer" in shown
    assert post(client, request, comment="UTC").status_code == 303
    assert holder.state.feedback == {"source": "answer", "text": "UTC", "artifact_id": ""}


def test_a_budget_is_raised_on_its_page(client, carol):
    where = make.repository(policy={"on_budget_exceeded": "ask"})
    holder = make.run_in(RunStatus.EXECUTING, where=where, budget={"max_cost_usd": "1"})
    holder.post(Ev.MODEL_DECISION, decision="tool", cost_usd="1.50")
    request = ApprovalRequest.objects.get()
    assert "$1.50 of $1.00 are spent" in text(page(client, request))
    assert post(client, request, max_cost_usd="1").status_code == 422
    assert post(client, request, max_cost_usd="4").status_code == 303
    assert holder.state.budget["max_cost_usd"] == "4"


def test_an_open_page_learns_that_the_request_has_changed(client, carol):
    request = waiting()
    address = reverse("approval-standing", args=[request.pk])
    shown = {"version": "1", "subject_sha256": request.subject_sha256}
    fresh = client.get(address, shown)
    assert "data-live" in fresh.content.decode()
    assert client.get(address, shown, headers={"If-None-Match": fresh["ETag"]}).status_code == 304
    assert "has changed" in text(client.get(address, {**shown, "version": "0"}))
    post(client, request)
    over = client.get(address, shown)
    assert "carol approved this" in text(over)
    assert "data-live" not in over.content.decode()
