"""The display of one run or task, for a person: state, step, what is missing, actions, what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runs.auth import Action, Principal, may
from runs.domain.actions import ActionRow, possible_actions
from runs.domain.display import (
    Around,
    Standing,
    display_state,
    missing,
    standing_of_run,
    standing_of_task,
    step_label,
)
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.waiting import waiting_for
from runs.models import Run, Task
from runs.models.holds import covered_of
from runs.selectors.surroundings import Surroundings

#: (action, task id, run id, approval id) → the address that does it.
Hrefs = Callable[[ActionRow, str, str, str], str]
Allowed = Callable[[str], bool]

_API: Final = "/api/v1"
_API_PATHS: Final = {
    "edit": "/tasks/{task}",
    "delete": "/tasks/{task}",
    "run_now": "/tasks/{task}",
    "run_again": "/tasks/{task}/run-again",
    "access_renewed": "/tasks/{task}/access-renewed",
    "archive_after": "/tasks/{task}/archive-after",
    "wind_down": "/runs/{run}/wind-down",
    "open_logs": "/runs/{run}/steps",
    "view_error": "/runs/{run}/timeline",
    "review_result": "/runs/{run}/artifacts",
    "review": "/approvals/{approval}",
    "resolve": "/approvals/{approval}",
}


def api_href(action: ActionRow, task_id: str, run_id: str, approval_id: str) -> str:
    """The API's address for an action."""
    path = _API_PATHS.get(action.name) or f"/{action.subject}s/{{{action.subject}}}/{action.name}"
    if action.subject == "page" and not run_id:
        path = "/tasks/{task}"
    return _API + path.format(task=task_id, run=run_id, approval=approval_id)


def allowed_to(principal: Principal, task: Task) -> Allowed:
    """Whether this caller has a permission on a task and its runs. No query."""
    own = principal.id == task.created_by_id
    return lambda permission: may(principal, Action(permission), task.repository_id, own=own)


def display_for_run(
    *, state: RunState, task: TaskState, around: Around, allowed: Allowed, hrefs: Hrefs = api_href
) -> Json:
    """``{state, title, icon, tone, step, missing, actions}`` of a run. No query."""
    standing = standing_of_run(state, task, around)
    return _display(standing, state, task, allowed, hrefs)


def display_for_task(
    *, task: TaskState, run: RunState | None, around: Around, allowed: Allowed, hrefs: Hrefs = api_href
) -> Json:
    """The same of a task; ``run`` is its latest, if it has one. No query."""
    standing = standing_of_task(task, run, around)
    return _display(standing, run, task, allowed, hrefs)


def _display(
    standing: Standing, run: RunState | None, task: TaskState, allowed: Allowed, hrefs: Hrefs
) -> Json:
    state = display_state(standing)
    run_id = run.id if run else ""
    approval_id = ((run.gate if run else None) or {}).get("approval_id", "")
    moving = run is not None and standing.run_status and not state.is_over
    return {
        "state": state.value,
        "title": state.label,
        "icon": state.icon,
        "tone": state.tone,
        "step": step_label(run.status, run.completion_mode) if run and moving else None,
        "missing": missing(state, standing, run, task),
        "actions": [
            {"name": row.name, "label": row.label, "href": hrefs(row, task.id, run_id, approval_id)}
            for row in possible_actions(state, standing)
            if allowed(row.permission)
        ],
    }


def shown_run(run: Run, *, principal: Principal, surroundings: Surroundings, hrefs: Hrefs = api_href) -> Json:
    """``{display, waiting_for}`` of a run row with its task; ``waiting_for`` may be None. No query."""
    state, task = RunState.from_json(run.state), TaskState.from_json(run.task.state)
    around = surroundings.around(state, covered_of(run.task), run.task.needs)
    wait = waiting_for(state, task, around, surroundings.due(state, run.task.contract))
    display = display_for_run(
        state=state,
        task=task,
        around=around,
        allowed=allowed_to(principal, run.task),
        hrefs=hrefs,
    )
    return {"display": display, "waiting_for": wait.to_json() if wait else None}


def shown_task(
    task: Task, run: Run | None, *, principal: Principal, surroundings: Surroundings, hrefs: Hrefs = api_href
) -> Json:
    """``{display, waiting_for}`` of a task row and its latest run. No query."""
    state = RunState.from_json(run.state) if run else None
    told = TaskState.from_json(task.state)
    shown = state or RunState(repository_id=task.repository_id)
    around = surroundings.around(shown, covered_of(task), task.needs)
    wait = waiting_for(state, told, around, surroundings.due(state, task.contract)) if state else None
    display = display_for_task(
        task=told, run=state, around=around, allowed=allowed_to(principal, task), hrefs=hrefs
    )
    return {"display": display, "waiting_for": wait.to_json() if wait else None}
