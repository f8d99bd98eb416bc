"""What people find by words: requests by title and instruction, runs by failure and branch."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from runs.models import PullRequest, Run, Task
from runs.models.search import Words, request_words, search_query


def tasks_found(text: str) -> Q:
    """Tasks that say it, or one of whose runs says it; or the task of this id."""
    text = _clean(text)
    query = search_query(text)
    if query is None:
        return Q(pk=text)
    asked = Task.objects.alias(words=request_words()).filter(words=query)
    failed, branches = _in_runs(query, "task_id")
    return Q(pk=text) | Q(pk__in=asked.values("pk")) | Q(pk__in=failed.union(branches))


def runs_found(text: str) -> Q:
    """Runs that say it, or whose task says it; or the run of this id."""
    text = _clean(text)
    query = search_query(text)
    if query is None:
        return Q(pk=text)
    asked = Task.objects.alias(words=request_words()).filter(words=query)
    failed, branches = _in_runs(query, "pk")
    return Q(pk=text) | Q(task__in=asked.values("pk")) | Q(pk__in=failed.union(branches))


def _in_runs(query: object, column: str) -> list[QuerySet]:
    """``column`` of the runs whose failure or branch says it."""
    failed = Run.objects.exclude(status_reason="").alias(words=Words("status_reason")).filter(words=query)
    branches = PullRequest.objects.alias(words=Words("branch")).filter(words=query)
    return [failed.values(column), branches.values("run_id" if column == "pk" else "run__task_id")]


def _clean(text: str) -> str:
    return text.strip().replace("\0", "")
