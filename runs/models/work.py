"""What moves around a run: leases, artifacts, pull requests, refusals, the outbox."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agentplatform.ids import new_id
from runs.domain.vocabulary import ArtifactKind, PullRequestState
from runs.models.guards import no_delete
from runs.models.search import Words, words_index


def pull_request_id() -> str:
    """A new pull request record's id."""
    return new_id("pr")


class Lease(models.Model):
    """The right to move one run, for a limited time. Narrow, because every heartbeat writes it."""

    id = models.CharField(primary_key=True, max_length=40)
    run = models.ForeignKey("runs.Run", on_delete=models.PROTECT, related_name="leases")
    repository = models.ForeignKey("runs.Repository", on_delete=models.PROTECT, related_name="+")
    worker = models.ForeignKey("runs.WorkerAccount", on_delete=models.PROTECT, related_name="leases")
    fence = models.BigIntegerField()
    claim_key = models.CharField(max_length=255, blank=True)
    acquired_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=50, blank=True)

    class Meta:
        db_table = "run_leases"
        constraints = [
            models.UniqueConstraint(
                fields=["run"], condition=Q(ended_at__isnull=True), name="one_active_lease"
            ),
            models.UniqueConstraint(fields=["run", "fence"], name="fence_only_grows"),
            models.UniqueConstraint(
                fields=["worker", "claim_key"], condition=~Q(claim_key=""), name="one_lease_per_claim_key"
            ),
        ]
        indexes = [
            models.Index(fields=["repository"], name="leases_active", condition=Q(ended_at__isnull=True)),
            models.Index(fields=["worker", "-acquired_at"], name="leases_by_worker"),
            models.Index(fields=["repository", "-acquired_at"], name="leases_turns", condition=Q(fence=1)),
            models.Index(fields=["-ended_at"], name="leases_lost", condition=Q(end_reason="lease_lost")),
        ]

    def __str__(self) -> str:
        return f"{self.id} (fence {self.fence})"


class Artifact(models.Model):
    """Bytes kept as evidence; the file lies under its SHA-256, the row says what was read in it."""

    id = models.CharField(primary_key=True, max_length=40)
    run = models.ForeignKey("runs.Run", on_delete=models.PROTECT, related_name="artifacts", db_index=False)
    kind = models.CharField(max_length=30, choices=[(k.value, k.label) for k in ArtifactKind])
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    content_type = models.CharField(max_length=200)
    facts = models.JSONField(default=dict, help_text="The control plane's own reading.")
    document = models.JSONField(null=True, blank=True, help_text="The parsed bytes, where they are JSON.")
    created_by = models.CharField(max_length=40)
    fence = models.BigIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "artifacts"
        constraints = [models.UniqueConstraint(fields=["run", "kind", "sha256"], name="one_artifact")]
        triggers = [no_delete("artifacts_no_delete")]

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:12]}"


class PullRequest(models.Model):
    """A pull request's own record and life, apart from the run's."""

    id = models.CharField(primary_key=True, max_length=40, default=pull_request_id, editable=False)
    run = models.OneToOneField("runs.Run", on_delete=models.PROTECT, related_name="pull_request")
    repository = models.ForeignKey("runs.Repository", on_delete=models.PROTECT, related_name="pull_requests")
    provider = models.CharField(max_length=50)
    url = models.CharField(max_length=2000)
    branch = models.CharField(max_length=250)
    number = models.PositiveIntegerField(null=True, blank=True)
    commit_sha = models.CharField(max_length=64)
    tree_sha = models.CharField(max_length=64)
    body = models.TextField()
    state = models.CharField(
        max_length=20,
        default=PullRequestState.OPEN.value,
        choices=[(s.value, s.label) for s in PullRequestState],
    )
    checks = models.CharField(max_length=20, blank=True)
    head_sha = models.CharField(max_length=64, blank=True, help_text="Where the branch stands now.")
    said = models.TextField(blank=True, help_text="Words of reviewers and red checks: strangers' words.")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True, help_text="When the provider last answered.")
    next_look_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was first seen merged or closed."
    )
    was_red = models.BooleanField(default=False, help_text="Its checks failed at some time.")
    reverted_at = models.DateTimeField(null=True, blank=True, help_text="When the revert was committed.")
    reverted_by = models.CharField(max_length=64, blank=True, help_text="The commit that took it back.")
    next_history_look_at = models.DateTimeField(
        null=True, blank=True, help_text="When the base branch is next searched for a revert."
    )

    class Meta:
        db_table = "pull_requests"
        constraints = [
            models.UniqueConstraint(fields=["repository", "branch"], name="one_pull_request_per_branch")
        ]
        indexes = [
            words_index("pull_requests_by_words", Words("branch")),
            models.Index(
                fields=["next_look_at"],
                name="pull_requests_due",
                condition=Q(next_look_at__isnull=False),
            ),
            models.Index(
                fields=["repository", "next_history_look_at"],
                name="pull_requests_history",
                condition=Q(next_history_look_at__isnull=False),
            ),
            # What outcomes are counted over, without the rows themselves, which hold long texts.
            models.Index(
                fields=["run"],
                include=["state", "was_red", "created_at", "ended_at", "reverted_at"],
                name="pull_requests_outcomes",
            ),
        ]

    def __str__(self) -> str:
        return self.branch


class Refusal(models.Model):
    """One call that was refused. It left no trace in the run; it leaves one here."""

    run_id = models.CharField(max_length=40, blank=True, db_index=True)
    account = models.CharField(max_length=40, blank=True)
    account_name = models.CharField(max_length=200, blank=True)
    code = models.CharField(max_length=50)
    event_type = models.CharField(max_length=50, blank=True)
    fence = models.BigIntegerField(null=True, blank=True)
    detail = models.TextField(blank=True)
    content_sha256 = models.CharField(max_length=64, blank=True)
    refused_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "refusals"
        indexes = [models.Index(fields=["-refused_at"], name="refusals_newest")]

    def __str__(self) -> str:
        return f"{self.code} {self.run_id}"


class OutboxMessage(models.Model):
    """A domain event, written in the transaction that it tells of. Its id is stable for consumers."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.CharField(max_length=40, unique=True)
    stream = models.CharField(max_length=40, help_text="The run or task; order is kept within it.")
    sequence = models.BigIntegerField(help_text="The event's sequence in its stream.")
    name = models.CharField(max_length=50)
    payload = models.JSONField()
    created_at = models.DateTimeField()
    # By the database: code of before this column goes on writing.
    traceparent = models.CharField(
        max_length=64, blank=True, db_default="", help_text="The trace that it was written in."
    )

    class Meta:
        db_table = "outbox"
        indexes = [models.Index(fields=["stream", "id"], name="outbox_by_stream")]

    def __str__(self) -> str:
        return f"{self.name} {self.stream}"


class Delivery(models.Model):
    """One message for one consumer: pending, delivered, or parked after its schedule of tries."""

    PENDING, DELIVERED, PARKED = "pending", "delivered", "parked"

    message = models.ForeignKey(OutboxMessage, on_delete=models.PROTECT, related_name="deliveries")
    consumer = models.CharField(max_length=50)
    stream = models.CharField(max_length=40)
    state = models.CharField(max_length=10, default=PENDING)
    tries = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField()
    claim = models.CharField(max_length=40, blank=True, help_text="The sender that holds it now.")
    claimed_until = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        db_table = "deliveries"
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["message", "consumer"], name="one_delivery_per_consumer")
        ]
        indexes = [
            models.Index(fields=["consumer", "message"], name="deliveries_due", condition=Q(state="pending")),
            models.Index(fields=["consumer", "stream", "message"], name="deliveries_in_order",
                         condition=~Q(state="delivered")),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.consumer}: {self.state}"
