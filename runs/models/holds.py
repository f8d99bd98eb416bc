"""Holds, kept for good: who stopped what, why, until when, and who lifted it."""

from __future__ import annotations

from collections.abc import Iterable

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agentplatform.ids import new_id
from agentplatform.rows import ask
from runs.domain.facts import stamp
from runs.domain.holds import MAX_VALUE, Covered, HoldScope
from runs.domain.holds import Hold as HoldFacts
from runs.models.guards import no_delete
from runs.models.tasks import Task


def hold_id() -> str:
    """A new hold's id."""
    return new_id("hold")


class HoldQuerySet(models.QuerySet["Hold"]):
    """Holds."""

    def in_force(self) -> HoldQuerySet:
        """Neither lifted nor past their end, with what they are over, oldest first."""
        standing = self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), lifted_at__isnull=True)
        return standing.select_related("repository", "campaign").order_by("created_at", "pk")


class Hold(models.Model):
    """A stop over many runs. It is never edited: it is lifted, or ends by itself, and another is set."""

    id = models.CharField(primary_key=True, max_length=40, default=hold_id, editable=False)
    scope = models.CharField(max_length=20, choices=[(s.value, s.label) for s in HoldScope])
    repository = models.ForeignKey(
        "runs.Repository", null=True, blank=True, on_delete=models.PROTECT, related_name="holds"
    )
    value = models.CharField(max_length=MAX_VALUE, blank=True, help_text="The agent kind or label.")
    campaign = models.ForeignKey(
        "runs.Campaign", null=True, blank=True, on_delete=models.PROTECT, related_name="holds"
    )
    reason = models.TextField()
    cancels_running = models.BooleanField(default=False)
    set_by = models.CharField(max_length=200, help_text="Name of the person, or of what set it by itself.")
    set_by_id = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.CharField(max_length=200, blank=True)

    objects = HoldQuerySet.as_manager()

    class Meta:
        db_table = "holds"
        indexes = [
            models.Index(fields=["scope"], name="holds_in_force", condition=Q(lifted_at__isnull=True)),
            models.Index(fields=["-created_at", "-id"], name="holds_newest"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(scope="platform", repository__isnull=True, value="", campaign__isnull=True)
                | Q(scope="repository", repository__isnull=False, value="", campaign__isnull=True)
                | Q(scope="campaign", repository__isnull=True, value="", campaign__isnull=False)
                | (
                    Q(scope__in=["agent_kind", "label"], repository__isnull=True, campaign__isnull=True)
                    & ~Q(value="")
                ),
                name="hold_names_its_target",
            )
        ]
        triggers = [
            no_delete("holds_no_delete"),
            pgtrigger.ReadOnly(name="holds_as_set", exclude=["lifted_at", "lifted_by"]),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.value or self.repository_id or self.campaign_id or ''}".strip()

    def as_fact(self) -> HoldFacts:
        """The stored hold as the domain sees it; what it is over is loaded."""
        over = self.repository or self.campaign
        return HoldFacts(
            id=self.pk,
            scope=self.scope,
            target=over.pk if over else self.value,
            name=str(over) if over else self.value,
            reason=self.reason,
            by=self.set_by,
            since=stamp(self.created_at),
            until=stamp(self.expires_at) if self.expires_at else "",
            cancels=self.cancels_running,
        )


def hold_stands() -> bool:
    """Whether any hold may be in force. One query, a small one: nearly always there is none to be read."""
    ((stands,),) = ask("SELECT EXISTS (SELECT FROM holds WHERE lifted_at IS NULL)")
    return bool(stands)


def holds_in_force() -> list[HoldFacts]:
    """Every hold in force, oldest first. One query where there is none, else two."""
    return [row.as_fact() for row in Hold.objects.in_force()] if hold_stands() else []


def covered_of(task: Task) -> Covered:
    """What holds and caps look at in the runs of this task. No query."""
    return Covered(
        repository_id=task.repository_id,
        agent_kind=str(task.contract["agent"].get("kind", "")),
        labels=frozenset(task.labels),
        submitter_id=task.created_by_id,
        campaign_id=task.campaign_id or "",
    )


def runs_held(holds: Iterable[HoldFacts]) -> Q:
    """Runs that one of these holds covers, as a condition on runs; ``domain.holds.Hold.covers`` as SQL."""
    targets: dict[str, list[str]] = {}
    for hold in holds:
        targets.setdefault(hold.scope, []).append(hold.target)
    if HoldScope.PLATFORM in targets:
        return ~Q(pk__in=[])
    columns = {
        HoldScope.REPOSITORY: "repository_id__in",
        HoldScope.AGENT_KIND: "task__contract__agent__kind__in",
        HoldScope.LABEL: "task__labels__overlap",
        HoldScope.CAMPAIGN: "task__campaign_id__in",
    }
    found = Q(pk__in=[])
    for scope, column in columns.items():
        if wanted := targets.get(scope):  # nothing held by its label: no task need be looked at
            found |= Q(**{column: wanted})
    return found
