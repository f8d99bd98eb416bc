"""Read runs and what they are made of; say what their people want."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.requests import Fields, idempotency_key, json_object
from runs.api.resume import policy_of, resume
from runs.auth import Action, get_run, require
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev
from runs.models import Run


class Resume(ApiView):
    """``GET runs/{id}/resume``, and ``POST`` to end a pause"""

    def get(self, request: Request, run_id: str) -> Response:
        """What a worker needs to go on."""
        run = get_run(self.principal, run_id)
        return Response(resume(run, RunState.from_json(run.state), policy_of(run)))

    def post(self, request: Request, run_id: str) -> Response:
        """End a pause."""
        return direct(self, request, run_id, Ev.RUN_RESUMED)


def direct(view: ApiView, request: Request, run_id: str, event: Ev) -> Response:
    """A directive of a person."""
    run = get_run(view.principal, run_id)
    is_cancel = event is Ev.CANCEL_REQUESTED
    own = run.task.created_by_id == view.principal.id
    require(
        view.principal, Action.RUN_CANCEL if is_cancel else Action.RUN_OPERATE, run.repository_id, own=own
    )
    fields = Fields(json_object(request))
    reason = fields.text("reason", required=is_cancel)
    fields.done()
    service.run_direct(
        run_id=run.pk,
        event=event,
        reason=reason.strip(),
        by=view.principal.caller,
        key=idempotency_key(request),
    )
    return Response(shapes.one_run(_again(run.pk), view.principal))


def _again(run_id: str) -> Run:
    return Run.objects.select_related("task", "repository").get(pk=run_id)
