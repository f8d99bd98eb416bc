"""What the control plane itself decides right after an event, in the same transaction
(lifecycle contract, section 4.2 "Follow-ups"). A pure function of the run and the event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from runs.domain import guards
from runs.domain.commands import Context, Draft, NextRun
from runs.domain.contract import timeout_seconds
from runs.domain.documents import RED_BASE, red_before
from runs.domain.endings import after_the_end, deny, fail, failure_of
from runs.domain.facts import Event, Json, fingerprint, stamp
from runs.domain.log_limits import must_wind_down, why
from runs.domain.meanings_work import calls_for_approval, over_budget, spent_out
from runs.domain.state import RunState
from runs.domain.table import cell
from runs.domain.vocabulary import (
    TERMINAL,
    CompletionMode,
    Directive,
    Ev,
    FailureCategory,
    Gate,
    Risk,
    Role,
    RunStatus,
)

S, F = RunStatus, FailureCategory
Follow = Iterator[Draft | NextRun]
MAX_PR_FAILURES: Final = 5

#: Statuses with nothing to hand in yet: a wind-down without a lease ends them at once.
_NOTHING_TO_HAND_IN: Final = frozenset(
    {S.CREATED, S.QUEUED, S.LEASED, S.PREPARING, S.CONTEXT_BUILDING, S.PLANNING, S.EXECUTING}
)


def follow_ups(state: RunState, event: Event, context: Context) -> Follow:
    """Drafts that follow ``event``; ``state`` already holds it. Consumed one by one as state moves on."""
    if _stops_here(state):
        yield _cancel(state, cleanup="unknown" if state.worker_id else "done")
    elif function := _FOLLOWERS.get(event.type):
        yield from function(state, event, context)
    if event.parent == 0 and must_wind_down(state, context.log_limits):
        reason = {"reason": why(state, context.log_limits)}
        yield Draft(Ev.WIND_DOWN_REQUESTED, state.status, reason, Role.POLICY)
    # Of the event that ends the run, not of the one whose follow-up it is: one end, one decision.
    if event.to_status in TERMINAL and event.from_status not in TERMINAL:
        yield from after_the_end(state, event, context)


def _stops_here(state: RunState) -> bool:
    """Whether a stop was asked for and there is nobody to wait for (lifecycle contract, section 9)."""
    if state.holder is not None or state.is_terminal:
        return False
    if state.directive == Directive.CANCEL:  # a pull request may exist already: ask the provider first
        return state.status != S.PR_CREATED and not (state.status == S.PR_CREATING and state.pr_begun)
    if state.directive != Directive.WIND_DOWN:
        return False
    # At a gate before the patch, any answer would lead on to new work.
    stands = (state.gate or {}).get("opened_from") if state.status == S.WAITING_FOR_APPROVAL else state.status
    return stands in _NOTHING_TO_HAND_IN


# --- plans, attempts ------------------------------------------------------------------------------


def _after_plan(state: RunState, event: Event, context: Context) -> Follow:
    if event.to_status == S.PLANNING:
        plan = state.plan or {}
        subject = {"kind": "plan", "id": plan["id"], "sha256": plan["sha256"]}
        yield open_gate(state, context, Gate.PLAN, plan["sha256"], subject)
    else:
        yield start_attempt(state, "as planned")


def _after_approval(state: RunState, event: Event, context: Context) -> Follow:
    if event.to_status == S.EXECUTING and state.attempt is None:
        yield start_attempt(state, "as planned")


def _after_changes_requested(state: RunState, event: Event, context: Context) -> Follow:
    if event.to_status == S.EXECUTING and state.attempt is None:
        yield start_attempt(state, f"follows instruction {state.instruction_no}")


def start_attempt(state: RunState, strategy: str) -> Draft:
    """The next attempt, where the run stands."""
    payload = {"number": state.attempts_started + 1, "strategy": strategy}
    return Draft(Ev.ATTEMPT_STARTED, state.status, payload, Role.CONTROL_PLANE)


def _finish_attempt(
    state: RunState, outcome: str, failure: Json | None = None, facts: Json | None = None
) -> Draft:
    payload: Json = {"outcome": outcome}
    if failure:
        payload["failure"] = failure
    return Draft(Ev.ATTEMPT_FINISHED, state.status, payload, Role.CONTROL_PLANE, facts or {})


def _after_attempt(state: RunState, event: Event, context: Context) -> Follow:
    """One that came to nothing is followed by one from a clean checkout while the budget has any."""
    if event.payload["outcome"] == "succeeded" or state.is_terminal:
        return
    ended = state.attempts_failed + state.attempts_aborted
    if state.directive in (Directive.WIND_DOWN, Directive.CANCEL):
        yield _cancel(state, cleanup="unknown")
    elif ended >= int(state.budget.get("max_attempts", 2)):
        yield fail(state, event.payload["failure"])
    else:
        patched = state.status != S.EXECUTING
        yield start_attempt(state, "goes on with the patch" if patched else "clean checkout")
        if event.facts.get("withdraw") and state.holder:
            reason = event.payload["failure"]["summary"]
            facts = {"withdrawn": True}
            yield Draft(Ev.LEASE_RELEASED, state.status, {"reason": reason}, Role.CONTROL_PLANE, facts)


# --- checks and judgement -------------------------------------------------------------------------


def _after_checks(state: RunState, event: Event, context: Context) -> Follow:
    """Checks that fail on the untouched base too: by policy the end, a question, or work as usual."""
    red, rule = red_before(state.verification), context.policy["on_red_base"]
    if red and rule == "fail":
        summary = f"{', '.join(red)} failed on the untouched base; the policy's on_red_base is fail."
        failure = {**failure_of(F.VERIFICATION_FAILED, RED_BASE, summary), "retryable": False}
        yield fail(state, failure)
    elif event.type == Ev.VERIFICATION_PASSED:
        return
    elif red and rule == "ask" and not state.red_base_asked and state.directive != Directive.WIND_DOWN:
        yield _ask_about_red_base(state, context, red)
    else:
        yield from _after_repair(state, event, context)


def _ask_about_red_base(state: RunState, context: Context, red: list[str]) -> Draft:
    """Once in a run: the answer is the agent's next feedback; the report stays where it is."""
    question = f"{', '.join(red)} failed before anything was changed, and with the patch. What should happen?"
    choices = ["Mend what was broken before, too", "Leave what was broken before as it is"]
    subject = {"kind": "question", "about": RED_BASE, "question": question, "choices": choices}
    return open_gate(state, context, Gate.QUESTION, fingerprint(subject), subject)


def _after_repair(state: RunState, event: Event, context: Context) -> Follow:
    """Back in EXECUTING with feedback: repair, else a new attempt, else the end."""
    if state.directive == Directive.WIND_DOWN:
        yield _cancel(state, cleanup="unknown")
        return
    if state.attempt is None:  # it ended while the patch was looked at
        yield start_attempt(state, "with the feedback")
        return
    repairs = state.attempt["repairs"]
    limit = int(state.budget.get("max_repairs", 2))
    if repairs > limit:
        judged = event.type == Ev.JUDGE_REQUIRES_FIX
        category = F.JUDGE_REJECTED if judged else F.VERIFICATION_FAILED
        reason = "judge_not_satisfied" if judged else "checks_failed"
        summary = f"Still failing after {limit} repairs."
        yield _finish_attempt(state, "failed", failure_of(category, reason, summary))


def _after_judge(state: RunState, event: Event, context: Context) -> Follow:
    if state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED:
        yield from _complete(state, "The report was judged and is ready.")
        return
    yield _evaluated(state, context)
    failing = {guard["name"] for guard in state.guards if guard["passed"] is not True}
    if state.completion_mode == CompletionMode.PATCH_READY_FOR_REVIEW:
        if "secret_scan" in failing:
            yield deny(state, "secret_found", "The patch adds something that looks like a secret.")
        else:
            yield from _complete(state, "The patch was judged and is ready for download.")
    elif Risk(state.effective_risk).rank > Risk(context.policy["risk_ceiling"]).rank:
        ceiling = context.policy["risk_ceiling"]
        yield deny(state, "risk_ceiling", f"Risk {state.effective_risk} is above the ceiling of {ceiling}.")
    else:
        yield _finish_attempt(state, "succeeded")
        yield _pr_or_person(state, context, failing)


def _evaluated(state: RunState, context: Context) -> Draft:
    patch = context.artifacts.get((state.patch or {}).get("id", ""))
    reading = patch.facts if patch else None
    evidence = guards.Evidence(state, context.contract, context.policy, reading)
    risk, touched = guards.effective_risk(state.risk_level, reading, context.policy)
    facts = {
        "guards": [result.to_json() for result in guards.evaluate(evidence)],
        "effective_risk": risk,
        "risky_paths": touched[:50],
        "policy_version": context.policy_version,
    }
    return Draft(Ev.POLICY_EVALUATED, state.status, {}, Role.POLICY, facts)


def _pr_or_person(state: RunState, context: Context, failing: set[str]) -> Draft:
    if not failing:
        return Draft(Ev.AUTO_PR_ALLOWED, S.PR_CREATING, {}, Role.POLICY, {"guards": state.guards})
    patch = state.patch or {}
    names = ("id", "sha256")
    subject = {"kind": "patch", **{n: patch[n] for n in names}, "failing": sorted(failing)}
    return open_gate(state, context, Gate.PATCH, patch["sha256"], subject)


def open_gate(
    state: RunState, context: Context, gate: Gate, digest: str, subject: Json, **more: str
) -> Draft:
    """``human_approval_required``: names the gate, the request and the digest of what is shown."""
    quorum = context.policy["approvals"].get(state.effective_risk, 1)
    wait = timeout_seconds("approval", context.contract, context.policy)
    payload: Json = {"gate": gate.value, "approval_id": context.new_id("apr"), **more}
    facts = {
        "subject_sha256": digest,
        "subject": subject,
        "guards": state.guards if gate is Gate.PATCH else [],
        "needed": quorum if gate in (Gate.PLAN, Gate.PATCH) else 1,
        "due_at": stamp(context.now + timedelta(seconds=wait)),
        "on_timeout": context.policy["on_approval_timeout"],
        "effective_risk": state.effective_risk,
    }
    return Draft(Ev.HUMAN_APPROVAL_REQUIRED, S.WAITING_FOR_APPROVAL, payload, Role.POLICY, facts)


def _complete(state: RunState, why: str) -> Follow:
    if state.attempt:
        yield _finish_attempt(state, "succeeded")
    verdict = {"mode": state.completion_mode, "reason": why}
    yield Draft(Ev.COMPLETION_CONDITION_MET, S.SUCCEEDED, {}, Role.CONTROL_PLANE, {"verdict": verdict})


# --- pull request ---------------------------------------------------------------------------------


def _after_auto_pr(state: RunState, event: Event, context: Context) -> Follow:
    """Who judged may hold the git integration's role, too: a hold takes the run from them here."""
    if state.holder is not None and (why := context.held()):
        yield Draft(Ev.LEASE_RELEASED, state.status, {"reason": why}, Role.CONTROL_PLANE)


def _after_pr(state: RunState, event: Event, context: Context) -> Follow:
    yield from _complete(state, f"Branch {event.payload['branch']} is open.")


def _after_pr_failure(state: RunState, event: Event, context: Context) -> Follow:
    if state.pr_failures >= MAX_PR_FAILURES:
        failure = {**event.payload["failure"], "category": F.PR_CREATION_FAILED.value, "retryable": False}
        yield fail(state, failure)


# --- steps, money ---------------------------------------------------------------------------------


def _after_tool_request(state: RunState, event: Event, context: Context) -> Follow:
    payload, attempt = event.payload, state.attempt or {}
    call = {"tool": payload["tool"], "arguments": payload["arguments"]}
    same = fingerprint([payload["tool"], payload["arguments"]])[:16]
    repeats = attempt.get("repeats", {}).get(same, 0)
    if repeats > int(state.budget.get("max_repeats", 3)) and state.status == S.EXECUTING:
        summary = f"{payload['tool']} was asked for {repeats} times with the same arguments."
        skipped = {"operation_id": payload["operation_id"], "outcome": "skipped", "summary": summary}
        yield Draft(Ev.TOOL_COMPLETED, state.status, skipped, Role.SCHEDULER)
        yield _finish_attempt(state, "failed", failure_of(F.TOOL_FAILED, "repeated_strategy", summary))
        return
    if calls_for_approval(payload, context):
        operation_id = payload["operation_id"]
        subject = {"kind": "tool_call", "operation_id": operation_id, **call}
        digest = fingerprint(call)
        yield open_gate(state, context, Gate.TOOL_CALL, digest, subject, operation_id=operation_id)


def _after_question(state: RunState, event: Event, context: Context) -> Follow:
    names = ("question", "choices")
    subject = {"kind": "question", **{name: event.payload.get(name) for name in names}}
    yield open_gate(state, context, Gate.QUESTION, fingerprint(subject), subject)


def _after_spending(state: RunState, event: Event, context: Context) -> Follow:
    """Money already spent is recorded; the report that reaches a limit is followed by the consequence."""
    if state.directive == Directive.CANCEL:  # it ends as cancelled, whatever it cost
        return
    if event.payload.get("cost_usd") is not None and spent_out(state):
        may_ask = cell(Ev.HUMAN_APPROVAL_REQUIRED, state.run_status) is not None
        if context.policy["on_budget_exceeded"] == "ask" and may_ask:
            subject = {"kind": "budget", **over_budget(state)}
            yield open_gate(state, context, Gate.BUDGET, fingerprint(subject), subject)
        else:
            limit = state.budget["max_cost_usd"]
            summary = f"${state.used['cost_usd']} of ${limit} are spent."
            yield fail(state, failure_of(F.BUDGET_EXCEEDED, "max_cost_usd", summary))
        return
    if event.type == Ev.MODEL_DECISION and event.payload["decision"] == "tool":
        yield from _after_last_step(state)


def _after_last_step(state: RunState) -> Follow:
    """The last step ends the attempt; before there is one, as in planning, it ends the run."""
    limit = int(state.budget.get("max_steps", 100))
    if state.attempt and state.attempt["steps"] >= limit:
        summary = f"The attempt used its {limit} steps."
        yield _finish_attempt(state, "failed", failure_of(F.BUDGET_EXCEEDED, "max_steps", summary))
    elif state.attempts_started == 0 and state.used["steps"] >= limit:
        summary = f"All {limit} steps went by before there was a plan."
        yield fail(state, failure_of(F.BUDGET_EXCEEDED, "max_steps", summary))


# --- leases, directives ---------------------------------------------------------------------------


def _after_lease_end(state: RunState, event: Event, context: Context) -> Follow:
    """The worker is gone: expired beyond the takeovers, else claimable."""
    if event.type == Ev.LEASE_LOST and state.status == S.LEASED:
        yield _expire("lease", event)
    elif state.used["takeovers"] > int(state.budget.get("max_takeovers", 2)) and not state.pr_begun:
        yield _expire("heartbeat", event)
    elif state.status == S.EXECUTING and state.attempt and state.lost and state.checkpoint is None:
        # The workspace died with its sandbox and nothing was saved: there is nothing to go on from.
        failure = failure_of(F.INFRASTRUCTURE, "workspace_lost", "Worker lost.")
        # A worker that died is counted as a takeover; one that gives back what it had, as an attempt.
        facts = {"lease_lost": True} if event.type == Ev.LEASE_LOST else {}
        yield _finish_attempt(state, "aborted", failure, facts)


def _expire(scope: str, event: Event) -> Draft:
    payload = {
        "scope": scope,
        "limit_seconds": event.payload.get("limit_seconds"),
        "since": event.payload.get("since"),
    }
    return Draft(Ev.TIMEOUT, S.EXPIRED, payload, Role.SCHEDULER)


def _cancel(state: RunState, *, cleanup: str) -> Draft:
    reason = (state.directive_info or {}).get("reason", "")
    return Draft(Ev.RUN_CANCELLED, S.CANCELLED, {"cleanup": cleanup}, Role.CONTROL_PLANE, {"reason": reason})


_FOLLOWERS: Final[dict[str, Callable[[RunState, Event, Context], Follow]]] = {
    Ev.PLAN_CREATED: _after_plan,
    Ev.APPROVED: _after_approval,
    Ev.CHANGES_REQUESTED: _after_changes_requested,
    Ev.ATTEMPT_FINISHED: _after_attempt,
    Ev.VERIFICATION_PASSED: _after_checks,
    Ev.VERIFICATION_FAILED_RETRYABLE: _after_checks,
    Ev.JUDGE_REQUIRES_FIX: _after_repair,
    Ev.JUDGE_PASSED: _after_judge,
    Ev.AUTO_PR_ALLOWED: _after_auto_pr,
    Ev.PR_CREATED: _after_pr,
    Ev.PR_CREATION_FAILED: _after_pr_failure,
    Ev.TOOL_REQUESTED: _after_tool_request,
    Ev.QUESTION_ASKED: _after_question,
    Ev.MODEL_DECISION: _after_spending,
    Ev.TOOL_COMPLETED: _after_spending,
    Ev.LEASE_LOST: _after_lease_end,
    Ev.LEASE_RELEASED: _after_lease_end,
    Ev.RUN_INTERRUPTED: _after_lease_end,
}
