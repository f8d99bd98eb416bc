"""The first page and the inbox: what needs this person, what runs, what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from runs.auth import Action, Principal, may
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.vocabulary import ACTIVE, RunStatus, TaskStatus
from runs.models import Run, Task
from runs.selectors import reviews
from runs.selectors.display import shown_run
from runs.selectors.links import page_href
from runs.selectors.paging import keyset_page
from runs.selectors.runs import run_rows, visible_runs, visible_surroundings
from runs.selectors.surroundings import Surroundings
from runs.selectors.tasks import may_somewhere, task_rows, visible_tasks

#: Rows of one part of the page; the list behind the part has them all.
SHOWN: Final = 8
#: Unfinished runs that the page counts by state.
COUNTED: Final = 2_000
LATELY: Final = timedelta(days=7)


def home_page(*, principal: Principal) -> Json:
    """``{turn, states, active, wrong, drafts}``. Nine queries
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
            "display": {"state": state.value, "title": state.label, "icon": state.icon, "tone": state.tone},
            "count": f"{counts[state.value]:,}",
            "href": f"{reverse('runs')}?{urlencode({'display': state.value})}",
        }
        for state in Display
        if state.value in counts
    ]


def notification_list(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{rows, pager, empty}``: runs of this person's tasks that completed, failed, are blocked or need a
    review, newest first. Eight queries, whatever the number of runs."""
    surroundings = visible_surroundings(principal)
    over = Q(status__in=[RunStatus.SUCCEEDED.value, RunStatus.FAILED.value, RunStatus.EXPIRED.value])
    waits = Q(status=RunStatus.WAITING_FOR_APPROVAL.value)
    mine = visible_runs(principal).filter(task__created_by_id=principal.id, task__archived_at__isnull=True)
    found, pager = keyset_page(mine.filter(over | waits), params)
    rows = []
    for run, row in zip(found, run_rows(found, principal=principal, surroundings=surroundings), strict=True):
        shown = shown_run(run, principal=principal, surroundings=surroundings, hrefs=page_href)
        links = [a for a in shown["display"]["actions"] if a["name"] in ("review", "resolve", "view_error")]
        rows.append({**row, "result": _way_out(links, row)})
    hint = "When a run of yours completes, fails, is blocked or needs a review, it appears here."
    empty = {
        "title": "Nothing to tell you",
        "hint": hint,
        "action": {"label": "Tasks", "href": reverse("tasks")},
    }
    return {"rows": rows, "pager": pager, "empty": empty}


def _way_out(links: list[Json], row: Json) -> Json:
    first = next(iter(links), None)
    return (
        {"href": first["href"], "text": first["label"]}
        if first
        else {"href": row["href"], "text": "Open the run"}
    )
