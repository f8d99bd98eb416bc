"""A contract while it is written: checked as one types, taken from a file, begun from another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from runs.domain.contract import DEFAULTS
from runs.domain.contract_file import read_contract, write_contract
from runs.domain.errors import Invalid
from runs.domain.starts import STARTS
from runs.domain.vocabulary import PersonRole, TaskStatus
from runs.models import Person, Repository, Task
from tests import factories as make
from tests.web.test_runs_pages import text

pytestmark = pytest.mark.django_db
TOML = b"""
title = "Replace utcnow"
repository = "clock"
instruction = \"\"\"
Replace it
everywhere.\"\"\"
[agent]
kind = "script"
command = "true"
[[verifiers]]
name = "test"
command = "pytest -q"
timeout_seconds = 60
[budget]
max_cost_usd = "1.50"
"""
TYPED: dict[str, Any] = {
    "title": "Replace utcnow",
    "repository": "clock",
    "instruction": "Everywhere.",
    "completion_mode": "pr_created",
    "risk_level": "low",
    "agent_kind": "script",
    "agent_command": "true",
    "plan_approval": "never",
    "priority": "5",
    "v-TOTAL_FORMS": "1",
    "v-INITIAL_FORMS": "0",
    "v-0-name": "test",
    "v-0-command": "true",
    "v-0-timeout_seconds": "60",
}


@pytest.fixture
def sam(client: Client) -> Client:
    make.repository("clock", policy={"risk_ceiling": "medium"})
    client.force_login(make.person(PersonRole.SUBMITTER, name="sam"))
    return client


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({}, "the repository’s policy takes it"),
        ({"title": "", "instruction": ""}, "Still to fill: Title · Instruction"),
        ({"base_branch": "../x"}, "Base branch must be a branch name"),
        ({"agent_command": ""}, "Still to fill: Its command"),
        ({"risk_level": "high"}, "policy would not take it"),
        ({"repository": "elsewhere"}, "Still to fill: Repository"),
        ({"v-TOTAL_FORMS": "x"}, "callout"),
    ],
)
def test_the_form_is_checked_as_it_is_typed_and_nothing_is_made(sam: Client, typed: Any, said: str):
    answer = sam.post("/tasks/new/check/", {**TYPED, **typed})
    assert answer.status_code == 200
    assert said in (text(answer) if said != "callout" else answer.content.decode())
    assert not Task.objects.exists()


def test_a_file_fills_the_form_and_makes_nothing(sam: Client):
    answer = sam.post("/tasks/new/file/", {"file": SimpleUploadedFile("task.toml", TOML)})
    form = answer.context["form"]
    assert answer.status_code == 200
    assert (form["title"].value(), form["budget_max_cost_usd"].value()) == ("Replace utcnow", "1.50")
    assert "Replace it\neverywhere." in form["instruction"].value()
    assert answer.context["rows"].forms[0]["command"].value() == "pytest -q"
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("", "is empty"),
        ("{", "is no JSON"),
        ("title = ", "neither JSON nor TOML"),
        ("[1]", "must be a table"),
        ('{"titel": "x"}', "has no field titel"),
        ('{"title": "x", "priority": 99}', "priority must be a whole number"),
        ('{"title": ["x"], "agent": "script"}', "title must be text"),
        ('{"title": "x", "repository": "secret"}', "not one that you may ask work in"),
        ("title = 2026-11-30", "as a date"),
    ],
)
def test_a_wrong_file_says_what_is_wrong_and_loses_nothing(sam: Client, pasted: str, said: str):
    answer = sam.post("/tasks/new/file/", {"contract": pasted})
    assert answer.status_code == 422
    assert said in text(answer)
    assert answer.context["pasted"] == pasted


def test_a_contract_survives_being_a_file(sam: Client):
    where, sent = Repository.objects.get(name="clock"), read_contract(TOML)
    task = make.task(where, Person.objects.get(username="sam"), **sent, submit=False)
    shown = sam.get(f"/tasks/{task.pk}/contract.json")
    again = json.loads(shown.content)
    assert read_contract(write_contract(task.contract)) == again
    assert {name: again[name] for name in ("title", "agent", "verifiers")} == {
        name: sent[name] for name in ("title", "agent", "verifiers")
    }
    assert set(again) <= set(DEFAULTS)


def test_another_task_is_a_template_with_all_of_its_fields(sam: Client):
    where = Repository.objects.get(name="clock")
    task = make.task(where, title="Before", labels=["a"], allowed_paths=["clock/**"], priority=7)
    form = sam.get("/tasks/new/", {"from": task.pk}).context["form"]
    assert (form["title"].value(), form["priority"].value()) == ("Before", 7)
    assert form["allowed_paths"].value() == "clock/**"
    assert sam.get("/tasks/new/", {"from": "task_nowhere"}).status_code == 404


@pytest.mark.parametrize("start", [start.name for start in STARTS])
def test_each_start_is_a_contract_that_lacks_no_more_than_where_and_what(sam: Client, start: str):
    shown = sam.get("/tasks/new/", {"start": start}).context["form"]
    assert shown["agent_command"].value()
    assert shown["instruction"].value()


def test_no_size_of_file_is_read_whole():
    with pytest.raises(Invalid):
        read_contract(b"x" * ((1 << 20) + 1))


# --- many at once ----------------------------------------------------------------------------------------


def test_an_action_on_many_tasks_is_an_event_of_each_and_says_what_was_refused(sam: Client):
    where, me = Repository.objects.get(name="clock"), Person.objects.get(username="sam")
    mine = [make.task(where, me, submit=False).pk for _ in range(3)]
    others = make.task(where, submit=False, title="Not mine").pk
    answer = sam.post(
        "/tasks/bulk/", {"action": "archive", "task": [*mine, others, "task_nowhere"]}, follow=True
    )
    page = text(answer)
    assert "Done with 3 tasks." in page
    assert "Not mine:" in page
    assert "is not there" in page
    assert Task.objects.filter(archived_at__isnull=False).count() == 3


def test_a_script_hears_how_many_were_done(sam: Client):
    where, me = Repository.objects.get(name="clock"), Person.objects.get(username="sam")
    task = make.task(where, me)
    form, json_too = {"action": "cancel", "task": [task.pk], "reason": ""}, {"Accept": "application/json"}
    refused = sam.post("/tasks/bulk/", form, headers=json_too).json()
    assert refused == {"done": 0, "refused": ["Replace utcnow: reason is required"]}
    done = sam.post(
        "/tasks/bulk/", {**form, "reason": "Enough."}, headers={"Accept": "application/json"}
    ).json()
    assert done == {"done": 1, "refused": []}
    assert Task.objects.get().status == TaskStatus.CANCELLED


@pytest.mark.parametrize("form", [{"action": "delete", "task": ["x"]}, {"action": "archive"}, {}])
def test_nothing_is_done_without_a_choice_or_by_another_action(sam: Client, form: Any):
    answer = sam.post("/tasks/bulk/", form, follow=True)
    assert "choose" in text(answer)


def test_priority_and_labels_change_on_many(client: Client):
    client.force_login(make.person(PersonRole.OPERATOR))
    tasks = [make.task().pk for _ in range(2)]
    client.post("/tasks/bulk/", {"action": "priority", "priority": "8", "task": tasks})
    client.post("/tasks/bulk/", {"action": "label", "label": "soon", "task": tasks})
    assert [(task.priority, task.labels) for task in Task.objects.all()] == [(8, ["soon"])] * 2
    bad = client.post("/tasks/bulk/", {"action": "priority", "priority": "11", "task": tasks}, follow=True)
    assert "whole number from 0 to 9" in text(bad)
