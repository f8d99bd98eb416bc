"""Django admin: people, workers, repositories and policies are managed here; histories are only read.

Nothing here writes a status: what moves a run is an event, and those come from the service alone.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from agentplatform.clock import database_now
from runs import models
from runs.admin import operations  # noqa: F401  registers its pages
from runs.admin.base import History, HistoryInline
from runs.domain.policy import check_values
from runs.domain.vocabulary import MACHINE_ROLES

admin.site.site_header = "Agent Platform"
admin.site.site_title = "Agent Platform"
admin.site.index_title = "Administration"
admin.site.unregister(Group)  # roles are granted per person and repository, below each person


# --- people and machines --------------------------------------------------------------------------


class RoleGrantInline(admin.TabularInline):
    """A person's roles."""

    model = models.RoleGrant
    extra = 1
    autocomplete_fields = ("repository",)


@admin.register(models.Person)
class PersonAdmin(UserAdmin):
    """People and their roles."""

    inlines = (RoleGrantInline,)
    list_display = ("username", "first_name", "last_name", "email", "is_active", "is_staff", "last_login")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "same_person_as")}),
        ("Access", {"fields": ("is_active", "is_staff", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    list_filter = ("is_active", "is_staff", "grants__role")
    filter_horizontal = ()
    raw_id_fields = ("same_person_as",)


class WorkerForm(forms.ModelForm):
    """A worker account; its roles are boxes."""

    roles = forms.MultipleChoiceField(
        choices=[(role.value, role.label) for role in MACHINE_ROLES], widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = models.WorkerAccount
        fields = ("name", "roles", "labels", "owner", "repositories", "disabled_at")


@admin.register(models.WorkerAccount)
class WorkerAccountAdmin(admin.ModelAdmin):
    """Worker accounts. Disabling one kills its tokens at once."""

    form = WorkerForm
    list_display = ("name", "roles", "labels", "owner", "version", "last_seen_at", "disabled_at")
    search_fields = ("name", "id")
    autocomplete_fields = ("owner", "repositories")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Leases name it for ever; disable it instead."""
        return False


@admin.register(models.ApiToken)
class ApiTokenAdmin(History):
    """Tokens: who has one, until when, last used. Made by ``create_worker`` and ``create_person``."""

    list_display = ("id", "worker", "person", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("worker", "person")
    search_fields = ("id", "worker__name", "person__username")
    exclude = ("secret_sha256",)
    actions = ("revoke",)

    @admin.action(description="Revoke: it stops working at once", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[models.ApiToken]) -> None:
        """Revoke the chosen tokens."""
        count = queryset.filter(revoked_at__isnull=True).update(revoked_at=database_now())
        messages.success(request, f"{count} revoked.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Admins may."""
        return request.user.is_active and request.user.is_superuser


# --- repositories and policies --------------------------------------------------------------------


@admin.register(models.Repository)
class RepositoryAdmin(admin.ModelAdmin):
    """Repositories."""

    list_display = ("name", "provider", "url", "base_branch", "policy", "archived_at")
    list_select_related = ("policy",)
    list_filter = ("provider",)
    search_fields = ("name", "id", "url")
    autocomplete_fields = ("policy",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tasks name it for ever; archive it instead."""
        return False


class PolicyVersionForm(forms.ModelForm):
    """A new version's values, checked by the same rules as a policy file."""

    class Meta:
        model = models.PolicyVersion
        fields = ("values",)

    def clean_values(self) -> dict[str, Any]:
        """Refuse what is not a policy, field by field."""
        values = self.cleaned_data["values"] or {}
        if not isinstance(values, dict):
            raise forms.ValidationError("A policy is an object of fields.")
        if wrong := check_values(values):
            raise forms.ValidationError([f"{name} {message}" for name, (message, *_) in wrong.items()])
        return values


class PolicyVersionInline(admin.StackedInline):
    """Add a version; the ones before stay as they were."""

    model = models.PolicyVersion
    form = PolicyVersionForm
    extra = 0
    max_num = 1_000
    can_delete = False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A version is never edited: runs name the one that they were judged by."""
        return False


@admin.register(models.Policy)
class PolicyAdmin(admin.ModelAdmin):
    """Policies and their versions; the newest holds."""

    inlines = (PolicyVersionInline,)
    list_display = ("name", "inherits", "created_at")
    list_select_related = ("inherits",)
    search_fields = ("name",)
    autocomplete_fields = ("inherits",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Runs name its versions for ever."""
        return False

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:  # noqa: FBT001  Django's signature
        """Number each new version and say who made it."""
        for version in formset.save(commit=False):
            newest = form.instance.versions.order_by("-number").first()
            version.number = newest.number + 1 if newest else 1
            version.changed_by = request.user.get_username()
            version.save()
        formset.save_m2m()


# --- histories ------------------------------------------------------------------------------------


class TaskEventInline(HistoryInline):
    """A task's log."""

    model = models.TaskEvent
    fields = ("sequence", "event_type", "from_status", "to_status", "actor_name", "recorded_at")
    ordering = ("sequence",)


@admin.register(models.Task)
class TaskAdmin(History):
    """Tasks."""

    list_display = ("id", "title", "repository", "status", "risk_level", "created_by", "created_at")
    list_select_related = ("repository", "created_by")
    list_filter = ("status", "risk_level", "completion_mode")
    search_fields = ("id", "title")
    inlines = (TaskEventInline,)


@admin.register(models.Run)
class RunAdmin(History):
    """Runs."""

    list_display = ("id", "task", "attempt_no", "status", "worker_id", "cost_usd", "created_at")
    list_select_related = ("task",)
    list_filter = ("status", "failure_category", "gate")
    search_fields = ("id", "task__title", "worker_id")


@admin.register(models.RunOutcome)
class RunOutcomeAdmin(History):
    """How runs ended."""

    list_display = ("run_id", "status", "ended_at")
    search_fields = ("=run__id",)


@admin.register(models.RunEvent)
class RunEventAdmin(History):
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
    list_filter = ("event_type",)
    search_fields = ("=run__id", "=id")
    ordering = ("-id",)


@admin.register(models.TaskEvent)
class TaskEventAdmin(History):
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
    search_fields = ("=task__id", "=id")
    ordering = ("-id",)


@admin.register(models.Instruction)
class InstructionAdmin(History):
    """Instructions."""

    list_display = ("task", "number", "text", "author", "created_at")
    list_select_related = ("task", "author")
    search_fields = ("=task__id",)


@admin.register(models.Attempt)
class AttemptAdmin(History):
    """Attempts."""

    list_display = ("run_id", "number", "state", "strategy", "started_at", "finished_at")
    search_fields = ("=run__id",)


@admin.register(models.Step)
class StepAdmin(History):
    """Steps."""

    list_display = ("run_id", "operation_id", "tool", "state", "started_at", "finished_at")
    list_filter = ("state", "effect")
    search_fields = ("=run__id", "=operation_id")


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
    search_fields = ("=run__id", "worker__name")
    exclude = ("claim_key",)


@admin.register(models.Artifact)
class ArtifactAdmin(History):
    """Evidence: what was read in it; the bytes are downloaded from the run's page."""

    list_display = ("id", "run_id", "kind", "size", "sha256", "created_at")
    list_filter = ("kind",)
    search_fields = ("=id", "=run__id", "=sha256")


@admin.register(models.PullRequest)
class PullRequestAdmin(History):
    """Pull request records."""

    list_display = ("id", "repository", "branch", "state", "url", "created_at")
    list_select_related = ("repository",)
    list_filter = ("state", "provider")
    search_fields = ("=id", "branch", "=run__id")


@admin.register(models.Refusal)
class RefusalAdmin(History):
    """Calls that were refused."""

    list_display = ("refused_at", "code", "event_type", "run_id", "account_name", "fence")
    list_filter = ("code",)
    search_fields = ("=run_id", "account_name")
