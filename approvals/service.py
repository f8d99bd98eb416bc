"""Decide and waive: each in one transaction with the run's own event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from approvals.desk import Asked, Desk, check, check_open, check_shown, get_request, said_before, sit_down
from approvals.models import ApprovalRequest, Decision
from approvals.remarks import Remark, comment_with_remarks
from runs import service
from runs.auth import Action, Principal, require
from runs.domain.commands import Command
from runs.domain.errors import Invalid, NotAllowedNow
from runs.domain.facts import Json
from runs.domain.secrets import without_secrets
from runs.domain.vocabulary import DecisionWord, Ev, Gate
from runs.models import Artifact, Person

MAX_REASON = 2_000


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """What a decision did. ``votes_missing``: persons who must still approve; 0 when it is decided.

    ``run`` is None on a repeat, which changed nothing and is answered with the first decision.
    """

    request: ApprovalRequest
    decision: Decision
    run: service.Outcome | None
    votes_missing: int = 0

    @property
    def replayed(self) -> bool:
        """Whether this person had said the same before."""
        return self.run is None


def approval_decide(
    *,
    approval_id: str,
    decision: str,
    version: int,
    subject_sha256: str,
    comment: str = "",
    by: Principal,
    arguments: Json | None = None,
    budget: Json | None = None,
    remarks: Sequence[Remark] = (),
    override: bool = False,
    unread: int = 0,
    key: str = "",
) -> DecisionOutcome:
    """Record one person's word on one request; the last one needed moves the run.

    ``remarks`` on lines of the patch become part of the comment. ``unread``: files that were not opened.
    The same person saying the same again gets the first outcome. Raises ``NotFound``, ``Invalid``,
    ``ApprovalSuperseded`` (names the current request), ``ApprovalDecided`` (by whom and how),
    ``ApprovalClosed``, ``ApprovalForbidden`` (why), ``GuardFailed``, ``NotAllowedNow``.
    """
    word = _word(decision)
    # What is kept and shown, as every event: reviewers quote what a scan found.
    said_in_full = without_secrets(_with_remarks(approval_id, comment, remarks, by))
    arguments, budget = without_secrets(arguments), without_secrets(budget)
    asked = Asked(word, version, subject_sha256, said_in_full, arguments, budget, override, unread, key)
    with transaction.atomic():
        desk = sit_down(approval_id, by)
        if said := said_before(desk, asked):
            return DecisionOutcome(desk.request, said, None, desk.missing)
        check(desk, asked)
        return _record(desk, asked)


def _with_remarks(approval_id: str, comment: str, remarks: Sequence[Remark], by: Principal) -> str:
    """The patch is read before anything is locked: what a request shows by its digest never changes."""
    if not remarks:
        return comment.strip()
    request = get_request(approval_id, by)
    subject = request.subject.get("id") if request.gate == Gate.PATCH else None
    patch = Artifact.objects.filter(run_id=request.run_id, pk=subject or "").first()
    return comment_with_remarks(comment, remarks, patch)


def _word(decision: str) -> DecisionWord:
    try:
        return DecisionWord(decision)
    except ValueError:
        raise Invalid({"decision": [f"must be one of: {', '.join(DecisionWord)}"]}) from None


def _record(desk: Desk, asked: Asked) -> DecisionOutcome:
    missing = 0
    if asked.word is DecisionWord.REJECT:
        outcome = _apply(desk, asked, Ev.REJECTED)
    elif asked.word is DecisionWord.REQUEST_CHANGES:
        caller = desk.principal.caller
        number = service.instruction_add(task_id=desk.request.task_id, text=asked.comment, by=caller)
        outcome = _apply(desk, asked, Ev.CHANGES_REQUESTED, instruction_no=number)
    else:
        outcome, missing = _approve(desk, asked)
    said = Decision.objects.create(
        request=desk.request,
        by=desk.by,
        decision=asked.word,
        version=asked.version,
        subject_sha256=asked.subject_sha256,
        comment=asked.comment,
        arguments=asked.arguments if asked.arguments is not None else asked.budget,
        override=desk.overrides(asked),
        unread=asked.unread,
        at=desk.held.now,
    )
    return DecisionOutcome(get_request(desk.request.pk, desk.principal), said, outcome, missing)


def _approve(desk: Desk, asked: Asked) -> tuple[service.Outcome, int]:
    """One vote: recorded while more are needed, approving when it is the last."""
    missing = desk.missing - 1
    if missing > 0:
        return _apply(desk, asked, Ev.VOTE_RECORDED), missing
    if desk.gate is Gate.BUDGET:
        payload = {"approval_id": desk.request.pk, "budget": asked.budget}
        facts: Json = {"budget": asked.budget}
        raised = Command(Ev.BUDGET_RAISED, payload, desk.principal.caller, "", facts=facts)
        service.apply_event(desk.request.run_id, raised)
    voters = [*(vote.by for vote in desk.around.votes(desk.request)), desk.by]
    return _apply(desk, asked, Ev.APPROVED, by=_names(voters)), 0


def _names(people: Sequence[Person]) -> list[Json]:
    return [{"id": person.pk, "name": person.get_username()} for person in people]


def _apply(desk: Desk, asked: Asked, event: Ev, **facts: Any) -> service.Outcome:
    payload: Json = {
        "approval_id": desk.request.pk,
        "version": asked.version,
        "subject_sha256": asked.subject_sha256,
        "comment": asked.comment,
    }
    if asked.arguments is not None and desk.gate is Gate.TOOL_CALL:
        payload["arguments"] = asked.arguments
    if asked.unread:
        facts["unread"] = asked.unread
    if desk.overrides(asked):
        facts["override"] = desk.rights.because
    command = Command(event, payload, desk.principal.caller, asked.key, facts=facts)
    return service.apply_event(desk.request.run_id, command)


# --- around a decision ----------------------------------------------------------------------------


def approval_waive(
    *, approval_id: str, guard: str, reason: str, version: int, by: Principal
) -> ApprovalRequest:
    """Let a request be approved although ``guard`` fails: by name, with a reason. It gets a new version.

    Raises as ``approval_decide`` does, and ``PermissionDenied`` for those who may not waive.
    """
    reason = without_secrets(reason.strip())
    if not reason or len(reason) > MAX_REASON or "\x00" in reason:
        raise Invalid({"reason": [f"say why, in 1 to {MAX_REASON} characters"]})
    with transaction.atomic():
        desk = sit_down(approval_id, by)
        request = desk.request
        check_open(desk)
        require(by, Action.WAIVE, request.repository_id)
        check_shown(desk, version, request.subject_sha256)
        _check_waivable(request, guard)
        facts = {
            "guards": service.guards_with_waiver(desk.held, guard=guard, reason=reason, by_name=by.name),
            "version": request.version + 1,
            "subject_sha256": request.subject_sha256,
        }
        payload: Json = {"approval_id": request.pk, "version": version, "guard": guard, "reason": reason}
        service.apply_event(request.run_id, Command(Ev.GUARD_WAIVED, payload, by.caller, "", facts=facts))
        return get_request(approval_id, by)


def _check_waivable(request: ApprovalRequest, guard: str) -> None:
    failing = {found["name"]: found for found in request.guards if found["passed"] is not True}
    if guard not in failing:
        raise NotAllowedNow("This guard does not fail; there is nothing to waive.", guard=guard)
    if not failing[guard]["waivable"]:
        raise NotAllowedNow("This guard cannot be waived.", guard=guard)
