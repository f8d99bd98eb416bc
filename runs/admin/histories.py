"""The logs and projections of runs: read only."""

from __future__ import annotations

from django.contrib import admin

from runs import models
from runs.admin.base import History
from runs.admin.lists import NEWEST, by_word
from runs.domain.campaigns.words import CampaignEv, CampaignStatus
from runs.domain.errors import all_refusals
from runs.domain.vocabulary import ArtifactKind, Ev, StepState, TaskEv


class _Log(History):
    """One row for each event, newest first."""

    heavy = ("payload", "facts")
    ordering = ("-id",)


@admin.register(models.RunEvent)
class RunEventAdmin(_Log):
    """The log."""

    list_display = (
        "run_id",
        "sequence",
        "event_type",
        "from_status",
        "to_status",
        "actor_name",
        "recorded_at",
    )
    list_filter = (by_word("event_type", Ev, newest=NEWEST),)
    search_fields = ("run_id__exact", "id__exact")


@admin.register(models.TaskEvent)
class TaskEventAdmin(_Log):
    """The tasks' log."""

    list_display = (
        "task_id",
        "sequence",
        "event_type",
        "from_status",
        "to_status",
        "actor_name",
        "recorded_at",
    )
    list_filter = (by_word("event_type", TaskEv, newest=NEWEST),)
    search_fields = ("task_id__exact", "id__exact")


@admin.register(models.RunOutcome)
class RunOutcomeAdmin(History):
    """How runs ended."""

    list_display = ("run_id", "status", "ended_at")
    search_fields = ("run_id__exact",)
    ordering = ("-ended_at", "-pk")


@admin.register(models.Instruction)
class InstructionAdmin(History):
    """Instructions."""

    list_display = ("task", "number", "text", "author", "created_at")
    list_select_related = ("task", "author")
    search_fields = ("task_id__exact",)
    ordering = ("-pk",)


@admin.register(models.Attempt)
class AttemptAdmin(History):
    """Attempts."""

    list_display = ("run_id", "number", "state", "strategy", "started_at", "finished_at")
    search_fields = ("run_id__exact",)
    ordering = ("-pk",)


@admin.register(models.Step)
class StepAdmin(History):
    """Steps."""

    list_display = ("run_id", "operation_id", "tool", "state", "started_at", "finished_at")
    list_filter = (
        by_word("state", StepState, newest=NEWEST),
        by_word("effect", ("none", "workspace", "outside"), newest=NEWEST),
    )
    search_fields = ("run_id__exact",)
    ordering = ("-pk",)
    heavy = ("arguments",)


@admin.register(models.Lease)
class LeaseAdmin(History):
    """Leases."""

    list_display = (
        "id",
        "run_id",
        "worker",
        "fence",
        "acquired_at",
        "heartbeat_at",
        "expires_at",
        "ended_at",
    )
    list_select_related = ("worker",)
    search_fields = ("run_id__exact", "worker__name__exact")
    exclude = ("claim_key",)


@admin.register(models.Artifact)
class ArtifactAdmin(History):
    """Evidence: what was read in it; the bytes are downloaded from the run's page."""

    list_display = ("id", "run_id", "kind", "size", "sha256", "created_at")
    list_filter = (by_word("kind", ArtifactKind, newest=NEWEST),)
    search_fields = ("id__exact", "run_id__exact")
    heavy = ("facts", "document")


@admin.register(models.PullRequest)
class PullRequestAdmin(History):
    """Pull request records."""

    list_display = ("id", "repository", "branch", "state", "url", "created_at")
    list_select_related = ("repository",)
    list_filter = ("state", by_word("provider", models.Repository.PROVIDERS))
    search_fields = ("id__exact", "branch__exact", "run_id__exact")


@admin.register(models.Refusal)
class RefusalAdmin(History):
    """Calls that were refused."""

    list_display = ("refused_at", "code", "event_type", "run_id", "account_name", "fence")
    list_filter = (by_word("code", [refusal.code for refusal in all_refusals()], newest=NEWEST),)
    search_fields = ("run_id__exact",)
    ordering = ("-pk",)


@admin.register(models.RunWatch)
class RunWatchAdmin(History):
    """Logs that somebody waits at the end of."""

    list_display = ("run_id", "until")
    search_fields = ("run_id__exact",)
    ordering = ("-pk",)


@admin.register(models.Campaign)
class CampaignAdmin(History):
    """Campaigns; they are steered on their own pages."""

    list_display = ("id", "title", "status", "parts_total", "created_by", "created_at", "ended_at")
    list_select_related = ("created_by",)
    list_filter = (by_word("status", CampaignStatus),)
    search_fields = ("id__exact",)
    ordering = ("-created_at", "-pk")
    heavy = ("state",)


@admin.register(models.CampaignPart)
class CampaignPartAdmin(History):
    """Their repositories."""

    list_display = ("campaign_id", "position", "repository", "state", "tries", "task_id", "ended_at")
    list_select_related = ("repository",)
    search_fields = ("campaign_id__exact", "task_id__exact")
    ordering = ("-pk",)


@admin.register(models.CampaignEvent)
class CampaignEventAdmin(_Log):
    """The campaigns' log."""

    list_display = (
        "campaign_id",
        "sequence",
        "event_type",
        "from_status",
        "to_status",
        "actor_name",
        "recorded_at",
    )
    list_filter = (by_word("event_type", CampaignEv, newest=NEWEST),)
    search_fields = ("campaign_id__exact", "id__exact")
