"""Holds over REST: which there are, set one, lift one."""

from __future__ import annotations

from datetime import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import Fields, Query, json_object, moment_stamp
from runs.api.schema import says
from runs.api.words import FLAG
from runs.auth import require_hold, require_hold_over, require_person
from runs.domain.errors import NotFound
from runs.domain.facts import moment
from runs.domain.holds import MAX_VALUE, SET_BY_PEOPLE
from runs.models import Hold
from runs.selectors.holds import hold_shape, visible_holds


class Holds(ApiView):
    """``GET``/``POST holds``"""

    @says(answer="HoldPage", is_list=True, query={"in_force": FLAG})
    def get(self, request: Request) -> Response:
        """Holds that the caller may know of, newest first; ``in_force=true`` leaves out those that ended."""
        require_person(self.principal)
        rows = visible_holds(self.principal)
        if Query(request).flag("in_force"):
            rows = rows.filter(pk__in=Hold.objects.in_force().values("pk").order_by())
        return Response(page(request, rows, lambda found: [hold_shape(row) for row in found]))

    @says(answer="Hold", status=201, body="HoldBody")
    def post(self, request: Request) -> Response:
        """Stop claims and pull requests of all that it covers, until it ends or is lifted."""
        require_person(self.principal)
        fields = Fields(json_object(request))
        scope = fields.choice("scope", SET_BY_PEOPLE)
        value = fields.text("value", limit=MAX_VALUE)
        reason = fields.text("reason", required=True)
        cancel_running = fields.flag("cancel_running")
        fields.done()
        expires_at = _time(fields, "expires_at")
        require_hold(self.principal, scope, value)
        hold = service.hold_set(
            scope=scope,
            value=value,
            reason=reason,
            by=self.principal.name,
            by_id=self.principal.id,
            expires_at=expires_at,
            cancel_running=cancel_running,
        )
        return Response(_shown(hold.id), status=201)


class OneHold(ApiView):
    """``DELETE holds/{id}``"""

    @says(answer="Hold")
    def delete(self, request: Request, hold_id: str) -> Response:
        """Lift a hold; what it covered is claimed again. Lifting it twice changes nothing."""
        require_person(self.principal)
        found = visible_holds(self.principal).filter(pk=hold_id).first()
        if found is None:
            raise NotFound
        require_hold_over(self.principal, found.repository_id or "")
        service.hold_lift(hold_id=hold_id, by=self.principal.name)
        return Response(_shown(hold_id))


def _time(fields: Fields, name: str) -> datetime | None:
    text = moment_stamp(fields.data.get(name), name)
    return moment(text) if text else None


def _shown(hold_id: str) -> dict[str, object]:
    return hold_shape(Hold.objects.select_related("repository", "campaign").get(pk=hold_id))
