"""Runs and their log. A run's row is a projection of its events; only the store writes it."""

from __future__ import annotations

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from runs.domain.facts import Actor, Event, stamp
from runs.domain.table import MOVES, edges
from runs.domain.vocabulary import (
    ACTIVE,
    TERMINAL,
    AttemptState,
    RunStatus,
    StepState,
)
from runs.models.guards import append_only, legal_events, no_delete, starts_as
from runs.models.lifecycle import RunLifecycle
from runs.models.search import Words, words_index

RUN_CELLS = {("run_created", "", "CREATED"), *((e.value, a.value, b.value) for e, a, b in edges())}
_TERMINAL = sorted(s.value for s in TERMINAL)


class Run(RunLifecycle):
    """One execution of a task."""

    id = models.CharField(primary_key=True, max_length=40, editable=False)
    task = models.ForeignKey("runs.Task", on_delete=models.PROTECT, related_name="runs", db_index=False)
    repository = models.ForeignKey("runs.Repository", on_delete=models.PROTECT, related_name="+")
    attempt_no = models.PositiveIntegerField(help_text="Which run of its task this is, from 1.")
    status_reason = models.TextField(blank=True)
    worker_id = models.CharField(max_length=40, blank=True, help_text="The last worker that held it.")
    state = models.JSONField(default=dict, help_text="The fold of the run's events.")
    directive = models.CharField(max_length=10, default="continue")
    fence = models.BigIntegerField(default=0)
    # What a claim looks for. claim_role is empty while the run is leased or not claimable.
    claim_role = models.CharField(max_length=20, blank=True)
    begun = models.BooleanField(default=False)
    queue_key = models.BigIntegerField(
        default=0, help_text="Smaller goes first: age in seconds less priority."
    )
    not_before = models.DateTimeField(null=True, blank=True)
    idle_since = models.DateTimeField(null=True, blank=True, help_text="Since when nobody holds it.")
    needs = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    failure_category = models.CharField(max_length=30, blank=True)
    gate = models.CharField(max_length=20, blank=True)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=12, default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="When the sweep would next act on it, leases aside."
    )
    status_since = models.DateTimeField()
    version = models.BigIntegerField(default=0, help_text="The sequence of its last event.")
    chain_hash = models.CharField(max_length=64, blank=True)
    chain_mac = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "runs"
        indexes = [
            models.Index(fields=["task"], name="idx_runs_task_id"),
            models.Index(fields=["status"], name="idx_runs_status"),
            models.Index(
                fields=["status", "updated_at"],
                name="idx_runs_active",
                condition=~Q(status__in=_TERMINAL),
            ),
            models.Index(fields=["-created_at", "-id"], name="runs_newest"),
            models.Index(
                fields=["-created_at", "-id"],
                name="runs_unfinished",
                condition=~Q(status__in=_TERMINAL),
            ),
            models.Index(fields=["repository", "-created_at", "-id"], name="runs_by_repository"),
            models.Index(
                fields=["claim_role", "begun", "repository", "queue_key", "id"],
                name="runs_to_claim",
                condition=~Q(claim_role=""),
            ),
            models.Index(fields=["not_before"], name="runs_to_come", condition=~Q(claim_role="")),
            models.Index(
                fields=["expires_at"],
                name="runs_to_sweep",
                condition=~Q(status__in=_TERMINAL) & Q(expires_at__isnull=False),
            ),
            words_index("runs_by_words", Words("status_reason"), condition=~Q(status_reason="")),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=[s.value for s in RunStatus]), name="runs_status_check"
            ),
            models.UniqueConstraint(fields=["task", "attempt_no"], name="one_run_number_per_task"),
            models.UniqueConstraint(
                fields=["task"], condition=~Q(status__in=_TERMINAL), name="one_unfinished_run_per_task"
            ),
        ]
        triggers = [
            pgtrigger.FSM(
                name="runs_moves", field="status", transitions=[(a.value, b.value) for a, b in MOVES]
            ),
            starts_as("runs_start", RunStatus.CREATED.value),
            no_delete("runs_no_delete"),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.status in ACTIVE


class RunEvent(models.Model):
    """One immutable fact of a run."""

    id = models.CharField(primary_key=True, max_length=40)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="events", db_index=False)
    sequence = models.BigIntegerField()
    event_type = models.CharField(max_length=50)
    from_status = models.CharField(max_length=30, blank=True)
    to_status = models.CharField(max_length=30)
    attempt = models.PositiveIntegerField(default=0)
    actor_type = models.CharField(max_length=20)
    actor_id = models.CharField(max_length=40)
    actor_name = models.CharField(max_length=200)
    fence = models.BigIntegerField(default=0)
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001  NULL is not unique
    request_fingerprint = models.CharField(max_length=64, blank=True)
    parent = models.BigIntegerField(default=0, help_text="The sequence of the event that it follows up.")
    payload = models.JSONField()
    facts = models.JSONField()
    schema_version = models.PositiveSmallIntegerField(default=1)
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField()
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "run_events"
        constraints = [
            models.UniqueConstraint(fields=["run", "sequence"], name="run_events_sequence"),
            models.UniqueConstraint(fields=["run", "idempotency_key"], name="run_events_key"),
        ]
        triggers = [
            *append_only("run_events"),
            legal_events("run_events_legal", "run_events", "run_id", RUN_CELLS),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.sequence} {self.event_type}"

    def as_fact(self) -> Event:
        """The stored event as the domain sees it."""
        return Event(
            run_id=self.run_id,
            sequence=self.sequence,
            type=self.event_type,
            from_status=self.from_status,
            to_status=self.to_status,
            attempt=self.attempt,
            actor=Actor(self.actor_type, self.actor_id, self.actor_name),
            fence=self.fence,
            payload=self.payload,
            facts=self.facts,
            recorded_at=stamp(self.recorded_at),
            occurred_at=stamp(self.occurred_at),
            schema_version=self.schema_version,
            id=self.pk,
            key=self.idempotency_key or "",
            fingerprint=self.request_fingerprint,
            parent=self.parent,
            previous_hash=self.previous_hash,
            hash=self.hash,
        )


class Attempt(models.Model):
    """One strategy inside a run; a projection."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=20, choices=[(s.value, s.label) for s in AttemptState])
    strategy = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    failure = models.JSONField(null=True, blank=True)
    used = models.JSONField(default=dict)

    class Meta:
        db_table = "attempts"
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_attempt_number")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.run_id}"


class Step(models.Model):
    """One action inside an attempt; a projection."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="steps", db_index=False)
    operation_id = models.CharField(max_length=220)
    attempt = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=20)
    tool = models.CharField(max_length=200, blank=True)
    label = models.TextField(blank=True)
    arguments = models.JSONField(default=dict)
    effect = models.CharField(max_length=20)
    state = models.CharField(max_length=20, choices=[(s.value, s.label) for s in StepState])
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.BigIntegerField(null=True, blank=True)
    exit_code = models.BigIntegerField(null=True, blank=True)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=12, null=True, blank=True)
    summary = models.TextField(blank=True)
    output_artifact_id = models.CharField(max_length=40, blank=True)
    requested_sequence = models.BigIntegerField(default=0)
    completed_sequence = models.BigIntegerField(null=True, blank=True)

    class Meta:
        db_table = "steps"
        ordering = ["requested_sequence"]
        constraints = [models.UniqueConstraint(fields=["run", "operation_id"], name="one_step_per_operation")]

    def __str__(self) -> str:
        return f"{self.operation_id} of {self.run_id}"


class RunWatch(models.Model):
    """Somebody waits for the next event of a run's log; who writes one until then rings the bell."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.PROTECT, related_name="watch")
    until = models.DateTimeField()

    class Meta:
        db_table = "run_watches"
        verbose_name_plural = "run watches"

    def __str__(self) -> str:
        return f"{self.run_id} until {self.until:%H:%M:%S}"
