"""What an operator looks at when something is stuck or wrong: alarms, checks, deliveries."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest

from agentplatform.clock import database_now
from runs import models, rebuild
from runs.admin.base import History


@admin.register(models.Alarm)
class AlarmAdmin(History):
    """What a check found, until it is right again."""

    list_display = ("kind", "stream", "place", "detail", "found_at")
    list_filter = ("kind",)
    search_fields = ("=stream",)
    actions = ("look_again", "write_again")

    @admin.action(description="Look again: what is right now goes", permissions=["repair"])
    def look_again(self, request: HttpRequest, queryset: QuerySet[models.Alarm]) -> None:
        """Check the runs and tasks of the chosen alarms."""
        left = sum(rebuild.check(stream) for stream in _streams(queryset))
        messages.success(request, f"{left} alarms are left there.")

    @admin.action(description="Write the rows again from the log", permissions=["repair"])
    def write_again(self, request: HttpRequest, queryset: QuerySet[models.Alarm]) -> None:
        """Rebuild the runs and tasks of the chosen alarms; an edited log cannot be mended so."""
        written = 0
        for stream in _streams(queryset.filter(kind=models.Alarm.ROWS)):
            try:
                written += len(rebuild.rebuild(stream))
            except DatabaseError as error:  # a status that no event leads to: a decision, not a repair
                messages.error(request, f"{stream} was not written: {str(error).splitlines()[0]}")
        messages.success(request, f"{written} differences were written again from the log.")

    def has_repair_permission(self, request: HttpRequest) -> bool:
        """Admins may."""
        return request.user.is_active and request.user.is_superuser


def _streams(alarms: QuerySet[models.Alarm]) -> list[str]:
    return list(alarms.order_by("stream").values_list("stream", flat=True).distinct())


@admin.register(models.LogCheck)
class LogCheckAdmin(History):
    """Each look at all rows and logs; one without an end was broken off."""

    list_display = ("started_at", "finished_at", "streams", "alarms")


@admin.register(models.Hold)
class HoldAdmin(History):
    """Stops over many runs, past ones too. They are set and lifted on the page of holds."""

    list_display = (
        "scope",
        "repository",
        "value",
        "reason",
        "set_by",
        "created_at",
        "expires_at",
        "lifted_at",
    )
    list_filter = ("scope", ("lifted_at", admin.EmptyFieldListFilter))
    list_select_related = ("repository",)
    search_fields = ("reason", "set_by", "=repository__name", "=value")


@admin.register(models.DaySpend)
class DaySpendAdmin(History):
    """What was spent each day, in the parts in which it is counted; spend caps look at their sum."""

    list_display = ("day", "scope", "key", "shard", "amount")
    list_filter = ("scope",)
    search_fields = ("=key",)
    ordering = ("-day", "scope", "key", "shard")


@admin.register(models.OutboxMessage)
class OutboxMessageAdmin(History):
    """Domain events on their way."""

    list_display = ("message_id", "stream", "sequence", "name", "created_at")
    list_filter = ("name",)
    search_fields = ("=stream", "=message_id")


@admin.register(models.Delivery)
class DeliveryAdmin(History):
    """One message for one consumer; parked ones can be sent again."""

    list_display = ("event", "of", "consumer", "state", "tries", "next_try_at", "error")
    list_select_related = ("message",)
    list_filter = ("state", "consumer")
    search_fields = ("=stream", "=message__message_id")
    ordering = ("-id",)
    actions = ("requeue",)

    @admin.display(description="event")
    def event(self, row: models.Delivery) -> str:
        """``RunQueued``."""
        return row.message.name

    @admin.display(description="of", ordering="stream")
    def of(self, row: models.Delivery) -> str:
        """The run or task, and the event's number there."""
        return f"{row.stream} #{row.message.sequence}"

    @admin.action(description="Send parked messages again", permissions=["requeue"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[models.Delivery]) -> None:
        """Put parked deliveries back in line."""
        parked = queryset.filter(state=models.Delivery.PARKED)
        count = parked.update(state=models.Delivery.PENDING, tries=0, next_try_at=database_now(), error="")
        messages.success(request, f"{count} back in line.")

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Admins may."""
        return request.user.is_active and request.user.is_superuser


@admin.register(models.LiveLog)
class LiveLogAdmin(History):
    """Output of steps, while it grows and after."""

    list_display = ("run_id", "operation_id", "fence", "size", "artifact_id", "created_at")
    search_fields = ("=run__id", "=operation_id")


@admin.register(models.FoldCheckpoint)
class FoldCheckpointAdmin(History):
    """How far the fold of long runs is kept."""

    list_display = ("run_id", "sequence", "saved_at")
    search_fields = ("=run__id",)
    exclude = ("content",)
