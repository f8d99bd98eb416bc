"""The page of one task: contract, instructions, runs, what may be done, its log."""

from __future__ import annotations

from typing import Any, Final

from django.urls import reverse

from runs.auth import Action, Principal, may
from runs.domain.facts import Json
from runs.domain.said import short
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import TASK_FINAL, CompletionMode, Risk, TaskEv, TaskStatus
from runs.models import Run, Task, TaskEvent
from runs.selectors.campaigns import campaign_link
from runs.selectors.display import shown_task
from runs.selectors.links import buttons, page_href
from runs.selectors.runs import run_rows, visible_runs
from runs.selectors.surroundings import read_surroundings
from runs.selectors.words import brief_id, joined, lowered, risk_badge, told_risk, when

MOST_RUNS: Final = 50
MOST_MOVES: Final = 200


def task_page(*, task: Task, principal: Principal) -> Json:
    """All of /tasks/{id}/. Nine queries, whatever the number of runs."""
    told = TaskState.from_json(task.state)
    runs = list(visible_runs(principal).filter(task=task).order_by("-attempt_no")[:MOST_RUNS])
    surroundings = read_surroundings(repository_ids=[task.repository_id]).for_rows(runs)
    latest = next((run for run in runs if run.pk == task.latest_run_id), None)
    shown = shown_task(task, latest, principal=principal, surroundings=surroundings, hrefs=page_href)
    risk = told_risk(task.contract, latest.state["effective_risk"] if latest else "")
    here = reverse("task", args=[task.pk])
    own = principal.id == task.created_by_id
    operates = may(principal, Action.TASK_OPERATE, task.repository_id, own=own)
    unfinished = task.status in (TaskStatus.RUNNING, TaskStatus.WAITING_FOR_APPROVAL)
    return {
        "id": task.pk,
        "title": task.title,
        "display": lowered(shown["display"]),
        "wait": shown["waiting_for"],
        "meta": joined(task.repository.name, f"asked by {task.created_by.get_username()}"),
        "created": when(task.created_at),
        "risk": risk_badge(risk["level"]),
        "labels": task.labels,
        "actions": buttons(shown["display"]["actions"], here=here, key=f"again-{task.pk}-{task.version}"),
        "rejection_reasons": task.rejection_reasons,
        "blocked": _blocked(told),
        "instructions": [_instruction(entry) for entry in told.instructions],
        "may_create": may(principal, Action.TASK_CREATE, task.repository_id),
        "may_add": operates and unfinished,
        "add_href": reverse("task_action", args=[task.pk, "instructions"]),
        "runs": run_rows(runs, principal=principal, surroundings=surroundings),
        "contract": _contract(task, risk),
        "verifiers": task.contract["verifiers"],
        "parent": _parent(task),
        "campaign": campaign_link(task, principal),
        "log": [_move(row) for row in _log(task)],
        "live": task.status not in TASK_FINAL,
    }


def _blocked(told: TaskState) -> str:
    return str(told.blocked["reason"]) if told.blocked else ""


def _instruction(entry: Json) -> Json:
    return {"number": entry["number"], "text": entry["text"], "by": entry["by_name"], "at": when(entry["at"])}


def _contract(task: Task, risk: Json) -> list[Json]:
    """Facts of the contract that were set, in words."""
    contract, rows = task.contract, []

    def say(term: str, value: Any, *, mono: bool = False) -> None:
        if value not in ("", [], {}, None):
            rows.append({"term": term, "text": str(value), "mono": mono})

    say("Repository", task.repository.name)
    say("Base branch", contract["base_branch"], mono=True)
    say("Folder", contract["working_directory"], mono=True)
    say("Done when", _DONE[CompletionMode(contract["completion_mode"])])
    say("Risk", f"{Risk(risk['level']).label.lower()}, {risk['why']}")
    plan = "a person approves it" if contract["plan_approval"] == "required" else "as the risk asks"
    say("Plan", plan)
    say("Pull request", "by itself when every guard passes" if contract["auto_pr"] else "after a review")
    say("Agent", contract["agent"]["kind"])
    say("Command", contract["agent"].get("command", ""), mono=True)
    say("Setup", "; ".join(contract["setup"]), mono=True)
    say(
        "May touch",
        ", ".join(contract["allowed_paths"]) or "everything",
        mono=bool(contract["allowed_paths"]),
    )
    say("Must not touch", ", ".join(contract["forbidden_paths"]), mono=True)
    say("Priority", f"{task.priority} of 9")
    say("Needs", ", ".join(contract["needs"]))
    say("Budget", ", ".join(f"{_spoken(k)} {v}" for k, v in contract["budget"].items()))
    say("Timeouts", ", ".join(f"{_spoken(k)} {v} s" for k, v in contract["timeouts"].items()))
    rows.append({"term": "Id", "text": brief_id(task.pk), "mono": True, "copy_text": task.pk})
    return rows


_DONE: Final = {
    CompletionMode.PR_CREATED: "the pull request is open",
    CompletionMode.PATCH_READY_FOR_REVIEW: "the patch is judged and ready",
    CompletionMode.ANALYSIS_REPORT_CREATED: "the report is judged and ready",
}


def _spoken(name: str) -> str:
    return name.removeprefix("max_").replace("_usd", " $").replace("_seconds", " s").replace("_", " ")


def _parent(task: Task) -> Json | None:
    if not task.parent_id:
        return None
    return {"href": reverse("task", args=[task.parent_id]), "text": brief_id(task.parent_id)}


def _log(task: Task) -> list[TaskEvent]:
    return list(TaskEvent.objects.filter(task_id=task.pk).order_by("-sequence")[:MOST_MOVES])


def _move(row: TaskEvent) -> Json:
    known = {event.value: event.label for event in TaskEv}
    payload, facts = row.payload, row.facts
    words = payload.get("text") or facts.get("reason") or " ".join(facts.get("reasons", ()))
    return {
        "sequence": row.sequence,
        "text": "To be archived when it ends"
        if payload.get("after")
        else known.get(row.event_type, row.event_type),
        "detail": short(str(words)) if words else "",
        "by": row.actor_name,
        "at": when(row.recorded_at),
        "moved": "" if row.from_status == row.to_status else TaskStatus(row.to_status).label,
    }


def latest_run(task: Task) -> Run | None:
    """The task's latest run. One query."""
    return Run.objects.filter(pk=task.latest_run_id).first() if task.latest_run_id else None
