"""A request and its run held still while somebody decides, and every check before it is done.

A request changes only under its run's lock, so holding the run (lock order: repository, run, task,
approval) holds its requests; they need no lock of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from approvals import budgets
from approvals.models import ApprovalRequest, Decision
from approvals.people import RELATED, Surroundings, closed_sentence, is_overdue, surroundings, viewer_of
from approvals.policy import APPROVING, CHANGEABLE, EDITABLE, Rights, missing_votes, rights
from runs import service
from runs.auth import Action, Principal, may
from runs.domain import guards
from runs.domain.errors import (
    ApprovalClosed,
    ApprovalDecided,
    ApprovalForbidden,
    ApprovalSuperseded,
    GuardFailed,
    Invalid,
    NotAllowedNow,
    NotFound,
)
from runs.domain.facts import Json
from runs.domain.payloads import MAX_TEXT
from runs.domain.vocabulary import ApprovalStatus, DecisionWord, Gate
from runs.models import Instruction, Person

_DECIDED = (ApprovalStatus.APPROVED, ApprovalStatus.CHANGES_REQUESTED, ApprovalStatus.REJECTED)


@dataclass(frozen=True, slots=True)
class Asked:
    """A decision as somebody asks for it."""

    word: DecisionWord
    version: int
    subject_sha256: str
    comment: str
    arguments: Any = None
    budget: Any = None
    override: bool = False
    unread: int = 0  #: files of the patch that were not opened
    key: str = ""

    @property
    def approves(self) -> bool:
        """Whether it lets the run go on as it wants to."""
        return self.word in APPROVING


@dataclass(frozen=True, slots=True)
class Desk:
    """A request and its run, held still."""

    request: ApprovalRequest
    held: service.Held
    around: Surroundings
    by: Person
    principal: Principal
    rights: Rights

    @property
    def gate(self) -> Gate:
        """Why the run waits."""
        return Gate(self.request.gate)

    @property
    def missing(self) -> int:
        """How many persons must still approve."""
        if self.request.status != ApprovalStatus.OPEN:
            return 0
        return missing_votes(self.around.standing(self.request))

    @property
    def spent_before(self) -> Decimal:
        """What the task's other runs cost: the ceiling is on the whole task. One query."""
        return service.spent_by_others(self.held.run)

    def overrides(self, asked: Asked) -> bool:
        """Whether the decision rests on the override."""
        return asked.approves and asked.override and self.rights.needs_override


def sit_down(approval_id: str, by: Principal) -> Desk:
    """Hold the request's run, in a transaction. ``NotFound`` for what they may not know of."""
    seen = get_request(approval_id, by)
    held = service.run_lock(seen.run_id)
    # Read the request after the run's lock: somebody may have decided while we waited.
    request = get_request(approval_id, by)
    around = surroundings([request])
    override = bool(held.policy.values["override"])
    found = rights(viewer_of(by, request.repository_id), around.standing(request, override=override))
    if by.person is None:
        raise NotFound
    return Desk(request, held, around, by.person, by, found)


def get_request(approval_id: str, by: Principal) -> ApprovalRequest:
    """The request, if it is theirs to know; machines know none. Raises ``NotFound``."""
    request = ApprovalRequest.objects.select_related(*RELATED).filter(pk=approval_id).first()
    if request is None or by.is_machine or not may(by, Action.READ, request.repository_id):
        raise NotFound
    return request


def said_before(desk: Desk, asked: Asked) -> Decision | None:
    """The same word of the same account about the same thing shown: a double click, or a reload."""
    request = desk.request
    shown = (request.version, request.subject_sha256)
    if request.status == ApprovalStatus.OPEN and shown != (asked.version, asked.subject_sha256):
        return None  # that vote does not count any more
    for said in desk.around.decisions.get(request.pk, ()):
        same = (said.by_id, said.decision, said.version, said.subject_sha256)
        if same == (desk.by.pk, asked.word, asked.version, asked.subject_sha256):
            return said
    return None


# --- checks, in the order of the contract ---------------------------------------------------------


def check(desk: Desk, asked: Asked) -> None:
    """Everything that can refuse a decision; raises the first ``Refusal`` in the order of the contract."""
    check_open(desk)
    check_shown(desk, asked.version, asked.subject_sha256)
    _check_offered(desk, asked)
    _check_person(desk, asked)
    _check_words(desk, asked)
    _check_worked_on(desk, asked)


def _check_worked_on(desk: Desk, asked: Asked) -> None:
    """What came of an older instruction is not approved as if it met a newer one, which nobody worked on."""
    request = desk.request
    if asked.word not in APPROVING or request.gate not in (Gate.PLAN, Gate.PATCH) or asked.override:
        return
    later = Instruction.objects.filter(task=request.task_id, created_at__gt=request.requested_at)
    if newest := later.select_related("author").order_by("number").last():
        by = newest.author.get_username() if newest.author else "Somebody"
        raise NotAllowedNow(
            f"{by} added instruction {newest.number} after this was made. Request changes, so that it is"
            " worked on."
        )


def check_open(desk: Desk) -> None:
    """Refuse what is decided (by whom and how), replaced (by which), cancelled or overdue."""
    request, now = desk.request, desk.around.now
    sentence = closed_sentence(request, now)
    if not sentence:
        return
    status = ApprovalStatus.EXPIRED if is_overdue(request, now) else ApprovalStatus(request.status)
    known: Json = {"approval_status": status.value, "run_status": desk.held.state.status}
    current = (desk.held.state.gate or {}).get("approval_id", "")
    if current and current != request.pk:
        newer = f"{sentence} The run waits at a newer request now."
        raise ApprovalSuperseded(newer, approval_id=current, **known)
    if request.status in _DECIDED:
        by = [said.by.get_username() for said in desk.around.decisions.get(request.pk, ())]
        not_yours = f"{sentence} Your decision was not recorded."
        raise ApprovalDecided(not_yours, decided_by=by or [request.closed_by], **known)
    why = f" {request.close_reason}" if request.close_reason else ""
    raise ApprovalClosed(f"{sentence}{why}", closed_by=request.closed_by, **known)


def check_shown(desk: Desk, version: int, subject_sha256: str) -> None:
    """Refuse a decision about something else than the request shows now."""
    request = desk.request
    if (version, subject_sha256) != (request.version, request.subject_sha256):
        raise ApprovalSuperseded(
            approval_id=request.pk, version=request.version, subject_sha256=request.subject_sha256
        )


def _check_offered(desk: Desk, asked: Asked) -> None:
    at = f"at a {desk.gate.label.lower()} gate"
    if asked.word is DecisionWord.REQUEST_CHANGES and desk.gate not in CHANGEABLE:
        raise NotAllowedNow(f"Changes cannot be requested {at}.", gate=desk.gate)
    if asked.word is DecisionWord.EDIT and desk.gate not in EDITABLE:
        raise NotAllowedNow(f"Nothing can be edited {at}.", gate=desk.gate)


def _check_person(desk: Desk, asked: Asked) -> None:
    found = desk.rights
    may_speak = found.may_decide or desk.overrides(asked) if asked.approves else found.reject
    if not may_speak:
        raise ApprovalForbidden(found.because, why=found.because)
    if asked.approves and (failing := guards.blocking(desk.request.guards)):
        raise GuardFailed("A guard forbids approving; waive it by name or ask for changes.", guards=failing)


def _check_words(desk: Desk, asked: Asked) -> None:
    wrong: dict[str, list[str]] = {}
    answers = asked.approves and desk.gate is Gate.QUESTION
    if not asked.comment and (not asked.approves or answers or desk.overrides(asked)):
        wrong["comment"] = ["give the answer" if answers else "say why"]
    if len(asked.comment) > MAX_TEXT or "\x00" in asked.comment:
        wrong["comment"] = [f"must be text of at most {MAX_TEXT} characters"]
    if asked.arguments is not None and not isinstance(asked.arguments, dict):
        wrong["arguments"] = ["must be an object"]
    if asked.word is DecisionWord.EDIT and desk.gate is Gate.TOOL_CALL and asked.arguments is None:
        wrong["arguments"] = ["give the arguments that the call shall have"]
    if asked.approves and desk.gate is Gate.BUDGET:
        wrong |= budgets.problems(asked.budget, desk.held.state, desk.held.policy.values, desk.spent_before)
    if wrong:
        raise Invalid(wrong)
