"""Lists of tasks, as rows of ready strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from django.db.models import Q, QuerySet
from django.urls import reverse

from runs.auth import Action, Principal, may, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import TaskStatus
from runs.models import Run, Task
from runs.selectors import filters
from runs.selectors.display import shown_task
from runs.selectors.links import page_href
from runs.selectors.mine import my_repositories
from runs.selectors.paging import keyset_page
from runs.selectors.runs import row_sentence, visible_surroundings
from runs.selectors.search import tasks_found
from runs.selectors.standing import tasks_shown_as, tasks_waiting_for
from runs.selectors.surroundings import Surroundings
from runs.selectors.words import joined, lowered, risk_badge, when

MAX_LABELS_SHOWN: Final = 6


def task_list(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """{rows, filters, pager, empty} of /tasks/. Nine queries, whatever the number of tasks.

    ``params``: status, display, waiting_reason, repository, label, mine ("asked" or "1"), q, older, newer.
    Archived tasks are hidden unless ``display`` asks for them.
    """
    choice = filters.repository_choice(principal)
    surroundings = visible_surroundings(principal)
    rows = _filtered(visible_tasks(principal), params, principal, surroundings)
    found, pager = keyset_page(rows, params)
    choices = (filters.DISPLAY, filters.WAITING, choice, filters.TASK_STATUS)
    form = filters.filter_form(params, choices, search="Search", linked=("label", "mine"), said=_said)
    hint = "A task says what to change, where, and how it is checked. An agent does the rest."
    picks = any(may_somewhere(principal, action) for action in (Action.TASK_OPERATE, Action.TASK_CHANGE_OWN))
    creates = may_somewhere(principal, Action.TASK_CREATE)
    action = {"label": "New task", "href": reverse("task_new")} if creates else None
    return {
        "rows": [
            {**row, "pick": f"Choose {row['title']}"} if picks else row
            for row in task_rows(found, principal=principal, surroundings=surroundings)
        ],
        "may_pick": picks,
        "filters": form,
        "views": filters.views_of(_VIEWS, params),
        "pager": pager,
        "may_create": creates,
        "empty": filters.empty_list(form, title="No task yet", hint=hint, action=action),
    }


def may_somewhere(principal: Principal, action: Action) -> bool:
    """Whether they may do it in at least one repository. No query."""
    return any(may(principal, action, where) for where in {where for _, where in principal.grants})


def visible_tasks(principal: Principal) -> QuerySet[Task]:
    """Tasks that this person may see, with repository and author. No query by itself."""
    rows = Task.objects.select_related("repository", "created_by")
    ids = visible_repositories(principal)
    return rows if ids is None else rows.filter(repository_id__in=ids)


#: Views that people come back to; each is an address, as any other that they bookmark.
_VIEWS: Final[tuple[tuple[str, Json], ...]] = (
    ("All", {}),
    ("Asked by me", {"mine": "asked"}),
    ("In my repositories", {"mine": "1"}),
    ("Need a person", {"display": "blocked"}),
    ("Drafts", {"display": "draft"}),
    (Display.ARCHIVED.label, {"display": Display.ARCHIVED.value}),
)


def _said(name: str, value: str) -> str:
    if name == "mine":
        return "asked by me" if value == "asked" else "in my repositories"
    return f"labelled {value}"


def _filtered(
    rows: QuerySet[Task], params: Mapping[str, str], principal: Principal, surroundings: Surroundings
) -> QuerySet[Task]:
    state = params.get("display", "")
    if state != Display.ARCHIVED:
        rows = rows.filter(archived_at__isnull=True)
    if state:
        known = state in list(Display)
        rows = rows.filter(tasks_shown_as(Display(state), surroundings)) if known else rows.none()
    if mine := params.get("mine"):
        asked = Q(created_by_id=principal.id)
        rows = rows.filter(asked if mine == "asked" else Q(repository_id__in=my_repositories(principal)))
    if reason := params.get("waiting_reason"):
        rows = rows.filter(tasks_waiting_for(reason, surroundings))
    if status := params.get("status"):
        rows = rows.filter(status=status)
    if name := params.get("repository"):
        rows = rows.filter(Q(repository__name=name) | Q(repository_id=name))
    if label := params.get("label"):
        rows = rows.filter(labels__contains=[label])
    if params.get("q", "").strip():
        rows = rows.filter(tasks_found(params["q"]))
    return rows


def task_rows(tasks: Iterable[Task], *, principal: Principal, surroundings: Surroundings) -> list[Json]:
    """Rows for runs/_task_row.html. One query: the latest runs; one more where one stands at a gate."""
    tasks = list(tasks)
    latest = Run.objects.in_bulk([task.latest_run_id for task in tasks if task.latest_run_id])
    around = surroundings.for_rows(latest.values())
    return [_row(task, latest.get(task.latest_run_id), principal, around) for task in tasks]


def _row(task: Task, run: Run | None, principal: Principal, surroundings: Surroundings) -> Json:
    shown = shown_task(task, run, principal=principal, surroundings=surroundings, hrefs=page_href)
    state = RunState.from_json(run.state) if run else None
    sentence, tone = row_sentence(shown, state)
    if task.status == TaskStatus.REJECTED:
        sentence, tone = " ".join(task.rejection_reasons), "bad"
    row: Json = {
        "id": task.pk,
        "href": reverse("task", args=[task.pk]),
        "title": task.title,
        "display": lowered(shown["display"]),
        "meta": joined(task.repository.name, f"by {task.created_by.get_username()}"),
        "sentence": sentence,
        "sentence_tone": tone,
        "labels": task.labels[:MAX_LABELS_SHOWN],
        "risk": risk_badge(state.effective_risk if state else task.risk_level),
        "updated": when(task.updated_at),
    }
    if run:
        row["run"] = {"href": reverse("run", args=[run.pk]), "text": f"run {run.attempt_no}"}
    if state and state.pull_request:
        pull = state.pull_request
        row["result"] = {
            "href": web_address(pull["url"]) or row["run"]["href"],
            "text": f"branch {pull['branch']}",
        }
    return row


def web_address(url: str) -> str:
    """The address if a browser may follow it, else ""; an agent's word is no link to anything else."""
    return url if url.startswith(("https://", "http://")) else ""
