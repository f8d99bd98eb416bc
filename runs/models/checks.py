"""What keeps rows and log honest: folds to go on from, and what a check found."""

from __future__ import annotations

from django.db import models


class FoldCheckpoint(models.Model):
    """What the first events of a long run add up to, so that a check need not read them all again.

    Only a cache: it is keyed like a chain head, belongs to the code that folded it, and may be deleted.
    """

    run = models.OneToOneField("runs.Run", on_delete=models.PROTECT, primary_key=True, related_name="+")
    sequence = models.BigIntegerField(help_text="The last event in it.")
    event_hash = models.CharField(max_length=64, help_text="That event's link in the chain.")
    folded_by = models.CharField(max_length=64, help_text="Digest of the code that folded it.")
    content = models.TextField(help_text="State, attempts, steps and further rows, as canonical JSON.")
    mac = models.CharField(max_length=64)
    saved_at = models.DateTimeField()

    class Meta:
        db_table = "fold_checkpoints"

    def __str__(self) -> str:
        return f"{self.run_id} up to {self.sequence}"


class Alarm(models.Model):
    """Something in rows or log that is not as the product wrote it; gone when it is right again."""

    ROWS, LOG = "rows", "log"

    kind = models.CharField(max_length=10, choices=[(ROWS, "Rows differ from the log"), (LOG, "Edited log")])
    stream = models.CharField(max_length=40, help_text="The run or task.")
    place = models.CharField(max_length=400)
    detail = models.TextField()
    found_at = models.DateTimeField(help_text="When it was first seen.")

    class Meta:
        db_table = "alarms"
        ordering = ["-found_at", "id"]
        constraints = [models.UniqueConstraint(fields=["stream", "kind", "place"], name="one_alarm")]

    def __str__(self) -> str:
        return f"{self.stream} {self.place}"


class LogCheck(models.Model):
    """One look at all rows and logs."""

    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    streams = models.BigIntegerField(default=0, help_text="Runs and tasks looked at.")
    alarms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "log_checks"
        ordering = ["-started_at"]

    def __str__(self) -> str:
        return f"check of {self.started_at:%Y-%m-%d %H:%M}"
