"""What people find by words: requests by title and instruction, runs by failure and branch."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.postgres.search import SearchQuery
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from runs.models import PullRequest, Run, Task
from runs.models.search import Words, WordsOfTask, request_words, say, search_query

#: Words that more rows than this say are asked of row by row, newest first, which ends where a page is full.
#: Of rarer words the index knows all rows at once; of common ones it would read most of the table to show 50.
COMMON: Final = 10_000


def tasks_found(text: str) -> Q:
    """Tasks that say it, or one of whose runs says it; or the task of this id. Three queries at most."""
    text = _clean(text)
    query = search_query(text)
    if query is None:
        return Q(pk=text)
    asked, failed, branches = _asked(query), _failed(query), _branches(query)
    if _is_common(asked, failed, branches):
        failed, branches = failed.filter(task=OuterRef("pk")), branches.filter(run__task=OuterRef("pk"))
        said = say(WordsOfTask(F("title"), F("contract")), query)
        return Q(pk=text) | said | Q(Exists(failed)) | Q(Exists(branches))
    named, in_runs = Task.objects.filter(pk=text), (failed.values("task_id"), branches.values("run__task_id"))
    return Q(pk__in=named.values("pk").union(asked.values("pk"), *in_runs))


def runs_found(text: str) -> Q:
    """Runs that say it, or whose task says it; or the run of this id. Three queries at most."""
    text = _clean(text)
    query = search_query(text)
    if query is None:
        return Q(pk=text)
    asked, failed, branches = _asked(query), _failed(query), _branches(query)
    if _is_common(asked, failed, branches):
        said = say(WordsOfTask(F("task__title"), F("task__contract")), query)
        for words in (Words("status_reason"), Words("pull_request__branch")):
            said |= say(words, query)
        return Q(pk=text) | said
    named, of_tasks = Run.objects.filter(pk=text), Run.objects.filter(task__in=asked.values("pk"))
    places = (of_tasks.values("pk"), failed.values("pk"), branches.values("run_id"))
    return Q(pk__in=named.values("pk").union(*places))


def _asked(query: SearchQuery) -> QuerySet[Any]:
    return Task.objects.alias(words=request_words()).filter(words=query)


def _failed(query: SearchQuery) -> QuerySet[Any]:
    return Run.objects.exclude(status_reason="").alias(words=Words("status_reason")).filter(words=query)


def _branches(query: SearchQuery) -> QuerySet[Any]:
    return PullRequest.objects.alias(words=Words("branch")).filter(words=query)


def _is_common(*places: QuerySet[Any]) -> bool:
    return any(rows[: COMMON + 1].count() > COMMON for rows in places)


def _clean(text: str) -> str:
    return text.strip().replace("\0", "")
