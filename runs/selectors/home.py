"""The first page and the inbox: what needs this person, what runs, what went wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.db.models import Aggregate, Count, DurationField, F, Q
from django.urls import reverse

from runs.auth import Action, Principal, may
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.times import spell
from runs.domain.vocabulary import ACTIVE, CompletionMode, RunStatus, TaskStatus
from runs.models import Run, Task
from runs.selectors import reviews
from runs.selectors.display import shown_run
from runs.selectors.links import page_href
from runs.selectors.runs import run_rows, visible_runs, visible_surroundings
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
    standing = list(active.order_by("-updated_at")[:COUNTED])
    turns = reviews.turns_of(principal)
    mine = [run for run in standing if run.pk in turns]
    rest = [run for run in standing if run not in mine]
    wrong = visible_runs(principal).filter(
        status__in=[RunStatus.FAILED.value, RunStatus.EXPIRED.value],
        task__archived_at__isnull=True,
        completed_at__gte=surroundings.now - LATELY,
    )
    blocked = visible_tasks(principal).filter(
        status=TaskStatus.WAITING_FOR_APPROVAL.value,
        state__blocked__rule__isnull=False,
        archived_at__isnull=True,
    )
    stuck = [task for task in blocked.order_by("-updated_at")[:COUNTED] if _may_mend(task, principal)][:SHOWN]

    def rows(found: list[Run]) -> list[Json]:
        return run_rows(found[:SHOWN], principal=principal, surroundings=surroundings)

    return {
        "turn": rows(mine),
        "turn_more": max(len(mine) - SHOWN, 0),
        "stuck": task_rows(stuck, principal=principal, surroundings=surroundings),
        "states": _states(standing, principal, surroundings),
        "active": rows(rest),
        "active_more": max(len(rest) - SHOWN, 0),
        "week": _week(principal, since=surroundings.now - LATELY),
        "done": _done(principal, surroundings),
        "wrong": rows(list(wrong.order_by("-completed_at")[:SHOWN])),
        "may_create": may_somewhere(principal, Action.TASK_CREATE),
    }


def _may_mend(task: Task, principal: Principal) -> bool:
    own = task.created_by_id == principal.id
    return may(principal, Action.TASK_OPERATE, task.repository_id, own=own)


def _states(runs: list[Run], principal: Principal, surroundings: Surroundings) -> list[Json]:
    """How many unfinished runs are in each display state; those with none are left out."""
    counts: dict[str, int] = {}
    for run in runs:
        shown = shown_run(run, principal=principal, surroundings=surroundings, hrefs=page_href)
        name = shown["display"]["state"]
        counts[name] = counts.get(name, 0) + 1
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
    ended = visible_runs(principal).filter(completed_at__gte=since, task__archived_at__isnull=True)
    found = ended.aggregate(
        **{name: Count("pk", filter=Q(status__in=statuses)) for name, statuses in _ENDINGS.items()},
        median=_Median(F("completed_at") - F("created_at"), filter=Q(status=RunStatus.SUCCEEDED.value)),
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
        status=RunStatus.SUCCEEDED.value, task__archived_at__isnull=True, completed_at__isnull=False
    )
    found = list(completed.order_by("-completed_at", "-pk")[:SHOWN])
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
