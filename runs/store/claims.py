"""What may be claimed, in which order, and the locks under which it is taken
(lifecycle contract, section 11).

Nothing here grows with the queue: repositories are found by hopping through an index from one to the next,
and of each only its foremost run is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q

from agentplatform.rows import ask
from runs.domain.vocabulary import Role
from runs.models import Run

SECONDS_PER_PRIORITY: Final = 600  #: one level of priority is worth ten minutes in line: nothing starves


class Line(NamedTuple):
    """Runs that wait for one role in one repository, begun or not; only its foremost is offered."""

    role: str
    begun: bool
    repository_id: str


# The predicate on claim_role is spelled out, or the partial index would not be used.
# The age of a line counts from its repository's last turn: a long backlog is no reason to be first again.
_LINES: Final = """
WITH RECURSIVE lines AS (
    SELECT head.* FROM unnest(%(roles)s::text[]) AS wanted (role), LATERAL (
        SELECT r.claim_role, r.begun, r.repository_id FROM runs r
        WHERE r.claim_role <> '' AND r.claim_role = wanted.role
        ORDER BY r.begun, r.repository_id LIMIT 1
    ) head
    UNION ALL
    SELECT head.* FROM lines l, LATERAL (
        SELECT r.claim_role, r.begun, r.repository_id FROM runs r
        WHERE r.claim_role <> '' AND r.claim_role = l.claim_role
        AND (r.begun, r.repository_id) > (l.begun, l.repository_id)
        ORDER BY r.begun, r.repository_id LIMIT 1
    ) head
)
SELECT l.claim_role, l.begun, l.repository_id
FROM lines l
JOIN LATERAL (
    SELECT r.id, r.queue_key, (r.state->>'priority')::int AS priority FROM runs r
    WHERE r.claim_role <> '' AND r.claim_role = l.claim_role
    AND r.begun = l.begun AND r.repository_id = l.repository_id
    AND (r.needs <@ %(labels)s::varchar[] OR r.claim_role = %(unlabelled)s)
    AND (r.not_before IS NULL OR r.not_before <= clock_timestamp())
    ORDER BY r.queue_key, r.id LIMIT 1
) foremost ON true
LEFT JOIN LATERAL (
    SELECT extract(epoch FROM acquired_at) AS at FROM run_leases
    WHERE repository_id = l.repository_id AND fence = 1 ORDER BY acquired_at DESC LIMIT 1
) turn ON NOT l.begun
WHERE %(repositories)s::text[] IS NULL OR l.repository_id = ANY (%(repositories)s::text[])
ORDER BY l.begun DESC,
    CASE WHEN NOT l.begun THEN floor(foremost.priority + (
        extract(epoch FROM clock_timestamp())
        - greatest(foremost.queue_key + foremost.priority * %(level)s::int, turn.at)
    ) / %(level)s::int) END DESC,
    turn.at NULLS FIRST, foremost.queue_key, foremost.id
"""

#: Labels say what a sandbox offers; the git integration has none, and runs nothing.
_UNLABELLED: Final = Role.GIT_INTEGRATION.value


_ASKED: Final = """
UPDATE worker_accounts
SET last_asked_at = clock_timestamp(),
    offers = %(offers)s::varchar[], isolation = %(isolation)s, version = %(version)s
WHERE id = %(worker)s AND (
    last_asked_at IS NULL OR last_asked_at < clock_timestamp() - interval '5 seconds'
    OR (offers, isolation, version) IS DISTINCT FROM
        (%(offers)s::varchar[], %(isolation)s::varchar, %(version)s::varchar)
)
RETURNING id
"""


def note_asking(worker_id: str, *, offers: Sequence[str], isolation: str, version: str) -> None:
    """Who asked for work, when, and what it said of itself: when that changed, or once in 5 seconds."""
    words = {"worker": worker_id, "offers": list(offers), "isolation": isolation, "version": version}
    ask(_ASKED, words)


def claimable_lines(
    *, roles: Sequence[str], labels: Sequence[str], repositories: Sequence[str] | None
) -> list[Line]:
    """Where something may be claimed, in order: begun work first, then by turn.

    Between repositories the higher priority goes first, and ten minutes without a turn are worth a level;
    of equals the one whose last turn lies furthest back. One query.
    """
    words: dict[str, Any] = {
        "roles": list(roles),
        "labels": list(labels),
        "repositories": None if repositories is None else list(repositories),
        "unlabelled": _UNLABELLED,
        "level": SECONDS_PER_PRIORITY,
    }
    return [Line(*row) for row in ask(_LINES, words)]


def seconds_to_next(*, roles: Sequence[str]) -> float | None:
    """Until the next backoff of a run for these roles is over; None where there is none. One query."""
    statement = """
        SELECT extract(epoch FROM not_before - clock_timestamp())::float FROM runs
        WHERE claim_role <> '' AND claim_role = ANY (%s::text[]) AND not_before > clock_timestamp()
        ORDER BY not_before LIMIT 1
    """
    rows = ask(statement, [list(roles)])
    return max(rows[0][0], 0.0) if rows else None


_IN_LINE: Final = """
    r.claim_role <> '' AND r.claim_role = %s AND r.begun = %s AND r.repository_id = %s
    AND (r.needs <@ %s::varchar[] OR r.claim_role = %s)
    AND (r.not_before IS NULL OR r.not_before <= clock_timestamp())
    AND (NOT %s OR (r.state->>'pr_begun')::boolean)
"""


def lock_foremost(
    line: Line, *, labels: Sequence[str], stopped: Q | None = None, pr_begun: bool = False
) -> tuple[str, str] | None:
    """The foremost run of a line that is not ``stopped`` and that nobody else has in hand, locked: its id and
    status.

    Whether it may be claimed is looked at again under the lock. With ``pr_begun`` only those count whose
    pull request was begun: a limit that is reached keeps all others in.
    """
    able = [line.role, line.begun, line.repository_id, list(labels), _UNLABELLED, pr_begun]
    free, words = _not_stopped(stopped)
    passed_over: list[str] = []
    while reserved := ask(_reserving(free), [*able, *words, passed_over]):
        ((run_id,),) = reserved
        if locked := ask(_locking(free), [*able, *words, run_id]):
            ((status,),) = locked
            return run_id, status
        passed_over.append(run_id)
    return None


def _reserving(free: str) -> str:
    """The first run in line that no other claim has in hand; to the end of the transaction it is ours.

    By an advisory lock and not by the row's own: SKIP LOCKED does wait, for a row that changed since the
    statement began, and leaves a lock on each that it looked at; claimers of one line would meet there.
    The inner query yields rows one by one as they stand in line, the outer takes the first that is free.
    """
    return f"""
        SELECT id FROM (
            SELECT r.id FROM runs r WHERE {_IN_LINE} {free} AND r.id <> ALL (%s::varchar[])
            ORDER BY r.queue_key, r.id OFFSET 0
        ) in_line WHERE pg_try_advisory_xact_lock(hashtextextended(id, 0)) LIMIT 1
    """  # noqa: S608  our own words


def _locking(free: str) -> str:
    return f"""
        SELECT r.status FROM runs r WHERE {_IN_LINE} {free} AND r.id = %s
        FOR NO KEY UPDATE OF r SKIP LOCKED
    """  # noqa: S608


def _not_stopped(stopped: Q | None) -> tuple[str, list[Any]]:
    """The condition as text and its words; Django need say it only where something is stopped at all."""
    if stopped is None:
        return "", []
    try:
        text, words = Run.objects.filter(stopped).order_by().values("id").query.sql_with_params()
    except EmptyResultSet:  # Django sees that it can be no run
        return "", []
    return f"AND NOT EXISTS (SELECT FROM ({text}) stopped WHERE stopped.id = r.id)", list(words)


def lock_claim_key(worker_id: str, key: str) -> None:
    """Wait until no other claim of this key is under way; held to the end of the transaction.

    Before everything else in the order: a claim takes no second one.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{worker_id}:{key}"])
