"""Persons around requests, loaded for many requests at once: authors, votes, those who may decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from django.db.models import Q

from agentplatform.clock import database_now
from agentplatform.rows import ask
from approvals.asking.turns import turns_of
from approvals.models import ApprovalRequest, Decision
from approvals.policy import APPROVING, Standing, Viewer, enough_people, missing_votes
from runs.auth import Action, Principal, may
from runs.domain.guards import LABELS, blocking
from runs.domain.vocabulary import ApprovalStatus, Gate, PersonRole
from runs.models import Instruction, Lease, Person, RoleGrant

_DECIDING: Final = (PersonRole.REVIEWER.value, PersonRole.ADMIN.value)
#: What the rules read beside a request's own row.
RELATED = ("run", "task__created_by", "repository", "assigned")
#: The columns that they read of many rows that are only looked at for whose turn they are.
BRIEFLY = ("task__created_by",)
COLUMNS = (
    "run_id", "repository_id", "gate", "status", "version", "subject_sha256", "guards", "needed",
    "requested_at", "due_at", "on_timeout", "snoozed_until", "escalated_at", "closed_at", "closed_by",
    "task__created_by__username", "task__created_by__same_person_as",
)  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """What the rules need to know about a set of requests; five queries, however many there are, and two more
    where ``deciders`` are looked at.

    All go by request id. ``turns`` holds persons' keys and names, where it is somebody's in particular.
    """

    now: datetime
    repositories: frozenset[str]
    authors: Mapping[str, Mapping[str, list[str]]]
    decisions: Mapping[str, list[Decision]]
    turns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def deciders(self) -> Mapping[str, frozenset[str]]:
        """Keys of the persons who have a deciding role, by repository."""
        return _deciders(self.repositories)

    def standing(self, request: ApprovalRequest, *, override: bool = False) -> Standing:
        """The request as the rules see it now."""
        return Standing(
            gate=Gate(request.gate),
            needed=request.needed,
            authors=self.authors.get(request.pk, {}),
            voted=frozenset(vote.by.person_key for vote in self.votes(request)),
            closed=closed_sentence(request, self.now),
            blocking=[LABELS[guard["name"]] for guard in blocking(request.guards)],
            override=override,
        )

    def votes(self, request: ApprovalRequest) -> list[Decision]:
        """Approvals of what the request shows now."""
        return [
            decision
            for decision in self.decisions.get(request.pk, ())
            if decision.decision in APPROVING
            and (decision.version, decision.subject_sha256) == (request.version, request.subject_sha256)
        ]

    def asked_of(self, request: ApprovalRequest) -> Mapping[str, str]:
        """Whose turn it is, by key with their names; nobody: everybody's who may decide it, as when those who
        were asked are too few for the quorum."""
        standing = self.standing(request)
        left = {
            key: name for key, name in self.turns.get(request.pk, {}).items() if key not in standing.voted
        }
        return left if len(left) >= missing_votes(standing) else {}

    def is_stuck(self, request: ApprovalRequest, *, override: bool = False) -> bool:
        """Whether nobody is left who may decide, or too few for the quorum."""
        if request.status != ApprovalStatus.OPEN or request.gate == Gate.QUESTION:
            return False
        deciders = self.deciders.get(request.repository_id, frozenset())
        return not enough_people(self.standing(request, override=override), deciders)


def surroundings(requests: Collection[ApprovalRequest]) -> Surroundings:
    """Load what the rules need; the requests come with ``RELATED``."""
    decisions: dict[str, list[Decision]] = defaultdict(list)
    ids = [request.pk for request in requests]
    for row in Decision.objects.filter(request_id__in=ids).select_related("by").order_by("at", "id"):
        decisions[row.request_id].append(row)
    now, repositories = database_now(), frozenset(request.repository_id for request in requests)
    return Surroundings(now, repositories, _authors(requests), decisions, turns_of(requests, now))


def viewer_of(principal: Principal, repository_id: str) -> Viewer:
    """How the rules see this caller in that repository."""
    return Viewer(
        person=principal.person.person_key if principal.person else "",
        may_review=may(principal, Action.APPROVE, repository_id),
        may_answer=may(principal, Action.ANSWER, repository_id),
        may_waive=may(principal, Action.WAIVE, repository_id),
    )


def is_overdue(request: ApprovalRequest, now: datetime) -> bool:
    """Past its due time, unless the policy lets it escalate instead of ending."""
    return request.due_at is not None and request.due_at <= now and request.on_timeout != "escalate"


def closed_sentence(request: ApprovalRequest, now: datetime) -> str:
    """Why nothing can be decided any more, or "" while it can."""
    if request.status == ApprovalStatus.OPEN:
        if is_overdue(request, now):
            return f"This was due at {request.due_at:%Y-%m-%d %H:%M} UTC; nothing can be decided any more."
        return ""
    at = f"{request.closed_at:%Y-%m-%d %H:%M} UTC" if request.closed_at else "an unknown time"
    words = {
        ApprovalStatus.APPROVED: f"{request.closed_by} approved this at {at}.",
        ApprovalStatus.CHANGES_REQUESTED: f"{request.closed_by} requested changes at {at}.",
        ApprovalStatus.REJECTED: f"{request.closed_by} rejected this at {at}.",
        ApprovalStatus.CANCELLED: f"Withdrawn at {at}: the run was ended by {request.closed_by}.",
        ApprovalStatus.EXPIRED: f"Expired at {at}: nobody had decided in time.",
    }
    return words.get(ApprovalStatus(request.status), f"Replaced at {at} by a newer request.")


#: As one statement: a page asks it, and through the ORM it takes four and ten times as long.
_MAY_LACK_PEOPLE: Final = """
    WITH open AS (
        SELECT id, task_id, repository_id, needed FROM approval_requests
        WHERE status = 'open' AND gate <> 'question' AND repository_id = ANY(%(repositories)s)
            AND (%(runs)s::text[] IS NULL OR run_id = ANY(%(runs)s))
    ), persons AS (
        SELECT id AS account, coalesce(same_person_as_id, id) AS person, is_superuser, is_active FROM people
    ), deciders AS (
        SELECT granted.repository_id, person FROM role_grants granted JOIN persons ON account = person_id
        WHERE role = ANY(%(roles)s) AND is_active
        UNION SELECT NULL, person FROM persons WHERE is_superuser AND is_active
    ), owners AS (
        SELECT person FROM worker_accounts JOIN persons ON account = owner_id
    ), here AS (
        SELECT place.repository_id, array_agg(DISTINCT person) AS people,
            count(DISTINCT person) FILTER (WHERE person NOT IN (SELECT person FROM owners)) AS others
        FROM (SELECT DISTINCT repository_id FROM open) place
        JOIN deciders ON deciders.repository_id IS NULL OR deciders.repository_id = place.repository_id
        GROUP BY place.repository_id
    )
    SELECT open.id FROM open JOIN tasks ON tasks.id = open.task_id JOIN persons ON account = created_by_id
    LEFT JOIN here ON here.repository_id = open.repository_id
    WHERE here.others IS NULL OR needed > here.others - (person = ANY(here.people))::int - (
        SELECT count(DISTINCT author_id) FROM instructions
        WHERE instructions.task_id = open.task_id AND author_id <> created_by_id
    )
"""


def may_lack_people(repository_ids: Collection[str], run_ids: Collection[str] | None = None) -> list[str]:
    """Ids of requests whose authors may be so many of those who decide there that too few are left for the
    quorum: all that ``Surroundings.is_stuck`` would find, and few others of thousands. One query.

    Votes matter to neither side: whoever voted is missed among those left, and misses one vote less.
    """
    runs = None if run_ids is None else list(run_ids)
    asked = {"repositories": list(repository_ids), "runs": runs, "roles": [*_DECIDING]}
    return [found for (found,) in ask(_MAY_LACK_PEOPLE, asked)]


# --- authors: who asked, who wrote what was worked from, who owns the agent ------------------------


def _authors(requests: Iterable[ApprovalRequest]) -> dict[str, dict[str, list[str]]]:
    requests = list(requests)
    written = _instructions({request.task_id for request in requests})
    owners = _owners({request.run_id for request in requests})
    found: dict[str, dict[str, list[str]]] = {}
    for request in requests:
        creator = request.task.created_by.person_key
        mine: dict[str, list[str]] = defaultdict(list)
        mine[creator].append("asked for this task")
        for number, writer in _in_force(request, written.get(request.task_id, ())):
            if number > 1 or writer != creator:
                mine[writer].append(f"wrote the instruction in force (number {number})")
        for owner, names in owners.get(request.run_id, {}).items():
            mine[owner].append(f"own the agent's account {', '.join(sorted(names))}")
        found[request.pk] = dict(mine)
    return found


def _in_force(
    request: ApprovalRequest, written: Sequence[tuple[int, datetime, str]]
) -> Iterable[tuple[int, str]]:
    """Number and writer of the instruction that what is shown was made from, and of those that came since: a
    later one frees nobody."""
    known = [number for number, at, _ in written if at <= request.requested_at]
    first = max(known, default=1)
    return [(number, writer) for number, _, writer in written if number >= first and writer]


def _instructions(task_ids: set[str]) -> dict[str, list[tuple[int, datetime, str]]]:
    """Task id → number, moment and writer of each instruction, "" where it was nobody's; in their order."""
    rows = Instruction.objects.filter(task_id__in=task_ids).select_related("author").order_by("number")
    found: dict[str, list[tuple[int, datetime, str]]] = defaultdict(list)
    for row in rows.only("task_id", "number", "created_at", "author__same_person_as"):
        writer = row.author.person_key if row.author else ""
        found[row.task_id].append((row.number, row.created_at, writer))
    return found


def _owners(run_ids: set[str]) -> dict[str, dict[str, set[str]]]:
    leases = Lease.objects.filter(run_id__in=run_ids, worker__owner__isnull=False)
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for lease in leases.select_related("worker__owner"):
        if lease.worker.owner:
            found[lease.run_id][lease.worker.owner.person_key].add(lease.worker.name)
    return found


def _deciders(repository_ids: Collection[str]) -> dict[str, frozenset[str]]:
    """Persons who have a deciding role, by repository."""
    everywhere = {p.person_key for p in Person.objects.filter(is_superuser=True, is_active=True)}
    by_repository: dict[str, set[str]] = defaultdict(set)
    grants = RoleGrant.objects.filter(
        Q(repository__isnull=True) | Q(repository_id__in=repository_ids),
        role__in=_DECIDING,
        person__is_active=True,
    )
    for grant in grants.select_related("person"):
        place = everywhere if grant.repository_id is None else by_repository[grant.repository_id]
        place.add(grant.person.person_key)
    return {key: frozenset(everywhere | by_repository[key]) for key in repository_ids}
