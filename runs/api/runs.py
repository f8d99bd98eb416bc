"""Read runs and what they are made of; say what their people want."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Final, TypeVar

from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api import shapes, story
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import Fields, Query, idempotency_key, json_object
from runs.api.resume import policy_of, resume
from runs.api.schema import says, words_of
from runs.api.words import TEXT, WHOLE
from runs.auth import Action, Principal, get_run, require, require_person, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev, FailureCategory, RunStatus
from runs.domain.waiting import REASONS
from runs.models import Attempt, Lease, Repository, Run, Step, WorkerAccount
from runs.selectors import Surroundings, read_surroundings
from runs.selectors.standing import runs_shown_as, runs_waiting_for

MAX_NOTE: Final = 20_000
_FILTERS: Final = {
    "status": words_of(RunStatus),
    "display": words_of(Display),
    "failure_category": words_of(FailureCategory),
    "waiting_reason": words_of(REASONS),
    "task": TEXT,
    "repository": TEXT,
    "worker": TEXT,
}
M = TypeVar("M", bound=Model)


# --- lists ----------------------------------------------------------------------------------------


class Runs(ApiView):
    """``GET runs``"""

    @says(answer="RunPage", is_list=True, query=_FILTERS)
    def get(self, request: Request) -> Response:
        """Runs that the caller may see, newest first."""
        rows = _filtered(visible_runs(self.principal), Query(request), self.principal)
        return Response(page(request, rows, lambda found: shapes.runs(list(found), self.principal)))


def visible_runs(principal: Principal) -> QuerySet[Run]:
    """People see runs of their repositories; machines what they hold, held, or may claim by their roles."""
    rows = Run.objects.select_related("task", "repository")
    if (ids := visible_repositories(principal)) is not None:
        rows = rows.filter(repository_id__in=ids)
    if principal.worker is None:
        return rows
    held = Exists(Lease.objects.filter(run=OuterRef("pk"), worker_id=principal.id))
    return rows.filter(Q(claim_role__in=principal.worker.roles) | Q(worker_id=principal.id) | held)


def visible_surroundings(principal: Principal) -> Surroundings:
    """What filters by display depend on. A query more than those of ``read_surroundings``."""
    ids = visible_repositories(principal)
    return read_surroundings(
        repository_ids=Repository.objects.values_list("pk", flat=True) if ids is None else ids
    )


def _filtered(rows: QuerySet[Run], query: Query, principal: Principal) -> QuerySet[Run]:
    if statuses := query.words("status", list(RunStatus)):
        rows = rows.filter(status__in=statuses)
    if categories := query.words("failure_category", list(FailureCategory)):
        rows = rows.filter(failure_category__in=categories)
    if task := query.text("task"):
        rows = rows.filter(task_id=task)
    if repository := query.text("repository"):
        rows = rows.filter(Q(repository_id=repository) | Q(repository__name=repository))
    if worker := query.text("worker"):
        named = WorkerAccount.objects.filter(name=worker).values("pk")
        rows = rows.filter(Q(worker_id=worker) | Q(worker_id__in=named))
    return _shown_as(rows, query, principal)


def _shown_as(rows: QuerySet[Run], query: Query, principal: Principal) -> QuerySet[Run]:
    states = query.words("display", list(Display))
    reasons = query.words("waiting_reason", list(REASONS))
    if states or reasons:
        around = visible_surroundings(principal)
        if states:
            rows = rows.filter(_any(runs_shown_as(Display(state), around) for state in states))
        if reasons:
            rows = rows.filter(_any(runs_waiting_for(reason, around) for reason in reasons))
    return rows


def _any(conditions: Iterable[Q]) -> Q:
    return reduce(or_, conditions)


class OneRun(ApiView):
    """``GET runs/{id}``"""

    @says(answer="Run")
    def get(self, request: Request, run_id: str) -> Response:
        """One run, with the events that machines may post now."""
        return Response(shapes.one_run(get_run(self.principal, run_id), self.principal))


class Steps(ApiView):
    """``GET runs/{id}/steps``"""

    @says(answer="StepPage", is_list=True)
    def get(self, request: Request, run_id: str) -> Response:
        """Every action, oldest first."""
        rows = Step.objects.filter(run=get_run(self.principal, run_id))
        return Response(_in_order(request, rows, shapes.step))


class Attempts(ApiView):
    """``GET runs/{id}/attempts``"""

    @says(answer="AttemptPage", is_list=True)
    def get(self, request: Request, run_id: str) -> Response:
        """Every attempt, oldest first."""
        rows = Attempt.objects.filter(run=get_run(self.principal, run_id))
        return Response(_in_order(request, rows, shapes.attempt))


def _in_order(request: Request, rows: QuerySet[M], shape: Callable[[M], Json]) -> Json:
    return page(
        request, rows, lambda found: [shape(row) for row in found], field="started_at", newest_first=False
    )


class Timeline(ApiView):
    """``GET runs/{id}/timeline``"""

    @says(answer="Timeline", query={"upto": WHOLE})
    def get(self, request: Request, run_id: str) -> Response:
        """The story of the run in sentences, newest window first."""
        run = get_run(self.principal, run_id)
        return Response(story.timeline(request, run, upto=Query(request).integer("upto", run.version)))


class Receipt(ApiView):
    """``GET runs/{id}/receipt``"""

    @says(answer="Receipt")
    def get(self, request: Request, run_id: str) -> Response:
        """What became of a request to stop."""
        return Response(story.receipt(get_run(self.principal, run_id)))


# --- directives and remarks -----------------------------------------------------------------------


class Directive(ApiView):
    """Base of what people want of a run's worker."""

    event: Ev
    action = Action.RUN_OPERATE
    reason_required = False

    @says(answer="Run", body="ReasonBody", headers=("Idempotency-Key",))
    def post(self, request: Request, run_id: str) -> Response:
        """Ask for it; the answer is the run."""
        run = get_run(self.principal, run_id)
        own = run.task.created_by_id == self.principal.id
        require(self.principal, self.action, run.repository_id, own=own)
        fields = Fields(json_object(request))
        reason = fields.text("reason", required=self.reason_required).strip()
        fields.done()
        service.run_direct(
            run_id=run.pk, event=self.event, reason=reason, by=self.principal.caller,
            key=idempotency_key(request),
        )  # fmt: skip
        return Response(shapes.one_run(get_run(self.principal, run_id), self.principal))


class Cancel(Directive):
    """``POST runs/{id}/cancel``"""

    event, action, reason_required = Ev.CANCEL_REQUESTED, Action.RUN_CANCEL, True

    @says(answer="Run", body="CancelBody", headers=("Idempotency-Key",))
    def post(self, request: Request, run_id: str) -> Response:
        """Cancel the run; the answer is the run."""
        return super().post(request, run_id)


class Pause(Directive):
    """``POST runs/{id}/pause``"""

    event = Ev.PAUSE_REQUESTED


class WindDown(Directive):
    """``POST runs/{id}/wind-down``"""

    event = Ev.WIND_DOWN_REQUESTED


class Resume(Directive):
    """``POST runs/{id}/resume`` ends a pause; ``GET`` is for the worker that goes on"""

    event = Ev.RUN_RESUMED

    @says(answer="Resume")
    def get(self, request: Request, run_id: str) -> Response:
        """What a worker needs to go on."""
        run = get_run(self.principal, run_id)
        return Response(resume(run, RunState.from_json(run.state), policy_of(run)))


class Note(ApiView):
    """``POST runs/{id}/note``"""

    @says(answer="Run", body="TextBody", headers=("Idempotency-Key",))
    def post(self, request: Request, run_id: str) -> Response:
        """A remark, in any status; the answer is the run."""
        run = get_run(self.principal, run_id)
        require_person(self.principal)
        require(self.principal, Action.NOTE, run.repository_id)
        fields = Fields(json_object(request))
        text = fields.text("text", limit=MAX_NOTE, required=True)
        fields.done()
        service.run_note(run_id=run.pk, text=text, by=self.principal.caller, key=idempotency_key(request))
        return Response(shapes.one_run(get_run(self.principal, run_id), self.principal))
