"""Reads of approval requests: the queue, the badge, lists and the shape of the API.

Each says how many queries it takes, whatever the number of requests.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.db.models import Q, QuerySet

from approvals.models import ApprovalRequest
from approvals.people import RELATED, Surroundings, surroundings, viewer_of
from approvals.policy import Rights, missing_votes, rights
from runs.auth import Principal, visible_repositories
from runs.domain.display import Around, display_state, standing_of_run
from runs.domain.facts import Json, stamp
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import ACTIVE, ApprovalStatus, Gate, RunStatus
from runs.models.holds import covered_of
from runs.selectors import Surroundings as RunSurroundings
from runs.selectors import effective_policies, read_surroundings

#: Open requests that the queue looks at, oldest first: more than anybody can decide in a day.
QUEUE_LIMIT: Final = 500
#: Requests sent back that the queue shows, newest first.
RETURNED_LIMIT: Final = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """One request and what this caller may do with it."""

    request: ApprovalRequest
    rights: Rights
    display: Json  #: {state, title, icon, tone}
    missing: int  #: persons who must still approve
    closed: str = ""  #: why nothing can be decided any more
    stuck: bool = False  #: nobody is left who may decide


@dataclass(frozen=True, slots=True)
class Queue:
    """Three buckets; ``yours`` and ``others`` oldest first, snoozed ones last. ``more``: beyond the limit."""

    yours: list[Entry] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)
    agent: list[Entry] = field(default_factory=list)
    more: bool = False


def visible_requests(principal: Principal) -> QuerySet[ApprovalRequest]:
    """Every request that this caller may know of, newest first, with its run, task and repository."""
    found = ApprovalRequest.objects.select_related(*RELATED).order_by("-requested_at", "-pk")
    if principal.is_machine:
        return found.none()
    repositories = visible_repositories(principal)
    return found if repositories is None else found.filter(repository_id__in=repositories)


def filtered_requests(
    principal: Principal, *, status: str = "", gate: str = "", repository: str = "", mine: bool = False
) -> QuerySet[ApprovalRequest]:
    """The list of the API. ``repository`` is an id or a name; ``mine``: open and theirs to decide.

    ``mine`` costs eight queries, else none until it is read.
    """
    found = visible_requests(principal)
    if status:
        found = found.filter(status=status)
    if gate:
        found = found.filter(gate=gate)
    if repository:
        found = found.filter(Q(repository_id=repository) | Q(repository__name=repository))
    if mine:
        found = found.filter(pk__in=ids_in_turn(principal))
    return found


def stuck_runs(repository_ids: Collection[str]) -> frozenset[str]:
    """Runs of these repositories whose open request nobody is left to decide. Six queries at most."""
    rows = ApprovalRequest.objects.filter(status=ApprovalStatus.OPEN, repository_id__in=repository_ids)
    requests = list(rows.exclude(gate=Gate.QUESTION).select_related(*RELATED))
    if not requests:
        return frozenset()
    around = surroundings(requests)
    policies = effective_policies(repository_ids={request.repository_id for request in requests})
    overrides = {pk: bool(policy.values["override"]) for pk, policy in policies.items()}
    return frozenset(
        request.run_id
        for request in requests
        if around.is_stuck(request, override=overrides[request.repository_id])
    )


def reviews_waiting(principal: Principal) -> int:
    """How many requests wait for this caller: the badge. Seven queries at most."""
    return len(ids_in_turn(principal))


def read_queue(principal: Principal) -> Queue:
    """The queue of this caller. Nineteen queries at most."""
    entries = _open_entries(principal)
    current = [entry for entry in entries if not entry.closed]
    return Queue(
        yours=_snoozed_last([entry for entry in current if _is_turn(entry)]),
        others=[entry for entry in current if not _is_turn(entry)],
        agent=_returned(principal),
        more=len(entries) == QUEUE_LIMIT,
    )


def ids_in_turn(principal: Principal) -> list[str]:
    """Ids of the requests that wait for this caller, in the queue's order. Seven queries at most."""
    turn = [entry for entry in _open_entries(principal) if _is_turn(entry)]
    return [entry.request.pk for entry in _snoozed_last(turn)]


def read_entries(
    requests: Collection[ApprovalRequest], principal: Principal, around: Surroundings | None = None
) -> list[Entry]:
    """Those requests as this caller sees them. Six queries; one where ``around`` is read already."""
    around = around or surroundings(requests)
    policies = effective_policies(repository_ids={request.repository_id for request in requests})
    return [
        _entry(request, principal, around, override=bool(policies[request.repository_id].values["override"]))
        for request in requests
    ]


def shapes(requests: Collection[ApprovalRequest], principal: Principal) -> list[Json]:
    """The API's ``approval``, for each request. Six queries."""
    around = surroundings(requests)
    return [_shape(entry, around) for entry in read_entries(requests, principal, around)]


# --- helpers --------------------------------------------------------------------------------------


def _open_entries(principal: Principal) -> list[Entry]:
    found = visible_requests(principal).filter(status=ApprovalStatus.OPEN).order_by("requested_at", "pk")
    requests = list(found[:QUEUE_LIMIT])
    return read_entries(requests, principal) if requests else []


def _is_turn(entry: Entry) -> bool:
    return entry.rights.may_decide and not entry.closed


def _snoozed_last(entries: list[Entry]) -> list[Entry]:
    def until(entry: Entry) -> str:
        return stamp(entry.request.snoozed_until) if entry.request.snoozed_until else ""

    return sorted(entries, key=until)


def _entry(request: ApprovalRequest, principal: Principal, around: Surroundings, *, override: bool) -> Entry:
    standing = around.standing(request, override=override)
    stuck = around.is_stuck(request, override=override)
    run_around = Around(stamp(around.now), undecidable=stuck)
    return Entry(
        request,
        rights(viewer_of(principal, request.repository_id), standing),
        _display(request, run_around),
        missing_votes(standing),
        closed=standing.closed,
        stuck=stuck,
    )


def _display(request: ApprovalRequest, around: Around) -> Json:
    state, task = RunState.from_json(request.run.state), TaskState.from_json(request.task.state)
    found = display_state(standing_of_run(state, task, around))
    return {"state": found.value, "title": found.label, "icon": found.icon, "tone": found.tone}


def _returned(principal: Principal) -> list[Entry]:
    """Requests that were sent back and whose run works on what was asked for."""
    working = [status for status in ACTIVE if status is not RunStatus.WAITING_FOR_APPROVAL]
    sent_back = visible_requests(principal).filter(
        status=ApprovalStatus.CHANGES_REQUESTED, run__status__in=working
    )
    newest: dict[str, ApprovalRequest] = {}
    for request in sent_back.order_by("-closed_at", "-pk")[:RETURNED_LIMIT]:
        newest.setdefault(request.run_id, request)
    if not newest:
        return []
    requests = list(newest.values())
    runs = read_surroundings(repository_ids={request.repository_id for request in requests})
    return [_working_now(entry, runs) for entry in read_entries(requests, principal)]


def _working_now(entry: Entry, runs: RunSurroundings) -> Entry:
    around = runs.around(RunState.from_json(entry.request.run.state), covered_of(entry.request.task))
    return replace(entry, display=_display(entry.request, around))


def _shape(entry: Entry, around: Surroundings) -> Json:
    request = entry.request
    return {
        "id": request.pk,
        "run_id": request.run_id,
        "task_id": request.task_id,
        "title": request.task.title,
        "repository": request.repository.name,
        "gate": request.gate,
        "status": request.status,
        "version": request.version,
        "subject_sha256": request.subject_sha256,
        "subject": request.subject,
        "guards": request.guards,
        "effective_risk": request.effective_risk,
        "needed": request.needed,
        "missing": entry.missing,
        "decisions": [_said(decision) for decision in around.decisions.get(request.pk, ())],
        "assigned": request.assigned.get_username() if request.assigned else None,
        "snoozed_until": request.snoozed_until,
        "requested_at": request.requested_at,
        "due_at": request.due_at,
        "closed_at": request.closed_at,
        "closed_by": request.closed_by or None,
        "close_reason": request.close_reason or None,
        "may_decide": entry.rights.may_decide,
        "may_not_because": entry.rights.because or None,
    }


def _said(decision: Any) -> Json:
    return {
        "by": decision.by.get_username(),
        "decision": decision.decision,
        "version": decision.version,
        "comment": decision.comment,
        "override": decision.override,
        "at": decision.at,
    }
