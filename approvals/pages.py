"""The review page as its template takes it: what was asked, what was done, the evidence, what one may do.

What was done is computed here from the patch's stored reading, never from what the agent says of itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from approvals import rows
from approvals.models import ApprovalRequest
from approvals.people import Surroundings, surroundings
from approvals.policy import CHANGEABLE
from approvals.selectors import Entry, ids_in_turn, read_entries
from runs.auth import Action, Principal, may
from runs.domain.facts import Json, moment
from runs.domain.guards import blocking, effective_risk
from runs.domain.paths import matches
from runs.domain.policy import Effective
from runs.domain.sentences import guard_label
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import DecisionWord, Gate, Risk
from runs.models import Artifact
from runs.selectors import effective_policies
from runs.selectors.commands import contract_commands
from runs.selectors.diff import patch_diff
from runs.selectors.words import money, risk_badge, when
from runs.templatetags.ui import duration

_APPROVE = {Gate.QUESTION: "Answer", Gate.BUDGET: "Raise the budget"}
_SAID = {
    DecisionWord.APPROVE: "approved",
    DecisionWord.EDIT: "approved with other values",
    DecisionWord.REQUEST_CHANGES: "requested changes",
    DecisionWord.REJECT: "rejected",
}
#: Isolation as the worker reports it: what stood between the work and the worker's machine.
_WHERE = {
    "none": "not isolated from the worker's machine",
    "process": "in a process of its own, not isolated from the worker's machine",
    "namespace": "isolated in a namespace",
    "container": "isolated in a container",
    "vm": "isolated in a virtual machine",
}


@dataclass(frozen=True, slots=True)
class Review:
    """Everything the page is made of; read once."""

    entry: Entry
    principal: Principal
    around: Surroundings
    state: RunState
    task: TaskState
    policy: Effective
    subject: Artifact | None  #: the patch or plan that is shown

    @property
    def request(self) -> ApprovalRequest:
        """The request under review."""
        return self.entry.request

    @property
    def gate(self) -> Gate:
        """Why the run waits."""
        return Gate(self.request.gate)

    @property
    def reading(self) -> Json:
        """The control plane's reading of the patch, or {}."""
        return self.subject.facts if self.subject and self.gate is Gate.PATCH else {}

    @property
    def risky(self) -> list[str]:
        """Changed paths that raise the risk."""
        return effective_risk(self.state.risk_level, self.reading, self.policy.values)[1]

    @property
    def unplanned(self) -> list[str]:
        """Changed paths that the plan did not name; nothing where there was no plan."""
        planned = (self.state.plan or {}).get("files")
        paths = [entry["path"] for entry in self.reading.get("files", ())]
        return [path for path in paths if not matches(planned, path)] if planned else []


def read_review(request: ApprovalRequest, principal: Principal) -> Review:
    """The request with all that its page shows. Eight queries; the place in the queue costs seven more."""
    subject = Artifact.objects.filter(run_id=request.run_id, pk=request.subject.get("id") or "").first()
    policies = effective_policies(repository_ids=[request.repository_id])
    around = surroundings([request])
    return Review(
        entry=read_entries([request], principal, around)[0],
        principal=principal,
        around=around,
        state=RunState.from_json(request.run.state),
        task=TaskState.from_json(request.task.state),
        policy=policies[request.repository_id],
        subject=subject,
    )


def review_context(
    review: Review, *, error: str = "", comment: str = "", newer: ApprovalRequest | None = None
) -> Json:
    """The whole context of approvals/review.html. ``error`` and ``comment`` come back after a refusal."""
    request = review.request
    closed = review.entry.closed
    return {
        "request_id": request.pk,
        "head": _head(review),
        "closed": closed,
        "error": error,
        "comment": comment,
        "newer": _newer(review, newer) if newer else None,
        "asked": _asked(review),
        "done": _done(review) if review.gate is Gate.PATCH else None,
        "subject": _subject(review),
        "guards": [_guard(review, guard, is_open=not closed) for guard in request.guards],
        "guards_lead": _guards_lead(request.guards),
        "decisions": [_decision(decision) for decision in review.around.decisions.get(request.pk, ())],
        "stuck": review.entry.stuck,
        "rights": review.entry.rights,
        "untrusted": _untrusted(review),
        "diff": _diff(review),
        "verdict": None if closed else _verdict(review, error, comment),
    }


# --- head -----------------------------------------------------------------------------------------


def _head(review: Review) -> Json:
    request = review.request
    return {
        "display": review.entry.display,
        "title": request.task.title,
        "gate": rows.gate_name(request),
        "risk": _risk_sentence(review),
        "risk_tone": risk_badge(request.effective_risk)["tone"],
        "requested": when(request.requested_at),
        "due": None if review.entry.closed else when(request.due_at),
        "run": {"id": request.run_id, "number": request.run.attempt_no},
        "task_id": request.task_id,
        "repository": request.repository.name,
        "place": _place(review),
    }


def _risk_sentence(review: Review) -> str:
    own, effective = Risk(review.state.risk_level), Risk(review.request.effective_risk)
    if effective is own:
        return f"{own.label.lower()} risk"
    by = f" by {_some(review.risky)}" if review.risky else ""
    return f"{own.label.lower()} risk, raised to {effective.label.lower()}{by}"


def _place(review: Review) -> Json | None:
    """Where this stands in the viewer's own queue, and the way to the next."""
    mine = ids_in_turn(review.principal)
    others = [pk for pk in mine if pk != review.request.pk]
    if not mine:
        return None
    after = next((pk for pk in others if pk in mine[_index(mine, review.request.pk) :]), (others or [""])[0])
    return {
        "number": _index(mine, review.request.pk) if review.request.pk in mine else None,
        "of": len(mine),
        "next": reverse("approval", args=[after]) if after else "",
    }


def _index(ids: Sequence[str], wanted: str) -> int:
    """Counted from 1; 0 where it is not among them."""
    return ids.index(wanted) + 1 if wanted in ids else 0


# --- asked and done -------------------------------------------------------------------------------


def _asked(review: Review) -> Json:
    contract = review.task.contract
    limits = []
    if paths := contract["allowed_paths"]:
        limits.append(f"only {_some(paths)}")
    if paths := contract["forbidden_paths"]:
        limits.append(f"never {_some(paths)}")
    if verifiers := [verifier["name"] for verifier in contract["verifiers"]]:
        limits.append(f"verified by {_some(verifiers)}")
    limits.append(f"up to {money(review.state.budget.get('max_cost_usd'))}")
    shown = [entry for entry in review.task.instructions if entry["number"] <= review.state.instruction_no]
    instructions = [{**entry, "moment": moment(entry["at"])} for entry in shown]
    commands = contract_commands(contract)
    return {"instructions": instructions, "limits": ", ".join(limits), "commands": commands}


def _done(review: Review) -> Json:
    reading, base = review.reading, review.reading.get("base") or {}
    files = reading.get("files", [])
    fits = base.get("applies_to_head")
    moved = "which it still fits" if fits else "which has moved into conflict"
    return {
        "files": len(files),
        "added": reading.get("added", 0),
        "deleted": reading.get("deleted", 0),
        "branch": review.task.contract["base_branch"],
        "commit": (base.get("commit") or "")[:8],
        "moved": "whose present state is unknown" if fits is None else moved,
        "has_plan": bool(review.state.plan),
        "plan_is_open": "**" in (review.state.plan or {}).get("files", ()),
        "planned": len(files) - len(review.unplanned),
        "unplanned": review.unplanned[:20],
        "risky": review.risky[:20],
        "work": _work(review),
    }


def _work(review: Review) -> str:
    state = review.state
    repairs = int(state.used["repairs"])
    parts = [
        "1 repair" if repairs == 1 else f"{repairs} repairs",
        f"{duration(state.used['active_seconds'])} of work",
        money(state.used["cost_usd"]),
    ]
    kind = review.task.contract["agent"].get("kind", "agent")
    where = _WHERE.get(state.isolation, _WHERE["none"])
    return " · ".join([*parts, f"{kind} run by {_maker(state)}, {where}"])


def _maker(state: RunState) -> str:
    """Whose worker made what is shown; whoever holds the run later may be another."""
    return str((state.patch or {}).get("by") or state.worker_name or "an unknown worker")


# --- the subject: plan, call, budget, question ----------------------------------------------------


def _subject(review: Review) -> Json:
    subject = review.request.subject
    shown: dict[Gate, Any] = {
        Gate.PLAN: lambda: {"plan": (review.subject.document if review.subject else None) or {}},
        Gate.TOOL_CALL: lambda: {"call": subject, "arguments": _pretty(subject.get("arguments"))},
        Gate.BUDGET: lambda: {"budget": _budget(review)},
        Gate.QUESTION: lambda: {"question": subject},
    }
    return {"kind": review.gate.value, **(shown[review.gate]() if review.gate in shown else {})}


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _budget(review: Review) -> Json:
    limit = review.state.budget.get("max_cost_usd")
    ceiling = review.policy.values["budget_ceiling"].get("max_cost_usd")
    return {
        "spent": money(review.state.used["cost_usd"]),
        "limit": money(limit),
        "value": limit,
        "ceiling": money(ceiling) if ceiling is not None else "",
    }


# --- evidence -------------------------------------------------------------------------------------


def _guard(review: Review, guard: Json, *, is_open: bool) -> Json:
    found = {**guard, "label": guard_label(guard["name"])}
    waivable = is_open and guard["waivable"] and guard["passed"] is not True
    if waivable and may(review.principal, Action.WAIVE, review.request.repository_id):
        href = reverse("approval-waiver", args=[review.request.pk])
        found["waive"] = {"href": href, "version": review.request.version}
    if report := _report(review, guard["name"]):
        found["link"] = {"href": reverse("artifact", args=[report]), "text": "report"}
    return found


def _guards_lead(guards: Sequence[Json]) -> str:
    """What the failing guards mean for whoever decides; "" where all passed."""
    stopping = [guard_label(guard["name"]) for guard in blocking(list(guards))]
    if stopping:
        return f"{_some(stopping)} must pass or be waived before anybody may approve"
    failing = sum(guard["passed"] is not True for guard in guards)
    told = f"{failing} of {len(guards)} did not pass, so a person decides; none of them stops an approval"
    return told if failing else ""


def _report(review: Review, guard: str) -> str:
    """The report behind a guard, while the run still stands on the patch that is shown."""
    reports = {"verification": review.state.verification, "judge": review.state.judgement}
    current = (review.state.patch or {}).get("id") == review.request.subject.get("id")
    found = reports.get(guard) if current else None
    return str(found["id"]) if found else ""


def _decision(decision: Any) -> Json:
    return {
        "by": decision.by.get_username(),
        "said": _SAID[DecisionWord(decision.decision)],
        "comment": decision.comment,
        "override": decision.override,
        "at": decision.at,
    }


def _untrusted(review: Review) -> Json | None:
    text = review.state.output_summary if review.gate is Gate.PATCH else ""
    by = "Written by the agent. Not checked, not part of the evidence."
    return {"by": by, "text": text} if text else None


def _diff(review: Review) -> Json | None:
    if review.gate is not Gate.PATCH or review.subject is None:
        return None
    found: Json = patch_diff(review.subject, risky=review.risky, unplanned=review.unplanned)
    return found


def _newer(review: Review, newer: ApprovalRequest) -> Json:
    """The request that replaced this one, and which files differ between what the two show."""
    before, after = _digests(review.request), _digests(newer)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return {
        "href": reverse("approval", args=[newer.pk]),
        "same_request": newer.pk == review.request.pk,
        "comparable": newer.gate == review.request.gate == Gate.PATCH and newer.pk != review.request.pk,
        "changed": changed[:50],
        "more": max(len(changed) - 50, 0),
    }


def _digests(request: ApprovalRequest) -> dict[str, str]:
    if request.gate != Gate.PATCH:
        return {}
    patch = Artifact.objects.filter(run_id=request.run_id, pk=request.subject["id"]).first()
    files = patch_diff(patch)["files"] if patch else []
    return {file["path"]: file["digest"] for file in files}


# --- verdict --------------------------------------------------------------------------------------


def _verdict(review: Review, error: str, comment: str) -> Json:
    request, rights = review.request, review.entry.rights
    return {
        "href": reverse("approval-decision", args=[request.pk]),
        "version": request.version,
        "subject_sha256": request.subject_sha256,
        "may": {
            "approve": rights.approve,
            "request_changes": rights.request_changes,
            "reject": rights.reject,
        },
        "why_not": rights.why_not,
        "hint": rights.warning,
        "error": error,
        "comment": comment,
        "approve_label": _APPROVE.get(review.gate, ""),
        "request_changes_offered": review.gate in CHANGEABLE,
        "viewed_total": len(review.reading.get("files", ())),
    }


def _some(names: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
