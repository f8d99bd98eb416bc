"""What each event means here and now: where it leads, and the facts that go into it.

One function per event that needs more than the table says. Each checks the artifacts that the
event cites and returns (target status, facts); it raises a ``Refusal`` where the evidence lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from runs.domain import documents as docs
from runs.domain import guards, retry
from runs.domain import meanings_work as work
from runs.domain.commands import Command, Context
from runs.domain.contract import needs_plan_approval
from runs.domain.errors import (
    ApprovalSuperseded,
    GuardFailed,
    IllegalTransition,
    Invalid,
    NotAllowedNow,
)
from runs.domain.facts import Json, stamp
from runs.domain.offers import is_isolated
from runs.domain.state import RunState
from runs.domain.table import allowed_events, cell
from runs.domain.vocabulary import (
    ArtifactKind,
    CompletionMode,
    Directive,
    Ev,
    FailureCategory,
    Gate,
    RunStatus,
)

Meaning = tuple[str, Json]
S = RunStatus


def meaning(state: RunState, command: Command, context: Context) -> Meaning:
    """Target and facts of ``command`` in ``state``."""
    if function := _MEANINGS.get(command.event):
        return function(state, command, context)
    return _only_target(state, command), dict(command.facts)


def _only_target(state: RunState, command: Command) -> str:
    row = cell(command.event, state.run_status)
    if row is None:
        raise _illegal(state, command)
    (target,) = dict.fromkeys(row.targets_from(state.run_status))
    return target.value


def _illegal(state: RunState, command: Command) -> IllegalTransition:
    allowed = [event.value for event in allowed_events(state.run_status)]
    return IllegalTransition(status=state.status, event=command.event, allowed_events=allowed)


# --- preparing and planning ----------------------------------------------------------------------


def _lease_acquired(state: RunState, command: Command, context: Context) -> Meaning:
    return _only_target(state, command), {**command.facts, "fence": state.fence + 1}


def _worker_started(state: RunState, command: Command, context: Context) -> Meaning:
    """A worker that offers less than it claimed with must not begin (``require_isolation``)."""
    offered, required = command.payload.get("isolation") or "none", context.policy["require_isolation"]
    if not is_isolated(offered, required):
        raise docs.claims_otherwise("isolation", offered, f"the repository's policy: {required} at least")
    return _only_target(state, command), {}


def _sandbox_ready(state: RunState, command: Command, context: Context) -> Meaning:
    base = command.payload["base_commit"]
    if state.base_commit and base != state.base_commit:
        raise docs.claims_otherwise("base_commit", base, f"the run stands on {state.base_commit}")
    return _only_target(state, command), {}


def _context_ready(state: RunState, command: Command, context: Context) -> Meaning:
    artifact_id = command.payload.get("context_artifact_id")
    if artifact_id:
        docs.cited(context.artifacts, artifact_id, "context_artifact_id", ArtifactKind.CONTEXT)
    elif not command.payload.get("summary"):
        raise Invalid({"payload.summary": ["give a summary or a context_artifact_id"]})
    return _only_target(state, command), {}


def _plan_created(state: RunState, command: Command, context: Context) -> Meaning:
    artifact_id = command.payload["plan_artifact_id"]
    artifact = docs.cited(context.artifacts, artifact_id, "plan_artifact_id", ArtifactKind.PLAN)
    plan = docs.read_plan(artifact, "plan_artifact_id")
    if artifact.sha256 in state.rejected_plans:
        raise docs.claims_otherwise("plan", "asked to be changed before", "a reviewer; make another plan")
    waits = needs_plan_approval(context.contract, state.effective_risk)
    return (S.PLANNING if waits else S.EXECUTING).value, {"plan": plan, "needs_approval": waits}


# --- results and reports -------------------------------------------------------------------------


def _is_analysis(state: RunState) -> bool:
    return state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED


def _wrong_mode(state: RunState, command: Command) -> IllegalTransition:
    allowed = [event.value for event in allowed_events(state.run_status) if event is not command.event]
    return docs.wrong_mode(command.event, state.status, state.completion_mode, allowed)


def _patch_created(state: RunState, command: Command, context: Context) -> Meaning:
    if _is_analysis(state):
        raise _wrong_mode(state, command)
    artifact_id = command.payload["patch_artifact_id"]
    artifact = docs.cited(context.artifacts, artifact_id, "patch_artifact_id", ArtifactKind.PATCH)
    patch = docs.read_patch_facts(artifact, state.base_commit)
    risk, touched = guards.effective_risk(state.risk_level, artifact.facts, context.policy)
    return S.PATCH_READY.value, {"patch": patch, "effective_risk": risk, "risky_paths": touched[:50]}


def _report_created(state: RunState, command: Command, context: Context) -> Meaning:
    if not _is_analysis(state):
        raise _wrong_mode(state, command)
    artifact_id = command.payload["report_artifact_id"]
    kind = ArtifactKind.ANALYSIS_REPORT
    artifact = docs.cited(context.artifacts, artifact_id, "report_artifact_id", kind)
    return S.JUDGING.value, {"report": artifact.brief()}


def _verification_started(state: RunState, command: Command, context: Context) -> Meaning:
    required = guards.required_verifiers(context.contract, context.policy)
    missing = [name for name in required if name not in command.payload["commands"]]
    if missing:
        raise docs.claims_otherwise("verification", f"without {', '.join(missing)}", "required verifiers")
    return S.VERIFYING.value, {"required": required}


def _verification(state: RunState, command: Command, context: Context) -> tuple[Json, Json]:
    artifact_id = command.payload["verification_report_id"]
    kind = ArtifactKind.VERIFICATION_REPORT
    artifact = docs.cited(context.artifacts, artifact_id, "verification_report_id", kind)
    patch_sha256 = (state.patch or {}).get("sha256", "")
    report = docs.read_verification(artifact, "verification_report_id", patch_sha256=patch_sha256)
    return report, docs.feedback_of(artifact, "verification")


def _verification_passed(state: RunState, command: Command, context: Context) -> Meaning:
    report, _ = _verification(state, command, context)
    good = {c["name"] for c in report["commands"] if docs.passed(c)}
    required = guards.required_verifiers(context.contract, context.policy)
    if bad := [c["name"] for c in report["commands"] if not docs.passed(c)]:
        raise docs.claims_otherwise("verification", f"{', '.join(bad)} failed", f"report {report['id']}")
    if missing := [name for name in required if name not in good]:
        raise docs.claims_otherwise("verification", f"without {', '.join(missing)}", "required verifiers")
    return S.JUDGING.value, {"verification": report}


def _verification_failed(state: RunState, command: Command, context: Context) -> Meaning:
    report, feedback = _verification(state, command, context)
    if all(docs.passed(c) for c in report["commands"]):
        raise docs.claims_otherwise("verification", "every command passed", f"report {report['id']}")
    return S.EXECUTING.value, {"verification": report, "feedback": feedback}


def _judgement(state: RunState, command: Command, context: Context, verdict: str) -> tuple[Json, Json]:
    artifact_id = command.payload["judge_report_id"]
    artifact = docs.cited(context.artifacts, artifact_id, "judge_report_id", ArtifactKind.JUDGE_REPORT)
    subject = state.report if _is_analysis(state) else state.patch
    judged = docs.read_judgement(
        artifact, "judge_report_id", subject_sha256=(subject or {}).get("sha256", "")
    )
    if judged["verdict"] != verdict:
        raise docs.claims_otherwise("judge", f"verdict {judged['verdict']}", f"report {judged['id']}")
    return judged, docs.feedback_of(artifact, "judge")


def _judge_passed(state: RunState, command: Command, context: Context) -> Meaning:
    judged, _ = _judgement(state, command, context, "pass")
    return S.JUDGING.value, {"judgement": judged}


def _judge_requires_fix(state: RunState, command: Command, context: Context) -> Meaning:
    judged, feedback = _judgement(state, command, context, "fix")
    return S.EXECUTING.value, {"judgement": judged, "feedback": feedback}


# --- people ---------------------------------------------------------------------------------------


def _at_gate(state: RunState, command: Command) -> Json:
    """The open gate, if the decision is about what it shows (lifecycle contract, section 16)."""
    gate, payload = state.gate, command.payload
    if gate is None or payload.get("approval_id") != gate["approval_id"]:
        raise ApprovalSuperseded
    if payload.get("version") != gate["version"] or payload.get("subject_sha256") != gate["subject_sha256"]:
        raise ApprovalSuperseded(version=gate["version"], subject_sha256=gate["subject_sha256"])
    return gate


def _approved(state: RunState, command: Command, context: Context) -> Meaning:
    gate = _at_gate(state, command)
    if gate["gate"] == Gate.PATCH:
        if failing := guards.blocking(state.guards):
            message = "A guard forbids approving; waive it by name or ask for changes."
            raise GuardFailed(message, guards=failing)
        return S.PR_CREATING.value, dict(command.facts)
    if gate["gate"] == Gate.BUDGET and work.spent_out(state):
        raise NotAllowedNow("Raise the budget first, or reject.", **work.over_budget(state))
    return (S.EXECUTING.value if gate["gate"] == Gate.PLAN else gate["opened_from"]), dict(command.facts)


def _changes_requested(state: RunState, command: Command, context: Context) -> Meaning:
    gate = _at_gate(state, command)
    if gate["gate"] not in (Gate.PLAN, Gate.PATCH):
        raise NotAllowedNow(f"Changes cannot be requested at a {gate['gate']} gate.")
    to = S.PLANNING if gate["gate"] == Gate.PLAN else S.EXECUTING
    return to.value, dict(command.facts)


def _rejected(state: RunState, command: Command, context: Context) -> Meaning:
    gate = _at_gate(state, command)
    if gate["gate"] in (Gate.TOOL_CALL, Gate.QUESTION):
        return gate["opened_from"], dict(command.facts)
    over = gate["gate"] == Gate.BUDGET
    category = FailureCategory.BUDGET_EXCEEDED if over else FailureCategory.REVIEW_REJECTED
    failure = {
        "category": category.value,
        "reason": f"{gate['gate']}_rejected",
        "summary": command.payload.get("comment") or "Rejected.",
        "retryable": False,
        "evidence_artifact_id": "",
    }
    return S.FAILED.value, {**command.facts, "failure": failure}


def _run_cancelled(state: RunState, command: Command, context: Context) -> Meaning:
    asked = state.directive in (Directive.CANCEL, Directive.WIND_DOWN)
    if command.caller.is_machine and not asked:
        raise NotAllowedNow("Nobody asked for this run to be cancelled.")
    return S.CANCELLED.value, {"reason": (state.directive_info or {}).get("reason", ""), **command.facts}


def _run_interrupted(state: RunState, command: Command, context: Context) -> Meaning:
    if state.directive != Directive.PAUSE:
        raise NotAllowedNow("Nobody asked for this run to be paused; release the lease instead.")
    if artifact_id := command.payload.get("checkpoint_artifact_id"):
        kinds = (ArtifactKind.CHECKPOINT, ArtifactKind.PATCH)
        checkpoint = docs.cited(context.artifacts, artifact_id, "checkpoint_artifact_id", *kinds)
        return _only_target(state, command), {"checkpoint": checkpoint.brief()}
    return _only_target(state, command), {}


def _of_a_lease(state: RunState, command: Command, context: Context) -> Meaning:
    """What is said of a lease needs one: whoever came second must not count it twice."""
    if state.holder is None:
        raise NotAllowedNow("Nobody holds this run.", status=state.status)
    return _only_target(state, command), dict(command.facts)


# --- failures -------------------------------------------------------------------------------------


def _failure(state: RunState, command: Command, context: Context) -> Meaning:
    failure = dict(command.payload["failure"])
    rule = retry.find_rule(state.status, failure["category"], failure["reason"])
    # A worker may say "final"; it can never make retryable what the matrix calls final.
    may_retry = rule is not None and rule.action in (retry.NEW_RUN, retry.BLOCK)
    failure["retryable"] = may_retry and failure.get("retryable") is not False
    return S.FAILED.value, {"failure": failure}


def _pr_created(state: RunState, command: Command, context: Context) -> Meaning:
    """What stands in the branch must be the tree that the guards and the reviewer saw."""
    seen, pushed = (state.patch or {}).get("tree"), command.payload["tree_sha"]
    if seen and pushed != seen:
        raise docs.claims_otherwise("tree", pushed, f"the patch makes {seen}")
    return _only_target(state, command), {}


def _pr_creation_failed(state: RunState, command: Command, context: Context) -> Meaning:
    wait = retry.backoff_seconds(state.pr_failures, context.policy, context.dice)
    return _only_target(state, command), {"not_before": stamp(context.now + timedelta(seconds=wait))}


def _timeout(state: RunState, command: Command, context: Context) -> Meaning:
    scope = command.payload["scope"]
    if scope != "run":
        return S.EXPIRED.value, {}
    failure = {
        "category": FailureCategory.BUDGET_EXCEEDED.value,
        "reason": "run_timeout",
        "summary": f"The run worked for more than {command.payload['limit_seconds']} s.",
        "retryable": False,
        "evidence_artifact_id": "",
    }
    return S.FAILED.value, {"failure": failure}


_MEANINGS: Final[dict[Ev, Callable[[RunState, Command, Context], Meaning]]] = {
    Ev.LEASE_ACQUIRED: _lease_acquired,
    Ev.LEASE_RELEASED: _of_a_lease,
    Ev.LEASE_LOST: _of_a_lease,
    Ev.DIRECTIVE_SEEN: _of_a_lease,
    Ev.WORKER_STARTED: _worker_started,
    Ev.SANDBOX_READY: _sandbox_ready,
    Ev.CONTEXT_READY: _context_ready,
    Ev.PLAN_CREATED: _plan_created,
    Ev.PATCH_CREATED: _patch_created,
    Ev.REPORT_CREATED: _report_created,
    Ev.VERIFICATION_STARTED: _verification_started,
    Ev.VERIFICATION_PASSED: _verification_passed,
    Ev.VERIFICATION_FAILED_RETRYABLE: _verification_failed,
    Ev.JUDGE_PASSED: _judge_passed,
    Ev.JUDGE_REQUIRES_FIX: _judge_requires_fix,
    Ev.MODEL_DECISION: work.model_decision,
    Ev.TOOL_REQUESTED: work.tool_requested,
    Ev.TOOL_COMPLETED: work.tool_completed,
    Ev.CHECKPOINT_SAVED: work.checkpoint_saved,
    Ev.APPROVED: _approved,
    Ev.CHANGES_REQUESTED: _changes_requested,
    Ev.REJECTED: _rejected,
    Ev.RUN_CANCELLED: _run_cancelled,
    Ev.RUN_INTERRUPTED: _run_interrupted,
    Ev.NON_RETRYABLE_FAILURE: _failure,
    Ev.PR_CREATED: _pr_created,
    Ev.PR_CREATION_FAILED: _pr_creation_failed,
    Ev.TIMEOUT: _timeout,
}
