"""Reads of approval requests: the queue, lists and the shape of the API.

Each says how many queries it takes, whatever the number of requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Q, QuerySet

from agentplatform.clock import database_now
from approvals.models import ApprovalRequest
from approvals.people import (
    BRIEFLY,
    COLUMNS,
    RELATED,
    Surroundings,
    may_lack_people,
    surroundings,
    viewer_of,
)
from approvals.policy import FOUR_EYES, Rights, missing_votes, rights
from runs.auth import Action, Principal, visible_repositories
from runs.domain.display import Around, display_state, standing_of_run
from runs.domain.facts import Json, stamp
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import ACTIVE, ApprovalStatus, RunStatus
from runs.models import Person
from runs.models.holds import covered_of
from runs.selectors import Surroundings as RunSurroundings
from runs.selectors import effective_policies, read_surroundings
from runs.selectors.tasks import may_somewhere

#: Open requests that are looked at for whose turn it is, oldest first: more than anybody decides in a day.
QUEUE_LIMIT: Final = 120
#: Where a page that has counted what waits for its reader keeps that for its badge.
COUNTED: Final = "_reviews_waiting"
#: Rows that a bucket of the queue shows; deciding them brings up the next.
BUCKET_ROWS: Final = 50
#: Requests sent back that the queue shows, newest first.
RETURNED_LIMIT: Final = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """One request and what this caller may do with it."""

    request: ApprovalRequest
    rights: Rights
    display: Json  #: {state, title, icon, tone}; {} in brief
    missing: int  #: persons who must still approve
    closed: str = ""  #: why nothing can be decided any more
    stuck: bool = False  #: nobody is left who may decide
    is_asked: bool = True  #: they were asked, or nobody in particular
    asked: tuple[str, ...] = ()  #: names of those whose turn it is in particular
    is_snoozed: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """Three buckets; ``yours`` and ``others`` oldest first, snoozed ones last.

    ``counts``: how many each holds of those that were looked at. ``more``: there are more to look at.
    """

    yours: list[Entry] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)
    agent: list[Entry] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)
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

    ``mine`` costs eleven queries, else none until it is read.
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


def stuck_runs(repository_ids: Collection[str], run_ids: Collection[str] | None = None) -> frozenset[str]:
    """Runs of these repositories, and of these runs where given, whose open request nobody is left to
    decide. Ten queries at most, and one where it can be none."""
    found = may_lack_people(repository_ids, run_ids)
    requests = list(_in_brief(ApprovalRequest.objects.filter(pk__in=found))) if found else []
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


def read_queue(principal: Principal) -> Queue:
    """The queue of this caller. Twenty-six queries at most."""
    entries = _open_entries(principal)
    current = [entry for entry in entries if not entry.closed]
    yours = _snoozed_last([entry for entry in current if _is_turn(entry)])
    others = [entry for entry in current if not _is_turn(entry)]
    shown = _whole(principal, [*yours[:BUCKET_ROWS], *others[:BUCKET_ROWS]])
    agent = _returned(principal)
    return Queue(
        yours=[shown[entry.request.pk] for entry in yours[:BUCKET_ROWS] if entry.request.pk in shown],
        others=[shown[entry.request.pk] for entry in others[:BUCKET_ROWS] if entry.request.pk in shown],
        agent=agent,
        counts={"yours": len(yours), "others": len(others), "agent": len(agent)},
        more=len(entries) >= QUEUE_LIMIT or max(len(yours), len(others)) > BUCKET_ROWS,
    )


def ids_in_turn(principal: Principal) -> list[str]:
    """Ids of the requests that wait for this caller, in the queue's order. Seven queries at most."""
    requests = _oldest(principal) if decides_somewhere(principal) else []
    around = surroundings(requests) if requests else None
    turn = [entry for request in requests if around and _is_turn(entry := _entry(request, principal, around))]
    return [entry.request.pk for entry in _snoozed_last(turn)]


def decides_somewhere(principal: Principal) -> bool:
    """Whether a request can be theirs at all. No query."""
    return may_somewhere(principal, Action.APPROVE) or may_somewhere(principal, Action.ANSWER)


def read_entries(
    requests: Collection[ApprovalRequest],
    principal: Principal,
    around: Surroundings | None = None,
    *,
    in_brief: bool = False,
) -> list[Entry]:
    """Those requests as this caller sees them. Eight queries; one where ``around`` is read already.

    ``in_brief``: without their display, which needs the whole state of their runs.
    """
    around = around or surroundings(requests)
    policies = effective_policies(repository_ids={request.repository_id for request in requests})
    override = {key: bool(policy.values["override"]) for key, policy in policies.items()}
    entries = [_entry(one, principal, around, override=override[one.repository_id]) for one in requests]
    return entries if in_brief else [_displayed(entry, entry.request, around.now) for entry in entries]


def shapes(requests: Collection[ApprovalRequest], principal: Principal) -> list[Json]:
    """The API's ``approval``, for each request. Eight queries."""
    around = surroundings(requests)
    return [_shape(entry, around) for entry in read_entries(requests, principal, around)]


# --- helpers --------------------------------------------------------------------------------------


def _open_entries(principal: Principal) -> list[Entry]:
    """What the queue chooses its rows from, in brief: rows without what only a page shows of them."""
    own = _in_brief(_open(principal)).filter(_own(principal))[:BUCKET_ROWS]
    requests = sorted([*_oldest(principal), *own], key=lambda request: (request.requested_at, request.pk))
    return read_entries(requests, principal, in_brief=True) if requests else []


def _oldest(principal: Principal) -> list[ApprovalRequest]:
    """The requests that are looked at for whose turn they are, in brief.

    What they asked for themselves is never their turn, and however much it is it hides no other's work.
    """
    return list(_in_brief(_open(principal)).exclude(_own(principal))[:QUEUE_LIMIT])


def _open(principal: Principal) -> QuerySet[ApprovalRequest]:
    return visible_requests(principal).filter(status=ApprovalStatus.OPEN).order_by("requested_at", "pk")


def _in_brief(rows: QuerySet[ApprovalRequest]) -> QuerySet[ApprovalRequest]:
    """The rows with what the rules read, without the states of their runs and tasks."""
    return rows.select_related(None).select_related(*BRIEFLY).only(*COLUMNS)


def _own(principal: Principal) -> Q:
    """What they may not approve because they asked for it. One query: a list of accounts finds an index."""
    key = principal.person.person_key if principal.person else ""
    accounts = Person.objects.filter(Q(pk=key) | Q(same_person_as=key)).values_list("pk", flat=True)
    return Q(gate__in=FOUR_EYES, task__created_by_id__in=list(accounts))


def _whole(principal: Principal, entries: Collection[Entry]) -> dict[str, Entry]:
    """Those entries with all that a row shows, by request id. Two queries; what is gone since is left out."""
    known = {entry.request.pk: entry for entry in entries}
    rows = visible_requests(principal).filter(pk__in=known).only(*_IN_A_ROW) if known else ()
    now = database_now()
    return {row.pk: _displayed(known[row.pk], row, now) for row in rows}


#: What a row of the queue shows: a patch's subject, guards and contract are long, and on its own page.
_IN_A_ROW: Final = (
    "run_id", "repository_id", "gate", "status", "version", "subject_sha256", "effective_risk", "needed",
    "requested_at", "due_at", "snoozed_until", "snoozed_by", "escalated_at", "closed_by", "close_reason",
    "assigned__username", "repository__name", "run__state",
    "task__title", "task__state", "task__created_by__username",
)  # fmt: skip


def _displayed(entry: Entry, request: ApprovalRequest, now: datetime) -> Entry:
    display = _display(request, Around(stamp(now), undecidable=entry.stuck))
    return replace(entry, request=request, display=display)


def _is_turn(entry: Entry) -> bool:
    return entry.rights.may_decide and entry.is_asked and not entry.closed


def _snoozed_last(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.is_snoozed)


def _entry(
    request: ApprovalRequest, principal: Principal, around: Surroundings, *, override: bool | None = None
) -> Entry:
    """``override``: whether the policy allows it; None where only the turn matters, whatever it says."""
    standing = around.standing(request, override=bool(override))
    stuck = override is not None and around.is_stuck(request, override=override)
    viewer, asked = viewer_of(principal, request.repository_id), around.asked_of(request)
    return Entry(
        request,
        rights(viewer, standing),
        {},
        missing_votes(standing),
        closed=standing.closed,
        stuck=stuck,
        is_asked=not asked or viewer.person in asked,
        asked=tuple(sorted(asked.values())),
        is_snoozed=request.snoozed_until is not None and request.snoozed_until > around.now,
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
    task = entry.request.task
    around = runs.around(RunState.from_json(entry.request.run.state), covered_of(task), task.needs)
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
        "asked": sorted(around.asked_of(request).values()),
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
