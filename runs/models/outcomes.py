"""What figures are counted over: one narrow row for each run that ended."""

from __future__ import annotations

from django.db import models


class RunOutcome(models.Model):
    """How a run ended; a projection, written with the event that ended it.

    Its own table, because a run's row carries its whole state: charts over 100,000 runs would read
    hundreds of megabytes for a few numbers of each.
    """

    run = models.OneToOneField("runs.Run", on_delete=models.PROTECT, primary_key=True, related_name="outcome")
    task = models.ForeignKey("runs.Task", on_delete=models.PROTECT, related_name="+", db_index=False)
    repository = models.ForeignKey(
        "runs.Repository", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    agent = models.CharField(max_length=40)
    status = models.CharField(max_length=30)
    failure_category = models.CharField(max_length=30, blank=True)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=12, default=0)
    verifier_repairs = models.PositiveIntegerField(
        null=True, help_text="How often checks sent it back; empty where it was never checked."
    )
    judge_repairs = models.PositiveIntegerField(
        null=True, help_text="How often the judge sent it back; empty where it was never judged."
    )
    spent = models.JSONField(default=dict, help_text="Status → seconds spent in it.")
    verdicts = models.JSONField(
        default=list,
        help_text="What became of each patch that the judge passed: {verdict, confidence, seconds}.",
    )
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        db_table = "run_outcomes"
        indexes = [
            models.Index(fields=["-ended_at"], name="outcomes_newest"),
            models.Index(fields=["repository", "-ended_at"], name="outcomes_by_repository"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.status}"
