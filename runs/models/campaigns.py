"""Campaigns, their parts and their log."""

from __future__ import annotations

from collections.abc import Iterable

import pgtrigger
from django.db import models
from django.db.models import Q

from agentplatform.ids import new_id
from runs.domain.campaigns.state import Part
from runs.domain.campaigns.table import CAMPAIGN_MOVES, campaign_edges
from runs.domain.campaigns.words import CAMPAIGN_FINAL, CampaignStatus, PartState
from runs.domain.facts import stamp
from runs.domain.vocabulary import Directive, RunStatus
from runs.models.guards import append_only, legal_events, no_delete, starts_as
from runs.models.lifecycle import CampaignLifecycle

CAMPAIGN_CELLS = {
    ("campaign_created", "", CampaignStatus.RUNNING.value),
    *((e.value, a.value, b.value) for e, a, b in campaign_edges()),
}
_UNFINISHED = ~Q(status__in=sorted(s.value for s in CAMPAIGN_FINAL))


def campaign_id() -> str:
    """A new campaign's id."""
    return new_id("camp")


class Campaign(CampaignLifecycle):
    """One contract over many repositories. Its row is a projection of its log; only the service writes it."""

    id = models.CharField(primary_key=True, max_length=40, default=campaign_id, editable=False)
    title = models.CharField(max_length=500)
    state = models.JSONField(default=dict, help_text="The fold of its events, without its parts.")
    parts_total = models.PositiveIntegerField(default=0)
    pull_requests_per_hour = models.PositiveIntegerField(null=True, blank=True)
    idempotency_key = models.CharField(max_length=255, blank=True)
    request_fingerprint = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey("runs.Person", on_delete=models.PROTECT, related_name="campaigns")
    version = models.BigIntegerField(default=0, help_text="The sequence of its last event.")
    chain_hash = models.CharField(max_length=64, blank=True)
    chain_mac = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "campaigns"
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="campaigns_newest"),
            models.Index(fields=["created_at"], name="campaigns_unfinished", condition=_UNFINISHED),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=[s.value for s in CampaignStatus]), name="campaigns_status_check"
            ),
            models.UniqueConstraint(
                fields=["created_by", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="one_campaign_per_idempotency_key",
            ),
        ]
        triggers = [
            pgtrigger.FSM(
                name="campaigns_moves",
                field="status",
                transitions=[(a.value, b.value) for a, b in CAMPAIGN_MOVES],
            ),
            starts_as("campaigns_start", CampaignStatus.RUNNING.value),
            no_delete("campaigns_no_delete"),
        ]

    def __str__(self) -> str:
        return self.title


def runs_kept_in(campaign_ids: Iterable[str]) -> Q:
    """Runs of these campaigns whose pull request was not begun, as a condition on runs;
    ``domain.outgoing.is_kept_in`` as SQL."""
    waits = Q(status=RunStatus.PR_CREATING.value, directive=Directive.CONTINUE.value)
    return waits & Q(task__campaign_id__in=sorted(campaign_ids), state__contains={"pr_begun": False})


class CampaignPart(models.Model):
    """One repository of a campaign, with its present task; a projection of the campaign's log."""

    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="parts", db_index=False)
    repository = models.ForeignKey("runs.Repository", on_delete=models.PROTECT, related_name="campaign_parts")
    position = models.PositiveIntegerField(help_text="From 1, in the order in which they are begun.")
    state = models.CharField(max_length=20, choices=[(s.value, s.label) for s in PartState])
    tries = models.PositiveIntegerField(default=0)
    task = models.OneToOneField(
        "runs.Task", null=True, blank=True, on_delete=models.PROTECT, related_name="campaign_part"
    )
    wave = models.PositiveIntegerField(default=0)
    reason = models.TextField(blank=True)
    accepted = models.BooleanField(default=False, help_text="A person went on in spite of its failure.")
    cost_usd = models.DecimalField(max_digits=20, decimal_places=12, default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "campaign_parts"
        ordering = ["position"]
        indexes = [models.Index(fields=["campaign", "state", "position"], name="campaign_parts_by_state")]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "position"], name="one_part_at_a_position"),
            models.UniqueConstraint(fields=["campaign", "repository"], name="one_part_per_repository"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in PartState]), name="campaign_parts_state_check"
            ),
        ]
        triggers = [no_delete("campaign_parts_no_delete")]

    def __str__(self) -> str:
        return f"{self.campaign_id} {self.position}"

    def as_part(self) -> Part:
        """The stored part as the domain sees it."""
        return Part(
            repository_id=self.repository_id,
            position=self.position,
            state=self.state,
            tries=self.tries,
            task_id=self.task_id or "",
            wave=self.wave,
            reason=self.reason,
            accepted=self.accepted,
            cost_usd=format(self.cost_usd.normalize(), "f"),
            started_at=stamp(self.started_at) if self.started_at else "",
            ended_at=stamp(self.ended_at) if self.ended_at else "",
        )


class CampaignEvent(models.Model):
    """One immutable fact of a campaign."""

    id = models.CharField(primary_key=True, max_length=40)
    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="events", db_index=False)
    sequence = models.BigIntegerField()
    event_type = models.CharField(max_length=50)
    from_status = models.CharField(max_length=30, blank=True)
    to_status = models.CharField(max_length=30)
    actor_type = models.CharField(max_length=20)
    actor_id = models.CharField(max_length=40)
    actor_name = models.CharField(max_length=200)
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001  NULL is not unique
    request_fingerprint = models.CharField(max_length=64, blank=True)
    payload = models.JSONField()
    facts = models.JSONField()
    schema_version = models.PositiveSmallIntegerField(default=1)
    recorded_at = models.DateTimeField()
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "campaign_events"
        constraints = [
            models.UniqueConstraint(fields=["campaign", "sequence"], name="campaign_events_sequence"),
            models.UniqueConstraint(fields=["campaign", "idempotency_key"], name="campaign_events_key"),
        ]
        triggers = [
            *append_only("campaign_events"),
            legal_events("campaign_events_legal", "campaign_events", "campaign_id", CAMPAIGN_CELLS),
        ]

    def __str__(self) -> str:
        return f"{self.campaign_id} {self.sequence} {self.event_type}"
