"""Approvals in Django admin: read only. Decisions are made on the review page, where they are sealed."""

from __future__ import annotations

from django.contrib import admin

from approvals import models
from approvals.asking import admin as asking  # noqa: F401  registers its own
from approvals.notices import admin as notices  # noqa: F401  registers its own
from runs.admin.base import History, HistoryInline


class DecisionInline(HistoryInline):
    """Who said what."""

    model = models.Decision
    fields = ("by", "decision", "version", "comment", "override", "at")


class AskedPersonInline(HistoryInline):
    """Whose turn it is, and why."""

    model = models.AskedPerson
    fk_name = "request"
    fields = ("person", "why", "stands_in_for", "asked_at")


@admin.register(models.ApprovalRequest)
class ApprovalRequestAdmin(History):
    """Approval requests."""

    list_display = ("id", "run_id", "gate", "status", "version", "effective_risk", "requested_at", "due_at")
    list_filter = ("status", "gate", "effective_risk")
    search_fields = ("id__exact", "run_id__exact")
    ordering = ("-requested_at", "-id")
    heavy = ("subject", "guards", "owners")
    inlines = (AskedPersonInline, DecisionInline)


@admin.register(models.Decision)
class DecisionAdmin(History):
    """Decisions."""

    list_display = ("request_id", "by", "decision", "version", "override", "at")
    list_select_related = ("by",)
    list_filter = ("decision", "override")
    search_fields = ("request_id__exact", "by__username__exact")
    ordering = ("-pk",)
