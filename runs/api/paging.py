"""Pages by cursor: keyset over (time, id), stable while rows are added."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from rest_framework.request import Request

from runs.api.requests import Query
from runs.domain.errors import Malformed
from runs.domain.facts import Json, moment, stamp

M = TypeVar("M", bound=Model)
_ID: Final = re.compile(r"[A-Za-z0-9_]{1,60}")
_FOREIGN: Final = "This cursor was not made here; start at the list's first page."
NEXT, PREVIOUS = "n", "p"


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list: the row it stands at, and the direction to read on in."""

    direction: str
    at: datetime
    id: str

    def __str__(self) -> str:
        text = json.dumps([self.direction, stamp(self.at), self.id], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(text: str) -> Cursor | None:
    """The cursor of a page's address; None on the first page. Raises ``Malformed``."""
    if not text:
        return None
    try:
        direction, at, row_id = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        cursor = Cursor(direction, moment(at), row_id)
        is_ours = direction in (NEXT, PREVIOUS) and _ID.fullmatch(row_id)
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise Malformed(_FOREIGN, parameter="cursor") from error
    if not is_ours:
        raise Malformed(_FOREIGN, parameter="cursor")
    return cursor


def page(
    request: Request,
    rows: QuerySet[M],
    serialise: Callable[[Sequence[M]], list[Json]],
    *,
    field: str = "created_at",
    newest_first: bool = True,
) -> Json:
    """``{results, next, previous}`` of a list in the order of ``field``. One query and whatever
    ``serialise`` needs for all rows together."""
    query = Query(request)
    cursor, limit = read_cursor(query.text("cursor")), query.limit
    backwards = cursor is not None and cursor.direction == PREVIOUS
    found = list(_from(rows, cursor, field, descending=newest_first is not backwards)[: limit + 1])
    more, found = len(found) > limit, found[:limit]
    if backwards:
        found.reverse()
    has_next = bool(found) and (more or backwards)
    has_previous = bool(found) and cursor is not None and (more or not backwards)
    return {
        "results": serialise(found),
        "next": _address(request, NEXT, found[-1], field) if has_next else None,
        "previous": _address(request, PREVIOUS, found[0], field) if has_previous else None,
    }


def _from(rows: QuerySet[M], cursor: Cursor | None, field: str, *, descending: bool) -> QuerySet[M]:
    sign, side = ("-", "lt") if descending else ("", "gt")
    ordered = rows.order_by(f"{sign}{field}", f"{sign}pk")
    if cursor is None:
        return ordered
    edge = Q(**{f"{field}__{side}": cursor.at}) | Q(**{field: cursor.at, f"pk__{side}": _key(rows, cursor)})
    # The first condition alone is what an index can start from.
    return ordered.filter(Q(**{f"{field}__{side}e": cursor.at}) & edge)


def _key(rows: QuerySet[M], cursor: Cursor) -> Any:
    try:
        return rows.model._meta.pk.to_python(cursor.id)  # noqa: SLF001  Django's documented way to fields
    except ValidationError as error:
        raise Malformed(_FOREIGN, parameter="cursor") from error


def _address(request: Request, direction: str, row: Any, field: str) -> str:
    query = request.query_params.copy()
    query["cursor"] = str(Cursor(direction, getattr(row, field), str(row.pk)))
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
