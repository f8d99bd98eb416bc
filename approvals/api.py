"""Approvals over REST: the queue, one request, decisions and waivers."""

from __future__ import annotations

from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from approvals import selectors, service
from approvals.asking.assign import approval_assign, approval_snooze
from approvals.remarks import MOST_REMARKS, SIDES, Remark
from runs.api import converters  # noqa: F401  ids in addresses
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import Fields, Query, idempotency_key, json_object, moment_stamp
from runs.api.schema import says, words_of
from runs.api.words import FLAG, TEXT
from runs.auth import require_person
from runs.domain.errors import NotFound
from runs.domain.facts import Json, moment
from runs.domain.guards import GUARDS
from runs.domain.payloads import MAX_TEXT
from runs.domain.vocabulary import ApprovalStatus, DecisionWord, Gate

_FILTERS = {
    "status": words_of(ApprovalStatus),
    "gate": words_of(Gate),
    "mine": FLAG,
    "repository": TEXT,
}


class Approvals(ApiView):
    """``GET approvals``"""

    @says(answer="ApprovalPage", is_list=True, query=_FILTERS)
    def get(self, request: Request) -> Response:
        """Requests of the caller's repositories, newest first."""
        require_person(self.principal)
        query = Query(request)
        rows = selectors.filtered_requests(
            self.principal,
            repository=query.text("repository"),
            mine=query.flag("mine"),
        )
        if statuses := query.words("status", list(ApprovalStatus)):
            rows = rows.filter(status__in=statuses)
        if gates := query.words("gate", list(Gate)):
            rows = rows.filter(gate__in=gates)
        return Response(
            page(
                request, rows, lambda found: selectors.shapes(list(found), self.principal),
                field="requested_at",
            )
        )  # fmt: skip


class OneApproval(ApiView):
    """``GET approvals/{id}``"""

    @says(answer="Approval")
    def get(self, request: Request, approval_id: str) -> Response:
        """One request, with its guards, its evidence and what the caller may do."""
        require_person(self.principal)
        return Response(_shown(self, approval_id))


def _shown(view: ApiView, approval_id: str) -> Json:
    found = selectors.visible_requests(view.principal).filter(pk=approval_id).first()
    if found is None:
        raise NotFound
    return selectors.shapes([found], view.principal)[0]


class Decisions(ApiView):
    """``POST approvals/{id}/decisions``"""

    @says(answer="Approval", body="DecisionBody", headers=("Idempotency-Key",))
    def post(self, request: Request, approval_id: str) -> Response:
        """Say yes, no or what to change, about exactly what was shown."""
        require_person(self.principal)
        _shown(self, approval_id)
        made = service.approval_decide(
            approval_id=approval_id,
            **_decision(json_object(request)),
            by=self.principal,
            key=idempotency_key(request),
        )
        headers = {"Idempotency-Replayed": "true"} if made.replayed else {}
        return Response(_shown(self, approval_id), headers=headers)


def _decision(body: Json) -> Json:
    fields = Fields(body)
    read: Json = {
        "decision": fields.choice("decision", list(DecisionWord)),
        "version": fields.integer("version", 1, 2**31 - 1),
        "subject_sha256": fields.text("subject_sha256", limit=64, required=True),
        "comment": fields.text("comment", limit=MAX_TEXT),
        "arguments": fields.mapping("arguments"),
        "budget": fields.mapping("budget"),
        "remarks": [_remark(item) for item in fields.mappings("remarks", limit=MOST_REMARKS)],
        "override": fields.flag("override"),
    }
    fields.done()
    return read


def _remark(item: Json) -> Remark:
    fields = Fields(item)
    path = fields.text("path", limit=4_096, required=True)
    side = fields.choice("side", SIDES) if "side" in item else SIDES[0]
    line = fields.integer("line", 1, 2**31 - 1)
    text = fields.text("text", limit=MAX_TEXT, required=True)
    fields.done()
    return Remark(path, side, line, text)


class Waivers(ApiView):
    """``POST approvals/{id}/waivers``"""

    @says(answer="Approval", body="WaiverBody")
    def post(self, request: Request, approval_id: str) -> Response:
        """Let a request be approved although a guard fails, by name and with a reason."""
        require_person(self.principal)
        _shown(self, approval_id)
        fields = Fields(json_object(request))
        guard = fields.choice("guard", list(GUARDS))
        reason = fields.text("reason", required=True)
        version = fields.integer("version", 1, 2**31 - 1)
        fields.done()
        service.approval_waive(
            approval_id=approval_id, guard=guard, reason=reason, version=version, by=self.principal
        )
        return Response(_shown(self, approval_id))


class Assignment(ApiView):
    """``POST approvals/{id}/assign``"""

    @says(answer="Approval", body="AssignBody")
    def post(self, request: Request, approval_id: str) -> Response:
        """Make it one person's turn; null gives it back to those who were asked first."""
        require_person(self.principal)
        _shown(self, approval_id)
        fields = Fields(json_object(request))
        to = fields.text("to", limit=150)
        fields.done()
        approval_assign(approval_id=approval_id, to=to.strip(), by=self.principal)
        return Response(_shown(self, approval_id))


class Snooze(ApiView):
    """``POST approvals/{id}/snooze``"""

    @says(answer="Approval", body="SnoozeBody")
    def post(self, request: Request, approval_id: str) -> Response:
        """Put it to the end of the queue until then, while its clock goes on; null ends that."""
        require_person(self.principal)
        _shown(self, approval_id)
        body = json_object(request)
        until = moment_stamp(body.get("until"), "until")
        approval_snooze(approval_id=approval_id, until=moment(until) if until else None, by=self.principal)
        return Response(_shown(self, approval_id))


ONE = "approvals/<ulid:approval_id>"
app_name = "approvals-api"
urlpatterns = [
    path("approvals", Approvals.as_view(), name="approvals"),
    path(ONE, OneApproval.as_view(), name="approval"),
    path(f"{ONE}/decisions", Decisions.as_view(), name="decisions"),
    path(f"{ONE}/waivers", Waivers.as_view(), name="waivers"),
    path(f"{ONE}/assign", Assignment.as_view(), name="assign"),
    path(f"{ONE}/snooze", Snooze.as_view(), name="snooze"),
]
