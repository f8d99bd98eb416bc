"""What may be claimed, in which order, and the locks under which it is taken
(lifecycle contract, section 11).

Nothing here grows with the queue: repositories are found by hopping through an index from one to the next,
and of each only its foremost run is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

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
        - greatest(foremost.queue_key + foremost.priority * %(level)s, turn.at)
    ) / %(level)s) END DESC,
    turn.at NULLS FIRST, foremost.queue_key, foremost.id
"""

#: Labels say what a sandbox offers; the git integration has none, and runs nothing.
_UNLABELLED: Final = Role.GIT_INTEGRATION.value


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
    with connection.cursor() as cursor:
        cursor.execute(_LINES, words)
        return [Line(*row) for row in cursor.fetchall()]


def seconds_to_next(*, roles: Sequence[str]) -> float | None:
    """Until the next backoff of a run for these roles is over; None where there is none. One query."""
    statement = """
        SELECT extract(epoch FROM not_before - clock_timestamp())::float FROM runs
        WHERE claim_role <> '' AND claim_role = ANY (%s) AND not_before > clock_timestamp()
        ORDER BY not_before LIMIT 1
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, [list(roles)])
        row = cursor.fetchone()
    return None if row is None else max(row[0], 0.0)


def lock_foremost(line: Line, *, labels: Sequence[str], stopped: Q, pr_begun: bool = False) -> Run | None:
    """The foremost run of a line that is not ``stopped`` and that nobody else has in hand, locked; its task
    comes along unlocked.

    Whether it may be claimed is looked at again under the lock. With ``pr_begun`` only those count whose
    pull request was begun: a limit that is reached keeps all others in.
    """
    able = Q(needs__contained_by=list(labels)) | Q(claim_role=_UNLABELLED)
    due = Q(not_before__isnull=True) | Q(not_before__lte=Now())
    begun_alone = Q(state__pr_begun=True) if pr_begun else Q()
    in_line = Run.objects.exclude(claim_role="").filter(
        able,
        due,
        begun_alone,
        ~stopped,
        claim_role=line.role,
        begun=line.begun,
        repository_id=line.repository_id,
    )
    passed_over: list[str] = []
    while run_id := _reserve(in_line.exclude(pk__in=passed_over)):
        mine = in_line.filter(pk=run_id).select_related("task")
        if run := mine.select_for_update(of=("self",), skip_locked=True, no_key=True).first():
            return run
        passed_over.append(run_id)
    return None


def _reserve(in_line: QuerySet[Run]) -> str | None:
    """The first of these runs that no other claim has in hand; to the end of the transaction it is ours.

    By an advisory lock and not by the row's own: SKIP LOCKED does wait, for a row that changed since the
    statement began, and leaves a lock on each that it looked at; claimers of one line would meet there.
    The inner query yields rows one by one as they stand in line, the outer takes the first that is free.
    """
    inner, words = in_line.order_by("queue_key", "id").values("id").query.sql_with_params()
    lock = "pg_try_advisory_xact_lock(hashtextextended(in_line.id, 0))"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM ({inner} OFFSET 0) in_line WHERE {lock} LIMIT 1", words)  # noqa: S608
        row = cursor.fetchone()
    return row[0] if row else None


def lock_claim_key(worker_id: str, key: str) -> None:
    """Wait until no other claim of this key is under way; held to the end of the transaction.

    Before everything else in the order: a claim takes no second one.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{worker_id}:{key}"])
