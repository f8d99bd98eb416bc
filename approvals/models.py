"""Approval requests, votes and waivers. A request is opened and closed by the run's own events."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from approvals.asking.models import Absence, AskedPerson, Handle, RepositoryOwner, Team
from approvals.notices.models import Letter, Notice, Preference, Room, Webhook
from runs.domain.vocabulary import ApprovalStatus, DecisionWord, Gate

__all__ = [
    "Absence",
    "ApprovalRequest",
    "AskedPerson",
    "Decision",
    "Handle",
    "Letter",
    "Notice",
    "Preference",
    "RepositoryOwner",
    "Room",
    "Team",
    "Webhook",
]


class ApprovalRequest(models.Model):
    """One opening of a gate: what was shown, in which version, and how it ended."""

    id = models.CharField(primary_key=True, max_length=40)
    run = models.ForeignKey("runs.Run", on_delete=models.PROTECT, related_name="approvals")
    task = models.ForeignKey("runs.Task", on_delete=models.PROTECT, related_name="approvals")
    repository = models.ForeignKey("runs.Repository", on_delete=models.PROTECT, related_name="+")
    gate = models.CharField(max_length=20, choices=[(g.value, g.label) for g in Gate])
    status = models.CharField(
        max_length=20,
        default=ApprovalStatus.OPEN.value,
        choices=[(s.value, s.label) for s in ApprovalStatus],
    )
    version = models.PositiveIntegerField(default=1)
    subject_sha256 = models.CharField(max_length=64)
    subject = models.JSONField()
    guards = models.JSONField(default=list)
    effective_risk = models.CharField(max_length=10)
    needed = models.PositiveIntegerField(default=1)
    requested_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)
    on_timeout = models.CharField(
        max_length=10, default="cancel", help_text="What the policy does when it is overdue."
    )
    assigned = models.ForeignKey(
        "runs.Person", null=True, blank=True, on_delete=models.PROTECT, related_name="assigned_approvals"
    )
    snoozed_until = models.DateTimeField(null=True, blank=True)
    snoozed_by = models.CharField(max_length=200, blank=True)
    owners = models.JSONField(
        default=dict, help_text="Who owns what it is about: {source, people: [{id, why}], unknown: [handle]}."
    )
    clock_at = models.DateTimeField(null=True, blank=True, help_text="When it reminds or escalates next.")
    reminded_at = models.DateTimeField(null=True, blank=True)
    escalated_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_by = models.CharField(max_length=200, blank=True)
    close_reason = models.TextField(blank=True)

    class Meta:
        db_table = "approval_requests"
        constraints = [
            models.UniqueConstraint(
                fields=["run"], condition=Q(status="open"), name="one_open_request_per_run"
            )
        ]
        indexes = [
            models.Index(fields=["requested_at", "id"], name="requests_open", condition=Q(status="open")),
            models.Index(fields=["-requested_at", "-id"], name="requests_newest"),
            models.Index(
                fields=["clock_at"],
                name="requests_on_the_clock",
                condition=Q(status="open", clock_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gate} gate of {self.run_id}"


class Decision(models.Model):
    """One person's word on one request. Never changed."""

    request = models.ForeignKey(ApprovalRequest, on_delete=models.PROTECT, related_name="decisions")
    by = models.ForeignKey("runs.Person", on_delete=models.PROTECT, related_name="decisions")
    decision = models.CharField(max_length=20, choices=[(d.value, d.label) for d in DecisionWord])
    version = models.PositiveIntegerField()
    subject_sha256 = models.CharField(max_length=64)
    comment = models.TextField(blank=True)
    arguments = models.JSONField(null=True, blank=True)
    override = models.BooleanField(default=False)
    unread = models.PositiveIntegerField(
        default=0, help_text="Files of the patch that were approved without having been opened."
    )
    at = models.DateTimeField()

    class Meta:
        db_table = "approval_decisions"
        # A vote counts for the version it was given on; a newer version may be voted on again.
        constraints = [
            models.UniqueConstraint(fields=["request", "by", "version"], name="one_decision_per_version")
        ]
        ordering = ["at", "id"]

    def __str__(self) -> str:
        return f"{self.by}: {self.decision}"
