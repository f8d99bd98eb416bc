"""What administrators did: one row for each act, never changed (lifecycle contract, section 16)."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models.functions import Now

from runs.models.guards import append_only


class Act(StrEnum):
    """What was done to a row."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


class AuditEntry(models.Model):
    """Who changed what of the platform's own setup, when, why, and how it was before and after.

    Runs and tasks are not told of here: their own logs are. ``before`` and ``after`` hold the fields that
    differ, as JSON; what is secret stands there as a mark that only shows whether it changed.
    """

    at = models.DateTimeField(db_default=Now())
    by = models.CharField(max_length=200, help_text="Name of the person, or `command line`.")
    by_id = models.CharField(max_length=40, blank=True)
    act = models.CharField(max_length=10, choices=[(a.value, a.value) for a in Act])
    kind = models.CharField(max_length=60, help_text="What kind of thing it was done to.")
    target_id = models.CharField(max_length=200)
    target = models.CharField(max_length=300, help_text="Its name at that time.")
    note = models.TextField(blank=True, help_text="What was done, in words.")
    reason = models.TextField(blank=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        db_table = "audit_entries"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["kind", "target_id"], name="audit_by_target"),
            models.Index(fields=["by_id", "-id"], name="audit_by_person"),
        ]
        triggers = append_only("audit_entries")

    def __str__(self) -> str:
        return f"{self.by} {self.act} {self.kind} {self.target}"[:200]
