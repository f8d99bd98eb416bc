"""The shapes of answers as JSON Schema (REST contract, "Shapes"): what ``runs.api.shapes`` builds."""

from __future__ import annotations

from typing import Final

from runs.api.campaign_components import CAMPAIGN_ANSWERS
from runs.api.components_figures import FIGURES
from runs.api.words import (
    ANY_OBJECT,
    FLAG,
    MONEY,
    NUMBER,
    SHA256,
    TEXT,
    TIME,
    WHOLE,
    an_id,
    many,
    mapping,
    one_of,
    or_null,
    page_of,
    ref,
    shape,
)
from runs.domain.display import Display
from runs.domain.errors import all_refusals
from runs.domain.facts import Json
from runs.domain.holds import HoldScope
from runs.domain.policy import VIA
from runs.domain.vocabulary import (
    ApprovalStatus,
    ArtifactKind,
    AttemptState,
    CompletionMode,
    DecisionWord,
    Directive,
    Ev,
    Gate,
    Outcome,
    PullRequestState,
    Risk,
    Role,
    RunStatus,
    StepState,
    TaskStatus,
)
from runs.domain.waiting import REASONS

_MORE_CODES: Final = ("method_not_allowed", "internal")
_BRIEF: Final = shape(id=an_id("art"), sha256=SHA256, size=WHOLE)
_BUDGET: Final = shape(limit=ANY_OBJECT, used=ANY_OBJECT)
_STOP_TIME: Final = or_null({"type": "string", "description": 'a time, or "unconfirmed"'})

PROBLEM: Final[Json] = {
    "type": "object",
    "description": "RFC 9457. What the caller needs to act stands in further fields, by code.",
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": TEXT,
        "status": {"type": "integer", "description": "the HTTP status"},
        "detail": TEXT,
        "code": one_of(dict.fromkeys([*(refusal.code for refusal in all_refusals()), *_MORE_CODES])),
        "errors": {"type": "object", "additionalProperties": many(TEXT)},
        "current_status": {"type": "string", "description": "the status of the run or task"},
        "pointer": {"type": "string", "description": "RFC 6901, into the body"},
        "index": {"type": "integer", "description": "the item of a batch"},
    },
    "required": ["type", "title", "status", "detail", "code"],
    "additionalProperties": True,
}

_TASK: Final = shape(
    id=an_id("task"),
    title=TEXT,
    status=one_of(TaskStatus),
    repository=TEXT,
    base_branch=TEXT,
    completion_mode=one_of(CompletionMode),
    risk_level=one_of(Risk),
    risk=shape(level=one_of(Risk), why=TEXT),
    priority=WHOLE,
    labels=many(TEXT),
    contract=ANY_OBJECT,
    instructions=many(ref("Instruction")),
    display=ref("Display"),
    waiting_for=or_null(ref("WaitingFor")),
    rejection_reasons=many(TEXT),
    run_ids=many(an_id("run")),
    latest_run_id=or_null(an_id("run")),
    parent_id=or_null(an_id("task")),
    campaign_id=or_null(an_id("camp")),
    created_by=TEXT,
    created_at=TIME,
    updated_at=TIME,
    archived_at=or_null(TIME),
)

_RUN: Final = shape(
    id=an_id("run"),
    task_id=an_id("task"),
    title=TEXT,
    repository=TEXT,
    attempt_no=WHOLE,
    retry_count=WHOLE,
    status=one_of(RunStatus),
    sequence=WHOLE,
    directive=one_of(Directive),
    outcome=or_null(one_of(Outcome)),
    display=ref("Display"),
    waiting_for=or_null(ref("WaitingFor")),
    gate=or_null(one_of(Gate)),
    failure=or_null(ANY_OBJECT),
    expiration=or_null(ANY_OBJECT),
    cancel_reason=or_null(TEXT),
    fence=WHOLE,
    worker=or_null(TEXT),
    isolation=or_null(TEXT),
    lease_expires_at=or_null(TIME),
    base_commit=or_null(TEXT),
    patch=or_null(shape(id=an_id("art"), sha256=SHA256, size=WHOLE, files=WHOLE, added=WHOLE, deleted=WHOLE)),
    effective_risk=one_of(Risk),
    budget=_BUDGET,
    model=or_null(TEXT),
    provider=or_null(TEXT),
    current_step=or_null(TEXT),
    output_summary=or_null(TEXT),
    output_path=or_null(TEXT),
    policy_version=TEXT,
    not_before=or_null(TIME),
    expires_at=or_null(TIME),
    created_at=TIME,
    started_at=or_null(TIME),
    updated_at=TIME,
    completed_at=or_null(TIME),
    allowed_events=many(one_of(Ev)),
)

_EVENT: Final = shape(
    id=an_id("evt"),
    run_id=an_id("run"),
    sequence=WHOLE,
    type=one_of(Ev),
    from_status=or_null(one_of(RunStatus)),
    to_status=one_of(RunStatus),
    attempt=WHOLE,
    actor=shape(type=one_of(Role), id=TEXT, name=TEXT),
    fence=WHOLE,
    schema_version=WHOLE,
    payload=ANY_OBJECT,
    facts=ANY_OBJECT,
    occurred_at=TIME,
    recorded_at=TIME,
    hash=SHA256,
)

_STEP: Final[dict[str, Json]] = {
    "operation_id": TEXT,
    "attempt": WHOLE,
    "kind": TEXT,
    "tool": or_null(TEXT),
    "label": TEXT,
    "arguments": ANY_OBJECT,
    "effect": one_of(["none", "workspace", "outside"]),
    "state": one_of(StepState),
    "started_at": TIME,
    "finished_at": or_null(TIME),
    "duration_ms": or_null(WHOLE),
    "exit_code": or_null(WHOLE),
    "cost_usd": or_null(MONEY),
    "summary": or_null(TEXT),
    "output_artifact_id": or_null(TEXT),
}

_RESUME: Final = shape(
    task=shape(title=TEXT, contract=ANY_OBJECT),
    repository=shape(name=TEXT, url=TEXT, provider=TEXT, base_branch=TEXT),
    policy=ANY_OBJECT,
    attempt=or_null(shape(number=WHOLE, strategy=TEXT, started_at=TIME, used=ANY_OBJECT)),
    instruction=WHOLE,
    instructions=many(ref("Instruction")),
    pending=many(shape(**_STEP, approved=FLAG)),
    operations=many(ANY_OBJECT),
    lost=many(ref("Step")),
    checkpoint=or_null(_BRIEF),
    plan=or_null(_BRIEF),
    patch=or_null(_BRIEF),
    verification_report=or_null(_BRIEF),
    feedback=or_null(ANY_OBJECT),
    hints=many(TEXT),
    budget=_BUDGET,
)

_APPROVAL: Final = shape(
    id=an_id("apr"),
    run_id=an_id("run"),
    task_id=an_id("task"),
    title=TEXT,
    repository=TEXT,
    gate=one_of(Gate),
    status=one_of(ApprovalStatus),
    version=WHOLE,
    subject_sha256=SHA256,
    subject=ANY_OBJECT,
    guards=many(ref("Guard")),
    effective_risk=one_of(Risk),
    needed=WHOLE,
    missing=WHOLE,
    decisions=many(
        shape(by=TEXT, decision=one_of(DecisionWord), version=WHOLE, comment=TEXT, override=FLAG, at=TIME)
    ),
    assigned=or_null(TEXT),
    asked={"type": "array", "items": TEXT},
    snoozed_until=or_null(TIME),
    requested_at=TIME,
    due_at=or_null(TIME),
    closed_at=or_null(TIME),
    closed_by=or_null(TEXT),
    close_reason=or_null(TEXT),
    may_decide=FLAG,
    may_not_because=or_null(TEXT),
)

_GUARD: Final = shape(
    name=TEXT, passed=or_null(FLAG), value=TEXT, evidence=TEXT, would_pass_if=TEXT, waivable=FLAG
)

_ARTIFACT: Final = shape(
    id=an_id("art"),
    kind=one_of(ArtifactKind),
    sha256=SHA256,
    size=WHOLE,
    facts=ANY_OBJECT,
    content_type=TEXT,
    fence=WHOLE,
    created_at=TIME,
    href=TEXT,
)

_PULL_REQUEST: Final = shape(
    id=an_id("pr"),
    run_id=an_id("run"),
    task_id=an_id("task"),
    repository=TEXT,
    provider=TEXT,
    url=TEXT,
    branch=TEXT,
    number=or_null(WHOLE),
    commit_sha=TEXT,
    tree_sha=TEXT,
    body=TEXT,
    state=one_of(PullRequestState),
    checks=or_null(TEXT),
    ended_at=or_null(TIME),
    reverted_at=or_null(TIME),
    reverted_by=or_null(TEXT),
    created_at=TIME,
    updated_at=TIME,
)

_WORKER: Final = shape(
    id=an_id("wrk"),
    name=TEXT,
    roles=many(one_of(Role)),
    labels=many(TEXT),
    repositories=many(TEXT),
    owner=or_null(TEXT),
    version=or_null(TEXT),
    isolation=or_null(TEXT),
    last_seen_at=or_null(TIME),
    last_asked_at=or_null(TIME),
    disabled_at=or_null(TIME),
    created_at=TIME,
)

_HOLD: Final = shape(
    id=an_id("hold"),
    scope=one_of(HoldScope),
    value=or_null(TEXT),
    reason=TEXT,
    cancel_running=FLAG,
    in_force=FLAG,
    sentence=TEXT,
    set_by=TEXT,
    created_at=TIME,
    expires_at=or_null(TIME),
    lifted_at=or_null(TIME),
    lifted_by=or_null(TEXT),
)

_REPOSITORY: Final = shape(
    id=an_id("repo"),
    name=TEXT,
    url=TEXT,
    provider=TEXT,
    base_branch=TEXT,
    policy=shape(
        version=TEXT,
        values=ANY_OBJECT,
        origins=mapping(many(TEXT)),
        levels=many(shape(policy=TEXT, version=WHOLE, via=one_of(VIA), pattern=or_null(TEXT))),
    ),
    spent_today_usd=MONEY,
    created_at=TIME,
    archived_at=or_null(TIME),
)

_SENTENCE: Final = shape(
    seq_from=WHOLE,
    seq_to=WHOLE,
    at=TIME,
    kind=TEXT,
    sentence=TEXT,
    detail=or_null(TEXT),
    tone=TEXT,
    icon=TEXT,
    artifact_id=or_null(TEXT),
)

_RECEIPT: Final = shape(
    asked=or_null(shape(directive=one_of(["cancel", "wind_down"]), by=TEXT, reason=or_null(TEXT), at=TIME)),
    seen=_STOP_TIME,
    process_group_gone=_STOP_TIME,
    artifacts_saved=_STOP_TIME,
    pull_request_reconciled=_STOP_TIME,
    ended_at=or_null(TIME),
)

_LEASE: Final = shape(
    id=an_id("lease"),
    token=TEXT,
    fence=WHOLE,
    run_id=an_id("run"),
    acquired_at=TIME,
    expires_at=TIME,
    heartbeat_interval_seconds=NUMBER,
)
_LEASE_NOW: Final = or_null(shape(expires_at=TIME))
_DONE: Final = {"event": ref("Event"), "follow_ups": many(ref("Event"))}

ANSWERS: Final[dict[str, Json]] = {
    **FIGURES,
    "Problem": PROBLEM,
    "Action": shape(name=TEXT, label=TEXT, href=TEXT),
    "Display": shape(
        state=one_of(Display),
        title=TEXT,
        icon=TEXT,
        tone=TEXT,
        step=or_null(TEXT),
        missing=or_null(TEXT),
        actions=many(ref("Action")),
    ),
    "WaitingFor": shape(
        reason=one_of(REASONS), since=TIME, until=or_null(TIME), whose_move=TEXT, sentence=TEXT
    ),
    "Instruction": shape(number=WHOLE, text=TEXT, by=or_null(TEXT), at=TIME),
    "Task": _TASK,
    "Run": _RUN,
    "Event": _EVENT,
    "Step": shape(**_STEP),
    "Attempt": shape(
        number=WHOLE,
        state=one_of(AttemptState),
        strategy=TEXT,
        started_at=TIME,
        finished_at=or_null(TIME),
        failure=or_null(ANY_OBJECT),
        used=ANY_OBJECT,
    ),
    "Lease": _LEASE,
    "Resume": _RESUME,
    "Claim": shape(lease=ref("Lease"), run=ref("Run"), resume=ref("Resume")),
    "Heartbeat": shape(expires_at=TIME, directive=one_of(Directive), reason=or_null(TEXT)),
    "Released": shape(run=ref("Run"), **_DONE),
    "EventAnswer": shape(**_DONE, run=ref("Run"), lease=_LEASE_NOW),
    "BatchAnswer": shape(results=many(shape(**_DONE, replayed=FLAG)), run=ref("Run"), lease=_LEASE_NOW),
    "StoredArtifact": shape(
        id=an_id("art"), kind=one_of(ArtifactKind), sha256=SHA256, size=WHOLE, facts=ANY_OBJECT
    ),
    "Artifact": _ARTIFACT,
    "Guard": _GUARD,
    "Approval": _APPROVAL,
    "PullRequest": _PULL_REQUEST,
    "Repository": _REPOSITORY,
    "Hold": _HOLD,
    **CAMPAIGN_ANSWERS,
    "Worker": _WORKER,
    "Timeline": shape(phases=many(shape(title=TEXT, items=many(_SENTENCE))), earlier=or_null(TEXT)),
    "Receipt": _RECEIPT,
    "LogEnd": shape(operation_id=TEXT, offset=WHOLE),
}
PAGED: Final = (
    "Task", "Run", "Event", "Step", "Attempt", "Artifact", "Approval", "PullRequest", "Repository", "Worker",
    "Hold", "Campaign",
)  # fmt: skip
PAGES: Final[dict[str, Json]] = {f"{name}Page": page_of(name) for name in PAGED}
