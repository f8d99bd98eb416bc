"""The first page and the inbox: what needs this person, what runs, what went wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.db.models import Aggregate, Count, DurationField, F, Q, QuerySet
from django.urls import reverse

from runs.auth import Action, Principal, may, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.times import spell
from runs.domain.vocabulary import ACTIVE, CompletionMode, RunStatus, TaskStatus
from runs.models import Run, RunOutcome, Task
from runs.selectors import reviews
from runs.selectors.runs import run_rows, visible_runs, visible_surroundings
from runs.selectors.standing import display_of_runs
from runs.selectors.surroundings import Surroundings
from runs.selectors.tasks import may_somewhere, task_rows, visible_tasks

#: Rows of one part of the page; the list behind the part has them all.
SHOWN: Final = 8
#: Unfinished runs that the page counts by state.
COUNTED: Final = 2_000
LATELY: Final = timedelta(days=7)


def home_page(*, principal: Principal) -> Json:
    """``{turn, stuck, states, active, week, done, wrong}`` with what goes with them. Eleven queries
    and those of the reviews, whatever the number of runs."""
    surroundings = visible_surroundings(principal)
    active = visible_runs(principal).filter(
        status__in=[s.value for s in ACTIVE], task__archived_at__isnull=True
    )
    newest = active.order_by("-updated_at")
    turns = reviews.turns_of(principal)
    mine, rest = newest.filter(pk__in=turns), newest.exclude(pk__in=turns)
    counts = _counts(active, surroundings)
    turn_count = mine.count() if turns else 0
    wrong = visible_runs(principal).filter(
        status__in=[RunStatus.FAILED.value, RunStatus.EXPIRED.value],
        task__archived_at__isnull=True,
        outcome__ended_at__gte=surroundings.now - LATELY,
    )
    blocked = visible_tasks(principal).filter(
        status=TaskStatus.WAITING_FOR_APPROVAL.value,
        state__blocked__rule__isnull=False,
        archived_at__isnull=True,
    )
    stuck = [task for task in blocked.order_by("-updated_at")[:COUNTED] if _may_mend(task, principal)][:SHOWN]

    def rows(found: QuerySet[Run]) -> list[Json]:
        few = _first(found, principal)
        return run_rows(few, principal=principal, surroundings=surroundings)

    return {
        "turn": rows(mine) if turn_count else [],
        "turn_more": max(turn_count - SHOWN, 0),
        "stuck": task_rows(stuck, principal=principal, surroundings=surroundings),
        "states": _states(counts),
        "active": rows(rest),
        "active_more": max(sum(counts.values()) - turn_count - SHOWN, 0),
        "week": _week(principal, since=surroundings.now - LATELY),
        "done": _done(principal, surroundings),
        "wrong": rows(wrong.order_by("-outcome__ended_at")),
        "may_create": may_somewhere(principal, Action.TASK_CREATE),
    }


def _first(found: QuerySet[Run], principal: Principal) -> QuerySet[Run]:
    """The first of them: sorted by their ids alone, for whole rows of thousands do not fit into memory."""
    ids = found.values("pk")[:SHOWN]
    return visible_runs(principal).filter(pk__in=ids).order_by(*found.query.order_by)


def _may_mend(task: Task, principal: Principal) -> bool:
    own = task.created_by_id == principal.id
    return may(principal, Action.TASK_OPERATE, task.repository_id, own=own)


def _counts(active: QuerySet[Run], surroundings: Surroundings) -> dict[str, int]:
    """Display state → how many of the newest ``COUNTED`` unfinished runs show it. One query."""
    newest = active.order_by("-created_at", "-pk").values("pk")[:COUNTED]
    looked_at = Run.objects.filter(pk__in=newest).order_by()
    shown = looked_at.annotate(shown=display_of_runs(surroundings))
    return dict(shown.values_list("shown").annotate(Count("pk")))


def _states(counts: dict[str, int]) -> list[Json]:
    """The counts as pills that lead to the runs; states with none are left out."""
    return [
        {
            "display": _pill(state),
            "count": f"{counts[state.value]:,}",
            "href": f"{reverse('runs')}?{urlencode({'display': state.value})}",
        }
        for state in Display
        if state.value in counts
    ]


def _pill(state: Display) -> Json:
    return {"state": state.value, "title": state.label, "icon": state.icon, "tone": state.tone}


class _Median(Aggregate):
    """PostgreSQL's ``percentile_cont(0.5)`` of lengths of time; None over no rows."""

    template = "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = DurationField()


def _week(principal: Principal, *, since: datetime) -> Json:
    """``{tally: [{display, count, href}], median}``: how runs ended since then. One query."""
    ids = visible_repositories(principal)
    ended = RunOutcome.objects.filter(ended_at__gte=since)
    ended = ended if ids is None else ended.filter(repository_id__in=ids)
    found = ended.aggregate(
        **{name: Count("pk", filter=Q(status__in=statuses)) for name, statuses in _ENDINGS.items()},
        median=_Median(F("ended_at") - F("created_at"), filter=Q(status=RunStatus.SUCCEEDED.value)),
    )
    tally = [
        {
            "display": _pill(Display(name)),
            "count": f"{found[name]:,}",
            "href": f"{reverse('runs')}?{urlencode({'display': name})}",
        }
        for name in _ENDINGS
    ]
    return {"tally": tally, "median": spell(found["median"]) if found["median"] is not None else ""}


_ENDINGS: Final = {
    Display.COMPLETED.value: (RunStatus.SUCCEEDED.value,),
    Display.FAILED.value: (RunStatus.FAILED.value, RunStatus.EXPIRED.value),
    Display.CANCELLED.value: (RunStatus.CANCELLED.value,),
}


def _done(principal: Principal, surroundings: Surroundings) -> list[Json]:
    """The latest completed runs, each with what it left. One query."""
    completed = visible_runs(principal).filter(
        outcome__status=RunStatus.SUCCEEDED.value, task__archived_at__isnull=True
    )
    found = list(completed.order_by("-outcome__ended_at", "-pk")[:SHOWN])
    rows = run_rows(found, principal=principal, surroundings=surroundings)
    return [{**row, "result": _result(run)} for run, row in zip(found, rows, strict=True)]


def _result(run: Run) -> Json:
    """The branch at its forge, else where the page of the run shows what came of it."""
    here, state = reverse("run", args=[run.pk]), RunState.from_json(run.state)
    if state.pull_request:
        url = state.pull_request["url"]
        href = url if url.startswith(("https://", "http://")) else here
        return {"href": href, "text": f"branch {state.pull_request['branch']}"}
    tab = "report" if state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED else "patch"
    return {"href": f"{here}?tab={tab}", "text": tab}
