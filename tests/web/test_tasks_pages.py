"""The pages of tasks: make, edit, queue, retry, archive; what is typed is never lost."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.domain.vocabulary import Ev, PersonRole, RunStatus, TaskStatus
from runs.models import Person, Repository, Task
from runs.rebuild import assert_folds
from tests import factories as make
from tests.web.test_runs_pages import text

pytestmark = pytest.mark.django_db
P, S = PersonRole, RunStatus


@pytest.fixture
def alice(client: Client) -> Person:
    somebody = make.person(P.SUBMITTER, name="alice")
    client.force_login(somebody)
    return somebody


@pytest.fixture
def where() -> Repository:
    return make.repository("clock")


def typed(**fields: str) -> dict[str, str]:
    """What a browser posts from the filled form."""
    return {
        "title": "Replace utcnow",
        "repository": "clock",
        "instruction": "Use aware times.",
        "completion_mode": "pr_created",
        "risk_level": "low",
        "agent_kind": "script",
        "agent_command": "ruff check --fix .",
        "plan_approval": "never",
        "priority": "5",
        "labels": "migration, python",
        "allowed_paths": "clock/**\n\ntests/**",
        "budget_max_cost_usd": "2.50",
        "timeout_step": "60",
        "v-TOTAL_FORMS": "3",
        "v-INITIAL_FORMS": "0",
        "v-0-name": "test",
        "v-0-command": "pytest -q",
        "v-0-timeout_seconds": "",
        **fields,
    }


def make_by_form(client: Client, **fields: str) -> Any:
    return client.post(reverse("task_new"), typed(**fields), follow=True)


def act(client: Client, task: Task, action: str, **fields: str) -> Any:
    return client.post(reverse("task_action", args=[task.pk, action]), fields, follow=True)


def test_the_form_makes_the_contract_that_was_typed(client: Client, alice: Person, where: Repository):
    answer = make_by_form(client, submit="1")
    task = Task.objects.get()
    assert task.status == TaskStatus.RUNNING
    assert task.contract["verifiers"] == [{"name": "test", "command": "pytest -q", "timeout_seconds": 600}]
    assert task.contract["allowed_paths"] == ["clock/**", "tests/**"]
    assert task.contract["budget"] == {"max_cost_usd": "2.50"}
    assert task.contract["timeouts"] == {"step": 60}
    assert task.labels == ["migration", "python"]
    assert "Queued." in text(answer)


def test_a_draft_is_kept_edited_queued_and_deleted(client: Client, alice: Person, where: Repository):
    make_by_form(client)
    draft = Task.objects.get()
    assert draft.status == TaskStatus.DRAFT
    form = client.get(reverse("task_edit", args=[draft.pk])).content.decode()
    assert 'value="pytest -q"' in form
    assert "clock/**" in form
    client.post(reverse("task_edit", args=[draft.pk]), typed(title="Better"))
    assert Task.objects.get().title == "Better"
    act(client, draft, "submit")
    assert Task.objects.get().status == TaskStatus.RUNNING
    other = make.task(where, alice, submit=False)
    assert "Draft deleted." in text(act(client, other, "delete"))
    assert not Task.objects.filter(pk=other.pk).exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"title": ""}, "This field is required"),
        ({"base_branch": "-x"}, "must be a branch name that git accepts"),
        ({"v-0-name": "no spaces"}, "Verifiers: each name must be"),
        ({"budget_max_runs": "many"}, "Budget: max_runs must be a whole number"),
        ({"v-0-timeout_seconds": "soon"}, "timeout_seconds of test must be a whole number"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_typed_is_lost(
    client: Client, alice: Person, where: Repository, fields: dict[str, str], said: str
):
    answer = make_by_form(client, instruction="A long thought", submit="1", **fields)
    assert answer.status_code == 422
    assert said in text(answer)
    assert "A long thought" in answer.content.decode()
    assert "pytest -q" in answer.content.decode()
    assert not Task.objects.exists()


def test_a_double_click_makes_one_task(client: Client, alice: Person, where: Repository):
    for _ in range(2):
        make_by_form(client, submit="1", idempotency_key="once")
    assert Task.objects.count() == 1


def test_a_rejected_task_says_every_reason(client: Client, alice: Person):
    make.repository("clock", policy={"risk_ceiling": "low", "required_verifiers": ["lint"]})
    answer = make_by_form(client, risk_level="high", submit="1")
    found = text(answer)
    assert "Risk high is above what the repository allows (low)." in found
    assert "Required verifiers are missing: lint." in found
    assert "Failed" in found


def test_only_their_repositories_are_offered(client: Client, where: Repository):
    make.repository("shop")
    client.force_login(make.person(P.SUBMITTER, repository=where))
    form = client.get(reverse("task_new")).content.decode()
    assert 'value="clock"' in form
    assert "shop" not in form
    assert make_by_form(client, repository="shop").status_code == 422
    assert not Task.objects.exists()


def test_a_viewer_may_not_ask_for_work(client: Client, where: Repository):
    client.force_login(make.person(P.VIEWER))
    assert client.get(reverse("task_new")).status_code == 403
    assert "New task" not in text(client.get(reverse("tasks")))


def test_an_instruction_is_added_and_numbered(client: Client, alice: Person, where: Repository):
    task = make.task(where, alice)
    answer = act(client, task, "instructions", text="Leave generated files alone.")
    assert "2 · alice" in text(answer)
    assert "Leave generated files alone." in text(answer)


def test_the_owner_cancels_archives_restores_and_runs_again(client: Client, alice: Person, where: Repository):
    task = make.task(where, alice)
    assert "reason is required" in text(act(client, task, "cancel"))
    act(client, task, "cancel", reason="changed my mind")
    assert Task.objects.get(pk=task.pk).status == TaskStatus.CANCELLED
    act(client, task, "archive")
    assert task.title not in text(client.get(reverse("tasks")))
    assert task.title in text(client.get(reverse("tasks") + "?display=archived"))
    act(client, task, "restore")
    again = act(client, task, "run_again", idempotency_key="again-1")
    assert "Made again from" in text(again)
    assert Task.objects.filter(parent=task).count() == 1


def test_renewed_access_starts_a_blocked_task_again(client: Client, alice: Person):
    holder = make.run_in(S.PREPARING, by=alice)
    failure = {"category": "REPOSITORY_ACCESS", "reason": "clone_failed", "summary": "The key was refused."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    task = Task.objects.get(pk=holder.run.task_id)
    page = text(client.get(reverse("task", args=[task.pk])))
    assert "Blocked" in page
    assert "Say when access is renewed." in page
    act(client, task, "access_renewed")
    assert Task.objects.get(pk=task.pk).status == TaskStatus.RUNNING


def test_another_submitter_may_look_and_not_touch(client: Client, alice: Person, where: Repository):
    task = make.task(where, make.person(P.SUBMITTER))
    assert client.get(reverse("task", args=[task.pk])).status_code == 200
    assert act(client, task, "cancel", reason="mine now").status_code == 403
    assert client.get(reverse("task_edit", args=[task.pk])).status_code == 403


def test_priority_and_labels_of_an_active_task_may_change(client: Client, alice: Person, where: Repository):
    task = make.task(where, alice)
    url = reverse("task_edit", args=[task.pk])
    assert "Only priority and labels" in text(client.get(url))
    client.post(url, {"priority": "8", "labels": "urgent"})
    task = Task.objects.get(pk=task.pk)
    assert (task.priority, task.labels) == (8, ["urgent"])
    wrong = client.post(url, {"priority": "8", "labels": "not a label!"})
    assert (wrong.status_code, "each must be" in text(wrong)) == (422, True)


def test_tasks_are_searched_by_words_and_label(client: Client, alice: Person, where: Repository):
    make.task(where, alice, title="Type the billing", labels=["typing"])
    make.task(where, alice, title="Replace utcnow")
    assert "Replace utcnow" not in text(client.get(reverse("tasks") + "?q=billing"))
    assert "Type the billing" in text(client.get(reverse("tasks") + "?q=BILLING"))
    assert "Replace utcnow" not in text(client.get(reverse("tasks") + "?label=typing"))
    assert client.get(reverse("tasks") + "?q=%00").status_code == 200


def test_a_finished_task_stops_asking_the_server(client: Client, alice: Person, where: Repository):
    task = make.task(where, alice)
    url = reverse("task", args=[task.pk])
    assert "data-live" in client.get(url).content.decode()
    act(client, task, "cancel", reason="done with it")
    assert "data-live" not in client.get(url).content.decode()


def test_a_task_in_review_can_be_archived_as_soon_as_it_ends(client: Client):
    somebody = make.person(PersonRole.OPERATOR)
    client.force_login(somebody)
    make.person(PersonRole.REVIEWER)
    run = make.run_in(RunStatus.WAITING_FOR_APPROVAL).run
    page = client.get(f"/tasks/{run.task_id}/")
    assert "Archive after" in page.content.decode()
    client.post(f"/tasks/{run.task_id}/archive_after/")
    client.post(f"/tasks/{run.task_id}/archive_after/")
    shown = client.get(f"/tasks/{run.task_id}/").content.decode()
    assert "Archive after" not in shown
    assert shown.count("To be archived when it ends") == 1
    assert Task.objects.get(pk=run.task_id).archived_at is None
    client.post(f"/runs/{run.pk}/cancel/", {"reason": "Enough."})
    task = Task.objects.get(pk=run.task_id)
    assert (task.status, bool(task.archived_at)) == ("CANCELLED", True)
    client.post(f"/tasks/{run.task_id}/restore/")
    assert Task.objects.get(pk=run.task_id).archived_at is None
    assert_folds(run.task_id)
