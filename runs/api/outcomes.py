"""What became of the work, as data."""

from __future__ import annotations

from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from runs.api.base import ApiView
from runs.api.requests import Query
from runs.api.schema import says
from runs.api.words import FLAG, TEXT, one_of
from runs.auth import require_person
from runs.domain.errors import Malformed
from runs.domain.facts import Json
from runs.selectors.outcome_page import outcome_answer
from runs.selectors.outcomes import DIMENSIONS, NARROWS, PERIODS

_FILTERS: Final[dict[str, Json]] = {
    "by": one_of(DIMENSIONS),
    "days": {"type": "integer", "enum": list(PERIODS)},
    "mine": FLAG,
    **dict.fromkeys(NARROWS, TEXT),
}


class Outcomes(ApiView):
    """``GET outcomes``"""

    @says(answer="Outcomes", query=_FILTERS)
    def get(self, request: Request) -> Response:
        """What became of the runs that ended in the last 7, 30 or 90 days, by what ``by`` says."""
        require_person(self.principal)
        return Response(outcome_answer(principal=self.principal, params=_params(Query(request))))


def _params(query: Query) -> dict[str, str]:
    days = query.integer("days", PERIODS[1], low=1)
    if days not in PERIODS:
        raise Malformed(f"The query's days must be one of {', '.join(map(str, PERIODS))}.", parameter="days")
    params = {name: query.text(name) for name in NARROWS}
    by = query.words("by", list(DIMENSIONS))
    return {**params, "days": str(days), "by": by[0] if by else "", "mine": "1" if query.flag("mine") else ""}
