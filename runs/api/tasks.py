"""Take in work and act on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import Fields, Query, idempotency_key, json_object
from runs.api.runs import visible_surroundings
from runs.api.schema import says, words_of
from runs.api.words import TEXT
from runs.auth import (
    Action,
    Principal,
    get_task,
    may,
    require,
    require_anywhere,
    require_person,
    visible_repositories,
)
from runs.domain.display import Display
from runs.domain.errors import Invalid
from runs.domain.facts import Json
from runs.domain.vocabulary import TaskStatus
from runs.models import Repository, Task
from runs.selectors.search import tasks_found
from runs.selectors.standing import tasks_shown_as

MAX_INSTRUCTION: Final = 100_000
_FILTERS: Final = {
    "status": words_of(TaskStatus),
    "display": words_of(Display),
    "repository": TEXT,
    "label": TEXT,
    "q": TEXT,
}


class Tasks(ApiView):
    """``GET tasks`` and ``POST tasks``"""

    @says(answer="TaskPage", is_list=True, query=_FILTERS)
    def get(self, request: Request) -> Response:
        """Tasks of the caller's repositories, newest first; archived ones only by ``display=archived``."""
        require_person(self.principal)
        rows = _filtered(_visible(self.principal), Query(request), self.principal)
        return Response(page(request, rows, lambda found: shapes.tasks(list(found), self.principal)))

    @says(answer="Task", status=201, also=(200,), body="TaskBody", headers=("Idempotency-Key",))
    def post(self, request: Request) -> Response:
        """Make a task, and submit it where ``submit`` is true."""
        require_person(self.principal)
        require_anywhere(self.principal, Action.TASK_CREATE)
        body = json_object(request)
        repository = _repository(body.get("repository"), self.principal)
        require(self.principal, Action.TASK_CREATE, repository.pk)
        task, made = service.task_create(
            data=body, repository=repository, by=self.principal.caller, key=idempotency_key(request)
        )
        return _made(task, self.principal, made=made)


def _visible(principal: Principal) -> QuerySet[Task]:
    rows = Task.objects.select_related("repository", "created_by")
    ids = visible_repositories(principal)
    return rows if ids is None else rows.filter(repository_id__in=ids)


def _filtered(rows: QuerySet[Task], query: Query, principal: Principal) -> QuerySet[Task]:
    if statuses := query.words("status", list(TaskStatus)):
        rows = rows.filter(status__in=statuses)
    if repository := query.text("repository"):
        rows = rows.filter(Q(repository_id=repository) | Q(repository__name=repository))
    if label := query.text("label"):
        rows = rows.filter(labels__contains=[label])
    if text := query.text("q"):
        rows = rows.filter(tasks_found(text))
    states = query.words("display", list(Display))
    if Display.ARCHIVED not in states:
        rows = rows.filter(archived_at__isnull=True)
    if states:
        around, shown = visible_surroundings(principal), Q(pk__in=[])
        for state in states:
            shown |= tasks_shown_as(Display(state), around)
        rows = rows.filter(shown)
    return rows


def _repository(name: Any, principal: Principal) -> Repository:
    """By id or name, among those the caller may know of."""
    found = None
    if isinstance(name, str) and name:
        found = Repository.objects.filter(Q(pk=name) | Q(name=name)).first()
    if found is None or not may(principal, Action.READ, found.pk):
        raise Invalid({"repository": ["is not the name or id of a repository here"]})
    return found


def _made(task: Task, principal: Principal, *, made: bool) -> Response:
    shown = shapes.one_task(get_task(principal, task.pk), principal)
    if made:
        return Response(shown, status=201)
    return Response(shown, headers={"Idempotency-Replayed": "true"})


class OneTask(ApiView):
    """``GET``, ``PATCH`` and ``DELETE tasks/{id}``"""

    @says(answer="Task")
    def get(self, request: Request, task_id: str) -> Response:
        """One task."""
        require_person(self.principal)
        return Response(shapes.one_task(get_task(self.principal, task_id), self.principal))

    @says(answer="Task", body="TaskChanges")
    def patch(self, request: Request, task_id: str) -> Response:
        """Edit a draft; of an unfinished task priority and labels."""
        task = own_task(self, task_id, Action.TASK_OPERATE)
        body = json_object(request)
        if "repository" in body and body["repository"] not in (task.repository.name, task.repository_id):
            raise Invalid({"repository": ["cannot be changed; make another task"]})
        if "priority" in body and task.status != TaskStatus.DRAFT:
            require(self.principal, Action.RUN_OPERATE, task.repository_id)
        service.task_edit(task_id=task.pk, data=body, by=self.principal.caller)
        return shown(self, task_id)

    @says(status=204)
    def delete(self, request: Request, task_id: str) -> Response:
        """Delete a draft."""
        task = own_task(self, task_id, Action.TASK_OPERATE)
        service.task_delete(task_id=task.pk)
        return Response(status=204)


def own_task(view: ApiView, task_id: str, action: Action) -> Task:
    """The task, where the caller may do ``action`` to it; people may do most to what they asked for."""
    require_person(view.principal)
    task = get_task(view.principal, task_id)
    require(view.principal, action, task.repository_id, own=task.created_by_id == view.principal.id)
    return task


def shown(view: ApiView, task_id: str) -> Response:
    """The task as it is now."""
    return Response(shapes.one_task(get_task(view.principal, task_id), view.principal))


# --- actions --------------------------------------------------------------------------------------


class TaskAction(ApiView, ABC):
    """Base of what people do to a task."""

    action = Action.TASK_OPERATE

    @says(answer="Task", body="NothingBody")
    def post(self, request: Request, task_id: str) -> Response:
        """Do it; the answer is the task."""
        task = own_task(self, task_id, self.action)
        self.act(task, json_object(request))
        return shown(self, task_id)

    @abstractmethod
    def act(self, task: Task, body: Json) -> None:
        """Call the service."""


class Submit(TaskAction):
    """``POST tasks/{id}/submit``"""

    def act(self, task: Task, body: Json) -> None:
        """Validate it and queue its first run, or reject it with every reason."""
        service.task_submit(task_id=task.pk, by=self.principal.caller)


class Cancel(TaskAction):
    """``POST tasks/{id}/cancel``"""

    @says(answer="Task", body="CancelBody")
    def post(self, request: Request, task_id: str) -> Response:
        """Cancel the task and its run; the answer is the task."""
        return super().post(request, task_id)

    def act(self, task: Task, body: Json) -> None:
        """Cancel it and its run."""
        fields = Fields(body)
        reason = fields.text("reason", required=True).strip()
        fields.done()
        service.task_cancel(task_id=task.pk, reason=reason, by=self.principal.caller)


class Retry(TaskAction):
    """``POST tasks/{id}/retry``"""

    def act(self, task: Task, body: Json) -> None:
        """Skip a pending backoff, or make a new run of a blocked task."""
        service.task_retry(task_id=task.pk, by=self.principal.caller)


class AccessRenewed(TaskAction):
    """``POST tasks/{id}/access-renewed``"""

    def act(self, task: Task, body: Json) -> None:
        """Say that access is there again."""
        service.access_renewed(task_id=task.pk, by=self.principal.caller)


class Archive(TaskAction):
    """``POST tasks/{id}/archive``"""

    def act(self, task: Task, body: Json) -> None:
        """Hide it from active lists."""
        service.task_archive(task_id=task.pk, by=self.principal.caller)


class ArchiveAfter(TaskAction):
    """``POST tasks/{id}/archive-after``"""

    def act(self, task: Task, body: Json) -> None:
        """Archive it as soon as it ends."""
        service.task_archive_after(task_id=task.pk, by=self.principal.caller)


class Restore(TaskAction):
    """``POST tasks/{id}/restore``"""

    def act(self, task: Task, body: Json) -> None:
        """Bring it back."""
        service.task_archive(task_id=task.pk, by=self.principal.caller, restore=True)


class Instructions(TaskAction):
    """``POST tasks/{id}/instructions``"""

    @says(answer="Task", status=201, body="InstructionBody")
    def post(self, request: Request, task_id: str) -> Response:
        """Add a further instruction; the answer is the task, with all of them."""
        response = super().post(request, task_id)
        response.status_code = 201
        return response

    def act(self, task: Task, body: Json) -> None:
        """Its run knows it at once."""
        fields = Fields(body)
        text = fields.text("text", limit=MAX_INSTRUCTION, required=True)
        fields.done()
        service.instruction_add(task_id=task.pk, text=text, by=self.principal.caller)


class RunAgain(ApiView):
    """``POST tasks/{id}/run-again``"""

    @says(answer="Task", status=201, also=(200,), body="NothingBody", headers=("Idempotency-Key",))
    def post(self, request: Request, task_id: str) -> Response:
        """A new task by the contract of a finished one."""
        task = own_task(self, task_id, Action.TASK_CREATE)
        again, made = service.run_again(
            task_id=task.pk, by=self.principal.caller, key=idempotency_key(request)
        )
        return _made(again, self.principal, made=made)
