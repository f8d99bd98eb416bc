"""Keyset pages over (created_at, id), newest first; the place stands in the address."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import urlencode

from django.db.models import Model, Q, QuerySet

from runs.domain.facts import Json, moment, stamp

M = TypeVar("M", bound=Model)
PAGE: Final = 50
OLDER, NEWER = "older", "newer"


def keyset_page(rows: QuerySet[M], params: Mapping[str, str]) -> tuple[list[M], Json]:
    """The page that the address asks for, and its pager {previous, next}. One query.

    ``params`` may hold ``older`` or ``newer``: "stamp id" of the row at the edge. Nonsense is the first page.
    """
    direction = NEWER if params.get(NEWER) else OLDER
    edge = _edge(params.get(direction, ""))
    newer = direction == NEWER and edge is not None
    if edge:
        at, pk = edge
        beyond = (
            Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)
            if newer
            else Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk)
        )
        rows = rows.filter(beyond)
    order = ("created_at", "pk") if newer else ("-created_at", "-pk")
    found = list(rows.order_by(*order)[: PAGE + 1])
    more, found = len(found) > PAGE, found[:PAGE]
    if newer:
        found.reverse()
    return found, _pager(found, params, older=more or newer, newer=bool(edge) and (more or not newer))


def _pager(found: list[M], params: Mapping[str, str], *, older: bool, newer: bool) -> Json:
    if not found:
        return {}
    kept = {name: value for name, value in params.items() if value and name not in (OLDER, NEWER)}

    def address(direction: str, row: M) -> str:
        edge = f"{stamp(row.created_at)} {row.pk}"  # type: ignore[attr-defined]
        return "?" + urlencode({**kept, direction: edge})

    return {
        "previous": address(NEWER, found[0]) if newer else "",
        "next": address(OLDER, found[-1]) if older else "",
    }


def _edge(text: str) -> tuple[datetime, str] | None:
    at, _, pk = text.partition(" ")
    try:
        return (moment(at), pk) if pk else None
    except ValueError:
        return None
