"""What a worker says while it works: bytes that grow, until the step's end seals them into an artifact."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class LiveLog(models.Model):
    """The output of one operation under one lease. A worker that takes over begins its own."""

    run = models.ForeignKey("runs.Run", on_delete=models.PROTECT, related_name="live_logs", db_index=False)
    operation_id = models.CharField(max_length=220)
    fence = models.BigIntegerField(help_text="The lease under which it was written.")
    worker_id = models.CharField(max_length=40)
    size = models.BigIntegerField(default=0)
    artifact = models.ForeignKey(
        "runs.Artifact",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        help_text="Its bytes, once nothing is added any more.",
    )
    masked = models.BooleanField(
        default=False, db_default=False, help_text="Something in it looked like a secret and was masked."
    )
    created_at = models.DateTimeField()

    class Meta:
        db_table = "live_logs"
        constraints = [
            models.UniqueConstraint(fields=["run", "operation_id", "fence"], name="one_log_per_lease")
        ]
        indexes = [
            models.Index(fields=["run"], name="live_logs_unsealed", condition=Q(artifact__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.operation_id} of {self.run_id}"


class LogChunk(models.Model):
    """Bytes of a live log from ``start`` on; gone when the log is sealed."""

    log = models.ForeignKey(LiveLog, on_delete=models.CASCADE, related_name="chunks", db_index=False)
    start = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        db_table = "log_chunks"
        constraints = [models.UniqueConstraint(fields=["log", "start"], name="one_chunk_per_start")]

    def __str__(self) -> str:
        return f"{len(self.data)} bytes from {self.start}"
