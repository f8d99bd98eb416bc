"""What an operator looks at when something is stuck or wrong: alarms, checks, deliveries."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from agentplatform.clock import database_now
from runs import models, outbox, rebuild
from runs.admin.base import History, needs_reason
from runs.admin.lists import NEWEST, by_word
from runs.domain.tasks import DOMAIN_EVENTS
from runs.models import Delivery


class ByConsumer(admin.SimpleListFilter):
    """Those who are told of domain events."""

    title, parameter_name = "consumer", "consumer"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Known in this process: no query."""
        return [(name, name) for name in outbox.consumers()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet | None:
        """Deliveries to the chosen one."""
        return queryset.filter(consumer=self.value()) if self.value() else None


@admin.register(models.Alarm)
class AlarmAdmin(History):
    """What a check found, until it is right again."""

    list_display = ("kind", "stream", "place", "detail", "found_at")
    list_filter = ("kind",)
    search_fields = ("stream__exact",)
    actions = ("look_again", "write_again")

    @admin.action(description="Look again: what is right now goes", permissions=["operate"])
    def look_again(self, request: HttpRequest, queryset: QuerySet[models.Alarm]) -> None:
        """Check the runs and tasks of the chosen alarms."""
        left = sum(rebuild.check(stream) for stream in _streams(queryset))
        messages.success(request, f"{left} alarms are left there.")

    @admin.action(description="Write the rows again from the log", permissions=["operate"])
    def write_again(self, request: HttpRequest, queryset: QuerySet[models.Alarm]) -> None:
        """Rebuild the runs and tasks of the chosen alarms; an edited log cannot be mended so."""
        if needs_reason(request):
            return
        written = 0
        for stream in _streams(queryset.filter(kind=models.Alarm.ROWS)):
            try:
                with transaction.atomic():
                    for alarm in queryset.filter(stream=stream):
                        self.log_change(request, alarm, f"Wrote the rows of {stream} again from its log.")
                    written += len(rebuild.rebuild(stream))
            except DatabaseError as error:  # a status that no event leads to: a decision, not a repair
                messages.error(request, f"{stream} was not written: {str(error).splitlines()[0]}")
            except rebuild.Unreadable as unreadable:
                messages.error(request, f"{unreadable}. Nothing was written.")
        messages.success(request, f"{written} differences were written again from the log.")


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
    search_fields = ("reason", "set_by", "repository__name__exact", "value__exact")
    ordering = ("-created_at", "-pk")


@admin.register(models.DaySpend)
class DaySpendAdmin(History):
    """What was spent each day, in the parts in which it is counted; spend caps look at their sum."""

    list_display = ("day", "scope", "key", "shard", "amount")
    list_filter = ("scope",)
    search_fields = ("key__exact",)
    ordering = ("-day", "scope", "key", "shard")


@admin.register(models.OutboxMessage)
class OutboxMessageAdmin(History):
    """Domain events on their way."""

    list_display = ("message_id", "stream", "sequence", "name", "created_at")
    list_filter = (by_word("name", DOMAIN_EVENTS, newest=NEWEST),)
    search_fields = ("stream__exact", "message_id__exact")
    heavy = ("payload",)


@admin.register(models.Delivery)
class DeliveryAdmin(History):
    """One message for one consumer; parked ones can be sent again."""

    list_display = ("event", "of", "consumer", "state", "tries", "next_try_at", "error")
    list_select_related = ("message",)
    list_filter = (by_word("state", (Delivery.PENDING, Delivery.DELIVERED, Delivery.PARKED)), ByConsumer)
    search_fields = ("message__stream__exact", "message__message_id__exact")
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

    @admin.action(description="Send parked messages again", permissions=["operate"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[models.Delivery]) -> None:
        """Put parked deliveries back in line."""
        if needs_reason(request):
            return
        count = 0
        with transaction.atomic():
            for parked in queryset.filter(state=Delivery.PARKED):
                before = self.look(parked)
                parked.state, parked.tries, parked.next_try_at, parked.error = (
                    Delivery.PENDING,
                    0,
                    database_now(),
                    "",
                )
                parked.save(update_fields=["state", "tries", "next_try_at", "error"])
                self.log_act(request, parked, before, "Sent again.")
                count += 1
        messages.success(request, f"{count} back in line.")


@admin.register(models.LiveLog)
class LiveLogAdmin(History):
    """Output of steps, while it grows and after."""

    list_display = ("run_id", "operation_id", "fence", "size", "artifact_id", "created_at")
    search_fields = ("run_id__exact",)


@admin.register(models.FoldCheckpoint)
class FoldCheckpointAdmin(History):
    """How far the fold of long runs is kept."""

    list_display = ("run_id", "sequence", "saved_at")
    search_fields = ("run_id__exact",)
    ordering = ("-pk",)
    exclude = ("content",)
    heavy = ("content",)
