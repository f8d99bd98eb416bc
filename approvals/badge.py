"""The number beside "Approvals" at the top of every page: how many requests wait for its reader."""

from __future__ import annotations

from typing import Final

from django.core.cache import cache
from django.db import connection

from approvals.selectors import decides_somewhere, ids_in_turn
from runs.auth import Principal

#: What the fingerprint does not see (a role, an absence, a due time that passes) shows this much later.
KEPT_SECONDS: Final = 15

# A changed row is a new version in a new place: to look at five thousand costs a tenth of judging a hundred.
_FINGERPRINT: Final = """
    SELECT count(*), sum(hashtextextended(concat_ws(':', id, xmin, ctid), 0)),
        (SELECT max(id) FROM approval_decisions), (SELECT max(id) FROM asked_people)
    FROM approval_requests WHERE status = 'open'
"""


def reviews_waiting(principal: Principal) -> int:
    """How many requests wait for this caller. One query while no request changed, else eight."""
    if not decides_somewhere(principal):
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_FINGERPRINT)
        seen = ":".join(str(value) for value in cursor.fetchone())
    grants = hash(principal.grants)  # a process's own, as its cache is
    key = f"reviews:{principal.id}:{grants}:{seen}"
    found: int | None = cache.get_or_set(key, lambda: len(ids_in_turn(principal)), KEPT_SECONDS)
    return found or 0
