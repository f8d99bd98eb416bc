"""What every page over evidence is: read, never written."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest


class History(admin.ModelAdmin):
    """Rows that are evidence: searched, filtered, read; never added, edited or deleted, by anybody."""

    show_full_result_count = False  # no COUNT over a million rows
    list_per_page = 50
    actions: Any = ()

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody adds to a history by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody edits it."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes from it."""
        return False


class HistoryInline(admin.TabularInline):
    """The same, inside another page."""

    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody adds to a history by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody edits it."""
        return False
