"""Tasks, their instructions and their log."""

from __future__ import annotations

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models

from agentplatform.ids import new_id
from runs.domain.tasks import TASK_MOVES, task_edges
from runs.domain.vocabulary import TASK_FINAL, CompletionMode, Risk, TaskStatus
from runs.models.guards import append_only, legal_events, starts_as
from runs.models.lifecycle import TaskLifecycle
from runs.models.search import request_words, words_index

TASK_CELLS = {("task_created", "", "DRAFT"), *((e.value, a.value, b.value) for e, a, b in task_edges())}


def task_id() -> str:
    """A new task's id."""
    return new_id("task")


class Task(TaskLifecycle):
    """A request for work. Its row is a projection of its log; only the service writes it."""

    id = models.CharField(primary_key=True, max_length=40, default=task_id, editable=False)
    title = models.CharField(max_length=500)
    repository = models.ForeignKey("runs.Repository", on_delete=models.PROTECT, related_name="tasks")
    completion_mode = models.CharField(max_length=40, choices=[(m.value, m.label) for m in CompletionMode])
    risk_level = models.CharField(max_length=10, choices=[(r.value, r.label) for r in Risk])
    priority = models.SmallIntegerField(default=5)
    labels = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    needs = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    contract = models.JSONField()
    state = models.JSONField(default=dict)
    rejection_reasons = models.JSONField(default=list)
    dedupe_key = models.CharField(max_length=255, blank=True)
    idempotency_key = models.CharField(max_length=255, blank=True)
    request_fingerprint = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey("runs.Person", on_delete=models.PROTECT, related_name="tasks")
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="follow_ups"
    )
    campaign = models.ForeignKey(
        "runs.Campaign", null=True, blank=True, on_delete=models.PROTECT, related_name="tasks"
    )
    runs_made = models.PositiveIntegerField(default=0)
    latest_run_id = models.CharField(max_length=40, blank=True)
    version = models.BigIntegerField(default=0)
    chain_hash = models.CharField(max_length=64, blank=True)
    chain_mac = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "tasks"
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="tasks_newest"),
            models.Index(fields=["repository", "-created_at"], name="tasks_by_repository"),
            models.Index(fields=["status", "-created_at"], name="tasks_by_status"),
            models.Index(
                fields=["-created_at", "-id"],
                name="tasks_unfinished",
                condition=~models.Q(status__in=sorted(s.value for s in TASK_FINAL)),
            ),
            words_index("tasks_by_words", request_words()),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=[s.value for s in TaskStatus]), name="tasks_status_check"
            ),
            models.UniqueConstraint(
                fields=["repository", "dedupe_key"],
                condition=~models.Q(dedupe_key="")
                & ~models.Q(status__in=sorted(s.value for s in TASK_FINAL)),
                name="one_unfinished_task_per_key",
            ),
            models.UniqueConstraint(
                fields=["created_by", "idempotency_key"],
                condition=~models.Q(idempotency_key=""),
                name="one_task_per_idempotency_key",
            ),
        ]
        triggers = [
            pgtrigger.FSM(
                name="tasks_moves", field="status", transitions=[(a.value, b.value) for a, b in TASK_MOVES]
            ),
            starts_as("tasks_start", TaskStatus.DRAFT.value),
        ]

    def __str__(self) -> str:
        return self.title


class Instruction(models.Model):
    """One numbered input to a task: the first prompt, or what a reviewer asks for later."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="instructions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    author = models.ForeignKey("runs.Person", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "instructions"
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["task", "number"], name="one_instruction_number")]

    def __str__(self) -> str:
        return f"{self.number}: {self.text[:60]}"


class TaskEvent(models.Model):
    """One immutable move of a task."""

    id = models.CharField(primary_key=True, max_length=40)
    # A deleted draft leaves its log behind, therefore no constraint in the database.
    task = models.ForeignKey(Task, on_delete=models.DO_NOTHING, db_constraint=False, related_name="events")
    sequence = models.BigIntegerField()
    event_type = models.CharField(max_length=50)
    from_status = models.CharField(max_length=30, blank=True)
    to_status = models.CharField(max_length=30)
    actor_type = models.CharField(max_length=20)
    actor_id = models.CharField(max_length=40)
    actor_name = models.CharField(max_length=200)
    payload = models.JSONField()
    facts = models.JSONField()
    schema_version = models.PositiveSmallIntegerField(default=1)
    recorded_at = models.DateTimeField()
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "task_events"
        constraints = [models.UniqueConstraint(fields=["task", "sequence"], name="task_events_sequence")]
        triggers = [
            *append_only("task_events"),
            legal_events("task_events_legal", "task_events", "task_id", TASK_CELLS),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} {self.sequence} {self.event_type}"
