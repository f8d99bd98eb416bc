"""A migration that the version before could not live with is named before it goes out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from pgtrigger.compiler import Trigger
from pgtrigger.migrations import AddTrigger

from agentplatform.migration_lint import problems, words_of
from runs.models import Run, RunEvent


def migration(*operations: Any, name: str = "0099_it", **fields: Any) -> migrations.Migration:
    made = migrations.Migration(name, "runs")
    for field, value in {"operations": list(operations), **fields}.items():
        setattr(made, field, value)
    return made


def found(*operations: Any, **fields: Any) -> list[str]:
    return list(problems([migration(*operations, **fields)]))


INDEX = models.Index(fields=["status"], name="some")
FIELD = models.CharField(max_length=5)
RULE = models.UniqueConstraint(fields=["status"], name="one")
NOTHING = migrations.RunPython.noop


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("run", "more", FIELD),
        migrations.AddField("run", "more", models.IntegerField(default=3)),
        migrations.RemoveField("run", "status"),
        migrations.RenameField("run", "status", "state"),
        migrations.DeleteModel("Run"),
        migrations.RenameModel("Run", "Walk"),
        migrations.AlterModelTable("run", "walks"),
        migrations.AlterField("run", "status", FIELD),
        migrations.AddIndex("run", INDEX),
        migrations.AddConstraint("run", RULE),
        migrations.RunSQL("LOCK TABLE runs"),
        migrations.RunPython(NOTHING),
    ],
    ids=lambda one: f"{type(one).__name__}",
)
def test_what_the_version_before_cannot_live_with_is_a_problem_unless_it_is_explained(operation):
    (said,) = found(operation)
    assert said.startswith("runs.0099_it: ")
    assert found(operation, on_upgrade="because") == []
    assert found(operation, name="0001_initial") == []


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("run", "more", models.CharField(max_length=5, null=True)),
        migrations.AddField("run", "more", models.CharField(max_length=5, db_default="")),
        migrations.CreateModel("Walk", [("id", models.BigAutoField(primary_key=True))]),
        AddIndexConcurrently("run", INDEX),
        migrations.RemoveIndex("run", "some"),
    ],
    ids=lambda one: f"{type(one).__name__}",
)
def test_what_it_can_live_with_is_none(operation):
    assert found(operation) == []


def test_a_table_of_the_same_migration_is_nobodys_yet():
    made = migrations.CreateModel("Walk", [("id", models.BigAutoField(primary_key=True))])
    assert found(made, migrations.AddIndex("walk", INDEX), migrations.AddField("walk", "more", FIELD)) == []


def _guard(model: type[models.Model], name: str) -> Trigger:
    (one,) = [trigger for trigger in model._meta.triggers if trigger.name == name]  # type: ignore[attr-defined]
    compiled: Trigger = one.compile(model)
    return compiled


@pytest.mark.parametrize(
    ("model", "name", "dropped"),
    [
        (Run, "runs_moves", "QUEUED:LEASED"),
        (RunEvent, "run_events_legal", "run_enqueued:CREATED:QUEUED"),
    ],
)
def test_a_trigger_may_be_widened_and_not_narrowed(model, name, dropped):
    whole = _guard(model, name)
    assert dropped in words_of(whole)
    text = whole.install_sql
    narrow: Any = SimpleNamespace(
        name=name, install_sql=text.replace(f"'{dropped}',", "").replace(f"{dropped},", "")
    )
    steps: list[Any] = [AddTrigger(model._meta.model_name, one) for one in (narrow, whole)]
    first, second = migration(steps[0], name="0009_a"), migration(steps[1], name="0010_b")
    assert list(problems([first, second])) == []
    (said,) = problems(
        [migration(steps[1], name="0009_a"), migration(steps[0], name="0010_b", on_upgrade="no")]
    )
    assert dropped in said
    assert "widen first" in said
