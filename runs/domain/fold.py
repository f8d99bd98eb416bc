"""Events → state: the only code that says what an event changes (lifecycle contract, 4.3 rule 5).

The store calls ``evolve`` for each new event and ``rebuild_runs`` calls it for each old one, so
rows and a fold of the log are equal by construction. State holds JSON only, so that it can be
compared, stored and shipped as it is. What a newer version wrote, types or shapes, changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from runs.domain import fold_leases as leases
from runs.domain import fold_work as work
from runs.domain.documents import RED_BASE
from runs.domain.facts import Event, Json, canonical
from runs.domain.state import Changes, RunState
from runs.domain.versions import is_of_the_future, upcast
from runs.domain.vocabulary import AttemptState, Directive, Ev, Gate, RunStatus, StepState


def fold(events: Iterable[Event]) -> tuple[RunState, Changes]:
    """The state, attempts and steps that these events (in sequence, from the first) add up to."""
    state, changes = RunState(), Changes()
    for event in events:
        changes.update(evolve(state, event))
    return state, changes


def evolve(state: RunState, event: Event) -> Changes:
    """Apply one event to ``state`` in place; returns what it changes in attempts and steps."""
    payload, facts = upcast(event.type, event.schema_version, event.payload, event.facts)
    changes = Changes()
    before = state.status
    state.sequence = event.sequence
    state.log_bytes += len(canonical(event.payload)) + len(canonical(event.facts))
    state.updated_at = event.recorded_at
    if state.holder and event.actor.id == state.holder["worker_id"] and event.type not in leases.ENDING:
        state.progress_at = event.recorded_at
        state.holder["progressed"] = True
    handler = _HANDLERS.get(event.type)
    if handler and not is_of_the_future(event.type, event.schema_version):
        handler(state, event, payload, facts, changes)
    state.status = event.to_status
    if before != state.status:
        _entered(state, event, before)
    leases.end_if_due(state, event)
    if state.is_terminal and before != state.status:
        _ended(state, event, changes)
    return changes


# --- entering a status -------------------------------------------------------------------------


def _entered(state: RunState, event: Event, before: str) -> None:
    state.status_since = state.idle_since = event.recorded_at
    if before == RunStatus.WAITING_FOR_APPROVAL:
        state.gate = None
    if state.status == RunStatus.QUEUED:
        state.queued_at = event.recorded_at


Handler = Callable[[RunState, Event, Json, Json, Changes], None]


def _ended(state: RunState, event: Event, changes: Changes) -> None:
    state.completed_at = event.recorded_at
    state.not_before = ""
    if state.attempt:
        ends = {RunStatus.SUCCEEDED: AttemptState.SUCCEEDED, RunStatus.FAILED: AttemptState.FAILED}
        work.close_attempt(state, event, ends.get(state.run_status, AttemptState.ABORTED), changes)
    for operation_id in state.pending:
        changes.step(operation_id, state=StepState.SKIPPED.value, finished_at=event.recorded_at)
    state.pending = {}


# --- one function per kind of event ------------------------------------------------------------


def _run_created(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.id = event.run_id
    for name in ("task_id", "repository_id", "attempt_no", "completion_mode", "risk_level"):
        setattr(state, name, payload[name])
    state.priority = payload.get("priority", 5)
    state.instruction_no = payload.get("instruction_no", 1)
    state.hints = list(payload.get("hints", ()))
    state.budget = dict(payload.get("budget", {}))
    state.raised = dict(payload.get("raised", {}))
    state.effective_risk = state.risk_level
    state.policy_version = facts.get("policy_version", "")
    state.created_at = event.recorded_at
    if payload.get("feedback"):
        state.feedback = payload["feedback"]


def _run_enqueued(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.not_before = payload.get("not_before") or ""


def _worker_started(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.worker_version = payload["worker_version"]
    state.isolation = payload.get("isolation") or "none"


def _sandbox_ready(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.sandbox_id = payload["sandbox_id"]
    state.base_commit = payload["base_commit"]


def _plan_created(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.plan = {**facts["plan"], "approved": event.to_status == RunStatus.EXECUTING}


def _patch_created(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.patch = {**facts["patch"], "by": event.actor.name}
    state.effective_risk = facts.get("effective_risk") or state.effective_risk
    state.output_summary = payload.get("summary") or ""
    state.verification = state.judgement = None
    state.guards, state.waivers = [], {}
    work.save_checkpoint(state, {**facts["patch"], "base_commit": state.base_commit})


def _report_created(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.report = dict(facts["report"])
    state.output_summary = payload.get("summary") or ""
    state.judgement = None
    work.save_checkpoint(state, {**facts["report"], "base_commit": state.base_commit})


def _verified(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.verification = dict(facts["verification"])
    if event.type == Ev.VERIFICATION_FAILED_RETRYABLE:
        _repair(state, facts, changes)


def _judged(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.judgement = dict(facts["judgement"])
    if event.type == Ev.JUDGE_REQUIRES_FIX:
        _repair(state, facts, changes)


def _repair(state: RunState, facts: Json, changes: Changes) -> None:
    state.feedback = facts.get("feedback")
    state.used["repairs"] += 1
    if state.attempt:
        state.attempt["repairs"] += 1
        changes.attempt(state.attempt["number"], used=work.attempt_used(state.attempt))


def _policy_evaluated(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.guards = facts["guards"]
    state.effective_risk = facts["effective_risk"]
    state.policy_version = facts["policy_version"]
    if state.gate and facts.get("escalated"):  # it waits on, and says so: no setting decides by itself
        state.gate |= {"escalated": True, "due_at": ""}
    elif state.gate:  # what the reviewer was shown is not what holds now
        state.gate["version"] += 1


def _gate_opened(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.gate = {
        "gate": payload["gate"],
        "approval_id": payload["approval_id"],
        "opened_from": event.from_status,
        "subject_sha256": facts["subject_sha256"],
        "operation_id": payload.get("operation_id", ""),
        "opened_at": event.recorded_at,
        "due_at": facts.get("due_at", ""),
        "on_timeout": facts.get("on_timeout", ""),
        "needed": facts.get("needed", 1),
        "version": 1,
    }
    state.red_base_asked |= (facts.get("subject") or {}).get("about") == RED_BASE


def _approved(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    gate = state.gate or {}
    if gate.get("gate") == Gate.PLAN and state.plan:
        state.plan["approved"] = True
    if gate.get("gate") == Gate.QUESTION:
        state.feedback = {"source": "answer", "text": payload.get("comment", ""), "artifact_id": ""}
    if gate.get("gate") == Gate.TOOL_CALL and (call := state.pending.get(gate["operation_id"])):
        call["approved"] = True
        if (arguments := payload.get("arguments")) is not None:
            call["arguments"] = arguments
            changes.step(gate["operation_id"], arguments=arguments)


def _changes_requested(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    if (state.gate or {}).get("gate") == Gate.PLAN and state.plan:
        state.rejected_plans.append(state.plan["sha256"])
        state.plan = None
    state.instruction_no = facts.get("instruction_no", state.instruction_no)
    state.feedback = {"source": "review", "text": payload.get("comment", ""), "artifact_id": ""}


def _rejected(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    gate = state.gate or {}
    if event.to_status == RunStatus.FAILED:
        state.failure = facts["failure"]
    elif gate.get("gate") == Gate.TOOL_CALL and gate["operation_id"] in state.pending:
        state.pending.pop(gate["operation_id"])
        changes.step(
            gate["operation_id"],
            state=StepState.SKIPPED.value,
            summary=payload.get("comment", ""),
            finished_at=event.recorded_at,
        )
    else:
        state.feedback = {"source": "answer", "text": "no answer", "artifact_id": ""}


def _pr_created(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    names = ("provider", "url", "branch", "commit_sha", "tree_sha", "number")
    state.pull_request = {name: payload.get(name) for name in names}


def _pr_creation_failed(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.pr_failures += 1
    state.not_before = facts.get("not_before", "")


def _completed(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.verdict = facts.get("verdict")


def _directive(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    wanted = {
        Ev.CANCEL_REQUESTED: Directive.CANCEL,
        Ev.PAUSE_REQUESTED: Directive.PAUSE,
        Ev.WIND_DOWN_REQUESTED: Directive.WIND_DOWN,
        Ev.RUN_RESUMED: Directive.CONTINUE,
    }[Ev(event.type)]
    state.directive = wanted.value
    state.directive_info = None
    if wanted is Directive.CONTINUE:
        state.idle_since = event.recorded_at
    if wanted is not Directive.CONTINUE:
        reason = payload.get("reason") or ""
        state.directive_info = {
            "reason": reason,
            "by": event.actor.name,
            "at": event.recorded_at,
            "seen_at": "",
        }


def _directive_seen(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    if state.directive_info:
        state.directive_info["seen_at"] = event.recorded_at


def _cancelled(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.cancel_reason = facts.get("reason") or (state.directive_info or {}).get("reason", "")
    _cleaned_up(state, event, payload)


def _cleaned_up(state: RunState, event: Event, payload: Json) -> None:
    names = ("cleanup", "process_group_gone", "artifacts_saved")
    state.cleanup = {**{name: payload.get(name) for name in names}, "at": event.recorded_at}


def _cleanup_reported(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    _cleaned_up(state, event, payload)


def _failed(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.failure = facts.get("failure") or payload["failure"]


def _timeout(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    if event.to_status == RunStatus.FAILED:
        state.failure = facts["failure"]
    else:
        state.expiration = {name: payload.get(name) for name in ("scope", "limit_seconds", "since")}
        state.expiration["reason"] = f"{payload['scope']}_timeout"


def _question_asked(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.feedback = None


def _instruction_added(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.instruction_no = facts["instruction_no"]


def _priority_changed(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.priority = payload["priority"]
    if payload.get("start_now"):
        state.not_before = ""


def _budget_raised(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.budget.update(facts["budget"])
    state.raised.update({name: limit for name, limit in facts["budget"].items() if name != "max_cost_usd"})


def _guard_waived(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    waiver = {"by": event.actor.name, "reason": payload["reason"], "at": event.recorded_at}
    state.waivers[payload["guard"]] = waiver
    state.guards = facts["guards"]
    if state.gate:
        state.gate["version"] = facts["version"]
        state.gate["subject_sha256"] = facts["subject_sha256"]


def _retry(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.retry = {"decision": event.type, **facts}


_HANDLERS: Final[dict[str, Handler]] = {
    Ev.RUN_CREATED: _run_created,
    Ev.RUN_ENQUEUED: _run_enqueued,
    Ev.LEASE_ACQUIRED: leases.acquired,
    Ev.LEASE_RELEASED: leases.ended,
    Ev.LEASE_LOST: leases.ended,
    Ev.RUN_INTERRUPTED: leases.interrupted,
    Ev.WORKER_STARTED: _worker_started,
    Ev.SANDBOX_READY: _sandbox_ready,
    Ev.PLAN_CREATED: _plan_created,
    Ev.PATCH_CREATED: _patch_created,
    Ev.REPORT_CREATED: _report_created,
    Ev.VERIFICATION_PASSED: _verified,
    Ev.VERIFICATION_FAILED_RETRYABLE: _verified,
    Ev.JUDGE_PASSED: _judged,
    Ev.JUDGE_REQUIRES_FIX: _judged,
    Ev.POLICY_EVALUATED: _policy_evaluated,
    Ev.HUMAN_APPROVAL_REQUIRED: _gate_opened,
    Ev.APPROVED: _approved,
    Ev.CHANGES_REQUESTED: _changes_requested,
    Ev.REJECTED: _rejected,
    Ev.PR_CREATED: _pr_created,
    Ev.PR_CREATION_FAILED: _pr_creation_failed,
    Ev.COMPLETION_CONDITION_MET: _completed,
    Ev.CANCEL_REQUESTED: _directive,
    Ev.PAUSE_REQUESTED: _directive,
    Ev.WIND_DOWN_REQUESTED: _directive,
    Ev.RUN_RESUMED: _directive,
    Ev.DIRECTIVE_SEEN: _directive_seen,
    Ev.RUN_CANCELLED: _cancelled,
    Ev.CLEANUP_REPORTED: _cleanup_reported,
    Ev.NON_RETRYABLE_FAILURE: _failed,
    Ev.TIMEOUT: _timeout,
    Ev.ATTEMPT_STARTED: work.attempt_started,
    Ev.ATTEMPT_FINISHED: work.attempt_finished,
    Ev.MODEL_DECISION: work.model_decision,
    Ev.TOOL_REQUESTED: work.tool_requested,
    Ev.TOOL_COMPLETED: work.tool_completed,
    Ev.CHECKPOINT_SAVED: work.checkpoint_saved,
    Ev.QUESTION_ASKED: _question_asked,
    Ev.INSTRUCTION_ADDED: _instruction_added,
    Ev.PRIORITY_CHANGED: _priority_changed,
    Ev.BUDGET_RAISED: _budget_raised,
    Ev.GUARD_WAIVED: _guard_waived,
    Ev.RETRY_SCHEDULED: _retry,
    Ev.RETRY_DECLINED: _retry,
}
