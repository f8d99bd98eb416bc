"""What people are told of a change: its risk and why, its bytes' digest, what became of its base."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Person, Run, RunEvent
from runs.pull_requests.run import create_pull_requests
from tests import factories as make
from tests.pushing import bring, commit_to_main

pytestmark = pytest.mark.django_db

S = RunStatus


@pytest.fixture
def olga(client: Client) -> Person:
    somebody = make.person(PersonRole.OPERATOR, name="olga")
    client.force_login(somebody)
    return somebody


def text(response: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def test_the_risk_and_why_it_is_that_stand_on_the_page_and_in_the_api(client: Client, olga: Person):
    careful = make.run_in(S.PLANNING, risk_level="high")
    raised = make.run_in(S.EXECUTING)
    told_risk(client, careful, "high", "as asked for: plan and patch are approved by a person")
    told_risk(
        client, raised, "low", "as asked for; high as soon as a patch touches risky paths of the policy"
    )
    raised.hand_in(make.patch_writing({"clock.py": make.EDITED, "pytest.ini": "[pytest]\n"}))
    told_risk(client, raised, "high", "raised from low: the patch touches risky paths of the policy")


def told_risk(client: Client, holder: make.Holder, level: str, why: str) -> None:
    task = client.get(f"/api/v1/tasks/{holder.run.task_id}").json()
    assert task["risk"] == {"level": level, "why": why}
    assert f"Risk {level}, {why}" in text(client.get(reverse("task", args=[holder.run.task_id])))


@pytest.mark.parametrize("mode", ["analysis_report_created", "patch_ready_for_review"])
def test_what_a_run_hands_out_is_downloaded_with_its_digest(client: Client, olga: Person, mode: str):
    holder = make.run_in(S.EXECUTING, completion_mode=mode)
    if mode == "analysis_report_created":
        holder.report(b"# Found\n")
        holder.judge()
    else:
        make.drive(holder, S.JUDGING).judge()
    run = client.get(f"/api/v1/runs/{holder.run_id}").json()
    assert run["status"] == S.SUCCEEDED
    artifact_id = run["output_path"].rstrip("/").rpartition("/")[2]
    on_page = client.get(reverse("run", args=[holder.run_id])).content.decode()
    assert reverse("artifact", args=[artifact_id]) in on_page
    for address in (run["output_path"], reverse("artifact", args=[artifact_id])):
        got: Any = client.get(address)
        data = b"".join(got.streaming_content)
        assert data in (b"# Found\n", holder.patch)
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assert got["Repr-Digest"] == f"sha-256=:{digest}:"


def test_a_base_that_moved_into_conflict_is_said_with_what_to_do_and_met_by_a_new_run(
    client: Client, olga: Person, tmp_path
):
    origin = make.make_origin(tmp_path / "origin")
    holder = bring(origin)
    commit_to_main(origin, {"clock.py": "def now():\n    return None\n"})
    create_pull_requests()
    run = client.get(f"/api/v1/runs/{holder.run_id}").json()
    assert (run["status"], run["failure"]["reason"]) == (S.FAILED, "base_conflict")
    assert "What helps is a new run: it starts from today's base." in run["failure"]["summary"]
    shown = text(client.get(reverse("run", args=[holder.run_id])))
    assert "What helps is a new run: it starts from today's base." in shown
    following = Run.objects.get(task_id=holder.run.task_id, attempt_no=2)
    assert (following.status, following.state["base_commit"]) == (S.QUEUED, "")


def test_a_creation_that_failed_is_tried_again_without_the_agent(client: Client, olga: Person, tmp_path):
    origin = make.make_origin(tmp_path / "origin")
    holder = bring(origin)
    away = origin.path.rename(tmp_path / "away")
    create_pull_requests()
    before = RunEvent.objects.filter(run=holder.run_id).latest("sequence").sequence
    away.rename(origin.path)
    Run.objects.filter(pk=holder.run_id).update(not_before=None)
    create_pull_requests()
    after = RunEvent.objects.filter(run=holder.run_id, sequence__gt=before).order_by("sequence")
    assert [event.event_type for event in after] == [
        "lease_acquired",
        "pr_created",
        "completion_condition_met",
    ]
    assert client.get(f"/api/v1/runs/{holder.run_id}").json()["status"] == S.SUCCEEDED
