"""The one table of transitions (lifecycle contract, section 4).

Everything that says what may happen next reads it: the service, the FSM methods, the database
triggers, the API's ``allowed_events``, the pages, the diagram and the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from runs.domain.vocabulary import (
    ACTIVE,
    CLAIMABLE,
    LEASED_STATUSES,
    MACHINE_ROLES,
    OWNER,
    TERMINAL,
    Ev,
    Role,
    RunStatus,
    S,
)

Statuses = tuple[RunStatus, ...]

#: A target that means "the status it has".
STAY: Final = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row: in any of ``sources``, ``event`` by one of ``actors`` leads to one of ``targets``."""

    event: Ev
    sources: Statuses
    targets: tuple[RunStatus | None, ...]
    actors: tuple[Role, ...] = ()
    by_owner: bool = False  #: the role that owns the source status may post it, too
    needs: tuple[str, ...] = ()  #: evidence, in the words of the contract
    announces: str = ""  #: the domain event in the outbox
    people: bool = False  #: comes only through the people's own endpoints
    claim_only: bool = False  #: made by a claim, never posted

    def targets_from(self, source: RunStatus) -> Statuses:
        """The statuses this row may lead to from ``source``, in the table's order."""
        return tuple(source if t is STAY else t for t in self.targets)

    def roles_in(self, source: RunStatus) -> frozenset[Role]:
        """The roles that may post it while the run is in ``source``."""
        owner = (OWNER[source],) if self.by_owner and OWNER[source] is not Role.HUMAN else ()
        return frozenset((*self.actors, *owner))


def _in_order(*statuses: RunStatus) -> Statuses:
    wanted = set(statuses)
    return tuple(s for s in RunStatus if s in wanted)


HOLDER: Final = MACHINE_ROLES  # whoever holds the lease, in whatever role
LEASED_ROWS: Final = _in_order(*LEASED_STATUSES)
WORKING: Final = (S.CONTEXT_BUILDING, S.PLANNING, S.EXECUTING, S.PATCH_READY, S.VERIFYING, S.JUDGING)
ATTEMPTING: Final = (S.EXECUTING, S.PATCH_READY, S.VERIFYING, S.JUDGING)
CANCELLABLE: Final = tuple(s for s in ACTIVE if s is not S.PR_CREATED)
ENDED: Final = _in_order(*TERMINAL)

R = Row
ROWS: Final[tuple[Row, ...]] = (
    # --- section 4.1: events that move the status -------------------------------------------
    R(
        Ev.RUN_ENQUEUED,
        (S.CREATED,),
        (S.QUEUED,),
        (Role.SCHEDULER,),
        needs=("not_before",),
        announces="RunQueued",
    ),
    R(Ev.LEASE_ACQUIRED, (S.QUEUED,), (S.LEASED,), by_owner=True, claim_only=True, announces="RunLeased"),
    R(
        Ev.LEASE_ACQUIRED,  # a takeover or a hand-over: work goes on where it stands
        tuple(s for s in CLAIMABLE if s is not S.QUEUED),
        (STAY,),
        by_owner=True,
        claim_only=True,
        announces="RunLeased",
    ),
    R(
        Ev.LEASE_RELEASED,  # nothing was begun: back in line
        (S.LEASED,),
        (S.QUEUED,),
        (*HOLDER, Role.CONTROL_PLANE),
        needs=("reason",),
        announces="RunQueued",
    ),
    R(
        Ev.LEASE_RELEASED,
        tuple(s for s in LEASED_ROWS if s is not S.LEASED),
        (STAY,),
        (*HOLDER, Role.CONTROL_PLANE),
        needs=("reason",),
        announces="RunReleased",
    ),
    R(
        Ev.WORKER_STARTED,
        (S.LEASED,),
        (S.PREPARING,),
        (Role.WORKER,),
        needs=("worker_version",),
        announces="RunPreparing",
    ),
    R(
        Ev.SANDBOX_READY,
        (S.PREPARING,),
        (S.CONTEXT_BUILDING,),
        (Role.WORKER,),
        needs=("sandbox_id", "base_commit"),
        announces="RunContextBuilding",
    ),
    R(
        Ev.SANDBOX_READY,  # a taker made its own sandbox; the run stands where it stood
        (*WORKING, S.PR_CREATING),
        (STAY,),
        HOLDER,
        needs=("sandbox_id", "base_commit"),
    ),
    R(
        Ev.CONTEXT_READY,
        (S.CONTEXT_BUILDING,),
        (S.PLANNING,),
        (Role.WORKER,),
        needs=("context",),
        announces="RunContextReady",
    ),
    R(
        Ev.PLAN_CREATED,  # stays where the plan needs a person
        (S.PLANNING,),
        (S.EXECUTING, STAY),
        (Role.AGENT_RUNTIME,),
        needs=("plan",),
        announces="RunPlanCreated",
    ),
    R(
        Ev.PATCH_CREATED,  # no pull request yet
        (S.EXECUTING,),
        (S.PATCH_READY,),
        (Role.AGENT_RUNTIME,),
        needs=("patch",),
        announces="RunPatchReady",
    ),
    R(
        Ev.REPORT_CREATED,  # analysis tasks only
        (S.EXECUTING,),
        (S.JUDGING,),
        (Role.AGENT_RUNTIME,),
        needs=("analysis_report",),
        announces="RunReportReady",
    ),
    R(
        Ev.VERIFICATION_STARTED,
        (S.PATCH_READY,),
        (S.VERIFYING,),
        (Role.VERIFIER,),
        needs=("commands",),
        announces="RunVerificationStarted",
    ),
    R(
        Ev.VERIFICATION_FAILED_RETRYABLE,
        (S.VERIFYING,),
        (S.EXECUTING,),
        (Role.VERIFIER,),
        needs=("verification_report",),
        announces="RunVerificationFailed",
    ),
    R(
        Ev.VERIFICATION_PASSED,
        (S.VERIFYING,),
        (S.JUDGING,),
        (Role.VERIFIER,),
        needs=("verification_report",),
        announces="RunVerificationPassed",
    ),
    R(
        Ev.JUDGE_PASSED,  # policy moves it on
        (S.JUDGING,),
        (STAY,),
        (Role.JUDGE,),
        needs=("judge_report",),
        announces="RunJudgePassed",
    ),
    R(
        Ev.JUDGE_REQUIRES_FIX,
        (S.JUDGING,),
        (S.EXECUTING,),
        (Role.JUDGE,),
        needs=("judge_report",),
        announces="RunJudgeRequiresFix",
    ),
    R(
        Ev.AUTO_PR_ALLOWED,
        (S.JUDGING,),
        (S.PR_CREATING,),
        (Role.POLICY,),
        needs=("guards",),
        announces="RunPrCreating",
    ),
    R(
        Ev.HUMAN_APPROVAL_REQUIRED,
        (S.PLANNING, *ATTEMPTING),
        (S.WAITING_FOR_APPROVAL,),
        (Role.POLICY,),
        needs=("gate", "approval_request"),
        announces="RunApprovalRequired",
    ),
    R(
        Ev.APPROVED,  # which one: the gate, and the status it was opened from
        (S.WAITING_FOR_APPROVAL,),
        (S.PR_CREATING, S.PLANNING, *ATTEMPTING),
        (Role.HUMAN,),
        needs=("request", "version", "digest"),
        announces="RunApproved",
        people=True,
    ),
    R(
        Ev.CHANGES_REQUESTED,
        (S.WAITING_FOR_APPROVAL,),
        (S.PLANNING, S.EXECUTING),
        (Role.HUMAN,),
        needs=("request", "version", "digest"),
        announces="RunChangesRequested",
        people=True,
    ),
    R(
        Ev.REJECTED,
        (S.WAITING_FOR_APPROVAL,),
        (S.FAILED, S.PLANNING, S.EXECUTING),
        (Role.HUMAN,),
        needs=("request", "version", "digest"),
        announces="RunRejected",
        people=True,
    ),
    R(
        Ev.PR_CREATED,
        (S.PR_CREATING,),
        (S.PR_CREATED,),
        (Role.GIT_INTEGRATION,),
        needs=("url", "branch", "commit_sha", "tree_sha", "body"),
        announces="RunPrCreated",
    ),
    R(
        Ev.PR_CREATION_FAILED,  # ends the lease; the fifth is followed by a failure
        (S.PR_CREATING,),
        (STAY,),
        (Role.GIT_INTEGRATION,),
        needs=("failure",),
        announces="RunPrCreationFailed",
    ),
    R(
        Ev.COMPLETION_CONDITION_MET,  # JUDGING: the two modes without a pull request
        (S.JUDGING, S.PR_CREATED),
        (S.SUCCEEDED,),
        (Role.CONTROL_PLANE,),
        needs=("verdict",),
        announces="RunSucceeded",
    ),
    R(
        Ev.CANCEL_REQUESTED,  # sets the directive; without a lease run_cancelled follows at once
        CANCELLABLE,
        (STAY,),
        (Role.HUMAN, Role.POLICY),
        needs=("reason",),
        announces="RunCancelRequested",
        people=True,
    ),
    R(
        Ev.RUN_CANCELLED,
        CANCELLABLE,
        (S.CANCELLED,),
        (*HOLDER, Role.CONTROL_PLANE),
        needs=("cleanup",),
        announces="RunCancelled",
    ),
    R(
        Ev.NON_RETRYABLE_FAILURE,
        ACTIVE,
        (S.FAILED,),
        (Role.CONTROL_PLANE, Role.POLICY),
        by_owner=True,
        needs=("failure",),
        announces="RunFailed",
    ),
    R(Ev.TIMEOUT, (S.QUEUED,), (S.EXPIRED,), (Role.SCHEDULER,), needs=("scope",), announces="RunExpired"),
    R(
        Ev.TIMEOUT,  # FAILED only for the run's own clock
        LEASED_ROWS,
        (S.EXPIRED, S.FAILED),
        (Role.SCHEDULER,),
        needs=("scope",),
        announces="RunExpired",
    ),
    # --- section 4.2: events that keep the status -------------------------------------------
    R(Ev.LEASE_LOST, LEASED_ROWS, (STAY,), (Role.SCHEDULER,), announces="RunLeaseLost"),
    R(Ev.ATTEMPT_STARTED, ATTEMPTING, (STAY,), (Role.CONTROL_PLANE,)),
    R(Ev.ATTEMPT_FINISHED, ATTEMPTING, (STAY,), (Role.CONTROL_PLANE, Role.AGENT_RUNTIME)),
    R(Ev.MODEL_DECISION, WORKING, (STAY,), HOLDER),
    R(Ev.TOOL_REQUESTED, WORKING, (STAY,), HOLDER),
    R(Ev.TOOL_COMPLETED, WORKING, (STAY,), (*HOLDER, Role.SCHEDULER)),
    R(Ev.CHECKPOINT_SAVED, WORKING, (STAY,), HOLDER),
    R(Ev.QUESTION_ASKED, (S.PLANNING, S.EXECUTING), (STAY,), (Role.AGENT_RUNTIME,)),
    R(Ev.RUN_INTERRUPTED, (S.LEASED,), (S.QUEUED,), HOLDER, announces="RunPaused"),
    R(
        Ev.RUN_INTERRUPTED,
        tuple(s for s in LEASED_ROWS if s is not S.LEASED),
        (STAY,),
        HOLDER,
        announces="RunPaused",
    ),
    R(Ev.PAUSE_REQUESTED, ACTIVE, (STAY,), (Role.HUMAN,), people=True),
    R(Ev.WIND_DOWN_REQUESTED, ACTIVE, (STAY,), (Role.HUMAN, Role.POLICY), people=True),
    R(Ev.RUN_RESUMED, ACTIVE, (STAY,), (Role.HUMAN,), people=True, announces="RunResumed"),
    R(Ev.INSTRUCTION_ADDED, ACTIVE, (STAY,), (Role.HUMAN,), people=True),
    R(Ev.PRIORITY_CHANGED, ACTIVE, (STAY,), (Role.HUMAN,), people=True),
    R(Ev.BUDGET_RAISED, (S.WAITING_FOR_APPROVAL,), (STAY,), (Role.HUMAN,), people=True),
    R(Ev.GUARD_WAIVED, (S.WAITING_FOR_APPROVAL,), (STAY,), (Role.HUMAN,), people=True),
    R(Ev.VOTE_RECORDED, (S.WAITING_FOR_APPROVAL,), (STAY,), (Role.HUMAN,), people=True),
    R(Ev.DIRECTIVE_SEEN, LEASED_ROWS, (STAY,), (Role.CONTROL_PLANE,)),
    R(Ev.POLICY_EVALUATED, (S.JUDGING, S.WAITING_FOR_APPROVAL, S.PR_CREATING), (STAY,), (Role.POLICY,)),
    R(Ev.RETRY_SCHEDULED, ENDED, (STAY,), (Role.POLICY,)),
    R(Ev.RETRY_DECLINED, ENDED, (STAY,), (Role.POLICY,)),
    R(Ev.CLEANUP_REPORTED, ENDED, (STAY,), HOLDER),
    R(Ev.NOTE_ADDED, tuple(RunStatus), (STAY,), (Role.HUMAN,), people=True),
)

_CELLS: Final = {(row.event, source): row for row in ROWS for source in row.sources}

#: The domain event of a status reached, where it says more than the row's own.
_ANNOUNCED_BY_STATUS: Final = {
    S.PR_CREATING: "RunPrCreating",
    S.SUCCEEDED: "RunSucceeded",
    S.FAILED: "RunFailed",
    S.CANCELLED: "RunCancelled",
    S.EXPIRED: "RunExpired",
}

#: Events that people's own endpoints make; posted to ``/events`` they are refused.
PEOPLE_EVENTS: Final = frozenset(row.event for row in ROWS if row.people)

#: Events that only a claim makes.
CLAIM_EVENTS: Final = frozenset(row.event for row in ROWS if row.claim_only)


def cell(event: Ev, status: RunStatus) -> Row | None:
    """The row for ``event`` while a run is in ``status``; None where the table has none."""
    return _CELLS.get((event, status))


def allowed_events(status: RunStatus, *, machines_only: bool = True) -> list[Ev]:
    """Events the table takes in ``status``, in the vocabulary's order; by default those machines post."""
    rows = (_CELLS.get((event, status)) for event in Ev)
    return [
        row.event
        for row in rows
        if row
        and not row.claim_only
        and (not machines_only or (not row.people and row.roles_in(status) & set(MACHINE_ROLES)))
    ]


def posting_roles(event: Ev) -> frozenset[Role]:
    """Every role that may post ``event`` in some status."""
    return frozenset(
        role for row in ROWS if row.event is event for source in row.sources for role in row.roles_in(source)
    )


def domain_event(event: Ev, source: RunStatus | None, target: RunStatus) -> str:
    """The name of the domain event for this transition, or "" where it is not announced."""
    if source is not target and target in _ANNOUNCED_BY_STATUS:
        return _ANNOUNCED_BY_STATUS[target]
    row = _CELLS.get((event, source)) if source else None
    return row.announces if row else ""


def edges() -> Iterator[tuple[Ev, RunStatus, RunStatus]]:
    """Each (event, from, to) that the table allows, stays included; ``run_created`` has no source."""
    for row in ROWS:
        for source in row.sources:
            for target in dict.fromkeys(row.targets_from(source)):
                yield row.event, source, target


#: Pairs of different statuses that some event may join: what the database trigger lets through.
MOVES: Final = tuple(sorted({(a, b) for _, a, b in edges() if a is not b}))


def sources_of(event: Ev) -> Statuses:
    """Statuses in which ``event`` is legal."""
    return _in_order(*(source for (ev, source) in _CELLS if ev is event))
