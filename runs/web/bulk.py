"""One action on many tasks: each by itself, each with its own event; what one refuses stops no other."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from runs.actions import BULK, act_on_task
from runs.auth import Principal, get_task
from runs.domain.errors import Invalid, NotFound, Refusal
from runs.selectors.paging import PAGE
from runs.web.session import came_from, page, principal_of

#: Refusals that a message names one by one.
NAMED: Final = 5


@page
@require_POST
def tasks_bulk(request: HttpRequest) -> HttpResponse:
    """Do ``action`` to each chosen ``task``, a page of them at most; a script sends them a few at a time."""
    action, chosen = request.POST.get("action", ""), list(dict.fromkeys(request.POST.getlist("task")))
    if action not in BULK:
        raise Invalid({"action": ["choose what to do"]})
    if not chosen or len(chosen) > PAGE:
        raise Invalid({"task": [f"choose 1 to {PAGE} tasks"]})
    principal = principal_of(request)
    refused = [said for task_id in chosen if (said := _act(request, principal, task_id, action))]
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({"done": len(chosen) - len(refused), "refused": refused})
    _tell(request, done=len(chosen) - len(refused), refused=refused)
    return redirect(came_from(request) if request.headers.get("Referer") else reverse("tasks"))


def _act(request: HttpRequest, principal: Principal, task_id: str, action: str) -> str:
    """Why this one was refused, or ""."""
    try:
        task = get_task(principal, task_id)
    except NotFound:
        return f"{task_id[:40]}: is not there."
    try:
        act_on_task(task=task, name=action, principal=principal, data=request.POST)
    except Refusal as refusal:
        return f"{task.title[:80]}: {refusal.in_words}"
    return ""


def _tell(request: HttpRequest, *, done: int, refused: list[str]) -> None:
    if done:
        messages.success(request, f"Done with {done} {'task' if done == 1 else 'tasks'}.")
    if refused:
        more = f" And {len(refused) - NAMED} more." if len(refused) > NAMED else ""
        messages.warning(request, f"Refused: {' '.join(refused[:NAMED])}{more}")
