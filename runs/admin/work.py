"""Tasks and runs: read here, and moved by buttons that go the same road as the pages'."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from runs import models
from runs.actions import act_on_run, act_on_task
from runs.admin.base import History, HistoryInline, each, needs_reason, principal_of
from runs.admin.lists import by_word
from runs.domain.vocabulary import TASK_FINAL, FailureCategory, Gate
from runs.selectors.search import runs_found, tasks_found

#: How many rows one press of a button moves at most: each is a transaction of its own.
MOST_AT_ONCE = 50


class _Moved(History):
    """Rows that events move. A button posts one event for each chosen row, with the reason."""

    change_form_template = "admin/moved.html"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Adds the buttons, which post to the list as if this row were chosen there."""
        buttons = [
            {"name": name, "label": label} for name, (_, _, label) in self.get_actions(request).items()
        ]
        return super().change_view(
            request, object_id, form_url, {**(extra_context or {}), "buttons": buttons}
        )

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Its own log, which says more than the audit log could."""
        return redirect(f"{reverse(f'admin:runs_{self.opts.model_name}event_changelist')}?q={object_id}")

    def response_action(
        self, request: HttpRequest, queryset: QuerySet, *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Back to the page that the button stood on."""
        answer = super().response_action(request, queryset, *args, **kwargs)
        if back := request.POST.get("back"):
            return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", back)
        return answer


class TaskEventInline(HistoryInline):
    """A task's log."""

    model = models.TaskEvent
    fields = ("sequence", "event_type", "from_status", "to_status", "actor_name", "recorded_at")
    ordering = ("sequence",)


def _button(name: str, label: str, act: Any) -> Any:
    @admin.action(description=label, permissions=["operate"])
    def button(self: _Moved, request: HttpRequest, queryset: QuerySet) -> None:
        if needs_reason(request):
            return
        principal, data = principal_of(request), request.POST
        each(request, queryset[:MOST_AT_ONCE], lambda row: act(row, name, principal, data))

    button.__name__ = name
    return button


def _on_task(task: models.Task, name: str, principal: Any, data: Any) -> None:
    # What has ended is asked for anew; what has not goes on.
    again = name == "retry" and task.status in TASK_FINAL
    act_on_task(task=task, name="run_again" if again else name, principal=principal, data=data)


def _on_run(run: models.Run, name: str, principal: Any, data: Any) -> None:
    if name == "retry":
        _on_task(run.task, name, principal, data)
    else:
        act_on_run(run=run, name=name, principal=principal, data=data)


@admin.register(models.Task)
class TaskAdmin(_Moved):
    """Tasks."""

    list_display = ("id", "title", "repository", "status", "risk_level", "created_by", "created_at")
    list_select_related = ("repository", "created_by")
    list_filter = ("status", "risk_level", "completion_mode")
    search_fields = ("id",)
    search_help_text = "Words of title and instruction, or an id."
    heavy = ("contract", "state", "rejection_reasons")
    inlines = (TaskEventInline,)
    actions = (
        _button("cancel", "Cancel", _on_task),
        _button("retry", "Retry; what has ended is run again", _on_task),
        _button("archive", "Archive", _on_task),
        _button("restore", "Restore", _on_task),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        """By the index of words, as the pages search."""
        return (queryset.filter(tasks_found(search_term)) if search_term else queryset), False


@admin.register(models.Run)
class RunAdmin(_Moved):
    """Runs."""

    list_display = ("id", "task", "attempt_no", "status", "worker_id", "cost_usd", "created_at")
    list_select_related = ("task",)
    list_filter = ("status", by_word("failure_category", FailureCategory), by_word("gate", Gate))
    search_fields = ("id",)
    search_help_text = "Words of the request, of a failure or a branch, or an id."
    heavy = ("state",)
    actions = (
        _button("cancel", "Cancel", _on_run),
        _button("wind_down", "Finish up", _on_run),
        _button("pause", "Pause", _on_run),
        _button("resume", "Resume", _on_run),
        _button("retry", "Retry; what has ended is run again", _on_run),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        """By the index of words, as the pages search."""
        return (queryset.filter(runs_found(search_term)) if search_term else queryset), False
