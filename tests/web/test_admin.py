"""Admin reads histories and never writes them, whoever is signed in."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.db.models import Model
from django.urls import reverse

from runs import service
from runs.admin.base import History
from runs.domain.commands import Caller
from runs.domain.vocabulary import Role
from runs.models import Delivery, OutboxMessage, Person, Policy, Repository, Run, Task

pytestmark = pytest.mark.django_db


@pytest.fixture
def chief(client):
    person = Person.objects.create_superuser("chief", password="s3cret-enough")
    client.force_login(person)
    return person


@pytest.fixture
def run(chief) -> Run:
    policy = Policy.objects.create(name="repository:clock")
    repository = Repository.objects.create(name="clock", url="file:///nowhere", policy=policy)
    data = {
        "title": "Mend it",
        "instruction": "Mend it.",
        "agent": {"kind": "script", "command": "true"},
        "verifiers": [{"name": "test", "command": "true"}],
        "submit": True,
    }
    by = Caller(chief.pk, "chief", frozenset({Role.HUMAN}))
    task, _ = service.task_create(data=data, repository=repository, by=by)
    return Run.objects.get(pk=task.latest_run_id)


def _name(model: type[Model], page: str) -> str:
    return f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"


MODELS = sorted(
    (model for model in admin.site._registry if model._meta.app_label in ("runs", "approvals")),
    key=lambda model: model._meta.label,
)
HISTORIES = [model for model in MODELS if isinstance(admin.site._registry[model], History)]


def test_every_model_of_the_product_is_in_admin():
    from django.apps import apps

    own = {m for label in ("runs", "approvals") for m in apps.get_app_config(label).get_models()}
    shown_with_their_parent = {"AskedPerson", "RoleGrant", "PolicyVersion", "LogChunk"}
    kept_by_commands = {
        "EventArchive",
        "PeriodicTask",
    }  # beat's notes, and files that a page names
    missing = {m.__name__ for m in own - set(MODELS)}
    assert {name for name in missing if "_" not in name} == shown_with_their_parent | kept_by_commands


def test_histories_cannot_be_added_to(client, chief):
    for model in HISTORIES:
        assert client.post(reverse(_name(model, "add")), {}).status_code == 403, model


@pytest.mark.parametrize("model", [Run, Task])
def test_a_posted_status_changes_nothing(client, run, model):
    pk = run.pk if model is Run else run.task_id
    before = model.objects.filter(pk=pk).values().get()
    response = client.post(reverse(_name(model, "change"), args=[pk]), {"status": "SUCCEEDED"})
    assert response.status_code == 403
    assert model.objects.filter(pk=pk).values().get() == before


def test_runs_and_events_cannot_be_deleted(client, run):
    event = run.events.get(sequence=1)
    for row in (run, event):
        assert (
            client.post(reverse(_name(type(row), "delete"), args=[row.pk]), {"post": "yes"}).status_code
            == 403
        )
    chosen = {"action": "delete_selected", "_selected_action": [run.pk]}
    client.post(reverse(_name(Run, "changelist")), chosen)
    assert Run.objects.filter(pk=run.pk).exists()
    assert run.events.count() == 2


def test_parked_messages_are_sent_again(client, run):
    message = OutboxMessage.objects.earliest("id")
    parked = Delivery.objects.create(
        message=message, consumer="test", stream=message.stream, state="parked", tries=12,
        next_try_at=message.created_at,
    )  # fmt: skip
    client.post(
        reverse(_name(Delivery, "changelist")),
        {"action": "requeue", "_selected_action": [parked.pk], "reason": "The room is back."},
    )
    parked.refresh_from_db()
    assert (parked.state, parked.tries) == ("pending", 0)
