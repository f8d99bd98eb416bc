"""Pages of the audit log, of sessions and of failed sign-ins: read, and nothing else."""

from __future__ import annotations

from axes import models as axes
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from runs import models, service
from runs.admin.base import History, caller_of, each, needs_reason, reason_of
from runs.models.audit import Act


@admin.register(models.AuditEntry)
class AuditEntryAdmin(History):
    """Every administrative act: who, when, what, why, and how it was before and after."""

    list_display = ("at", "by", "act", "kind", "target", "note", "reason")
    list_filter = ("act",)
    search_fields = ("by__exact", "target_id__exact", "target__exact")
    ordering = ("-id",)
    heavy = ("before", "after")
    fields = ("at", "by", "by_id", "act", "kind", "target", "target_id", "note", "reason", "difference")
    readonly_fields = ("difference",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """The history of one row, to which its page links."""
        return lookup in ("kind__exact", "target_id__exact") or super().lookup_allowed(lookup, value, request)

    @admin.display(description="before → after")
    def difference(self, entry: models.AuditEntry) -> SafeString:
        """Field by field."""
        names = sorted(entry.before.keys() | entry.after.keys())
        shown = ((name, _said(entry.before, name), _said(entry.after, name)) for name in names)
        lines = format_html_join("", "<li><b>{}</b>: <code>{}</code> → <code>{}</code></li>", shown)
        return SafeString(f"<ul>{lines}</ul>") if names else SafeString("nothing")


def _said(side: dict[str, object], name: str) -> str:
    return repr(side[name]) if name in side else "–"


@admin.register(models.Session)
class SessionAdmin(History):
    """Who is signed in, where, since when. Ending one signs that browser out."""

    list_display = ("person", "begun_at", "address", "browser", "expire_date")
    list_select_related = ("person",)
    search_fields = ("person__username__exact", "address__exact")
    ordering = ("-expire_date", "pk")
    exclude = ("session_key", "session_data")
    actions = ("end",)

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Of people, and not over yet."""
        from django.db.models.functions import Now

        return super().get_queryset(request).filter(person__isnull=False, expire_date__gt=Now())

    @admin.action(description="Sign out", permissions=["operate"])
    def end(self, request: HttpRequest, queryset: QuerySet[models.Session]) -> None:
        """End the chosen sessions."""
        if needs_reason(request):
            return
        by, reason = caller_of(request), reason_of(request)
        each(request, queryset, lambda one: service.sessions_end(sessions=[one], by=by, reason=reason))


for _model in (axes.AccessAttempt, axes.AccessLog, axes.AccessFailureLog):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


@admin.register(axes.AccessAttempt)
class AccessAttemptAdmin(History):
    """Names and addresses with failed sign-ins; five lock both together for 15 minutes."""

    list_display = ("attempt_time", "username", "ip_address", "failures_since_start", "user_agent")
    search_fields = ("username__exact", "ip_address__exact")
    ordering = ("-pk",)
    fields = ("attempt_time", "username", "ip_address", "failures_since_start", "user_agent", "path_info")
    actions = ("unlock",)

    @admin.action(description="Unlock", permissions=["operate"])
    def unlock(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Forget the chosen failures."""
        if needs_reason(request):
            return

        def forget(attempt: axes.AccessAttempt) -> None:
            self._record(request, Act.DELETED, attempt, note=f"Unlocked {attempt.username}.")
            attempt.delete()

        each(request, queryset, forget)
