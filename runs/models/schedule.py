"""When the nightly tasks were last sent, whichever process did it."""

from __future__ import annotations

from django.db import models


class PeriodicTask(models.Model):
    """One nightly task of the schedule. Written by beat (``agentplatform.beat``), which takes over by it."""

    name = models.CharField(primary_key=True, max_length=200, help_text="Its name in the schedule.")
    sent_at = models.DateTimeField(help_text="When it was last sent.")

    class Meta:
        db_table = "periodic_tasks"

    def __str__(self) -> str:
        return self.name
