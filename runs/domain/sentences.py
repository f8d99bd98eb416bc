"""One event as one sentence for people; the timeline folds them (lifecycle contract, section 15).

Each teller takes the event and returns a ``Said``, or None where the event says nothing by itself
because it is part of a stretch of work or of what follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from runs.domain.documents import passed
from runs.domain.facts import Event, Json
from runs.domain.guards import LABELS
from runs.domain.said import DETAIL, KEY, NORMAL, Said, failure_words, listed, plural, short
from runs.domain.vocabulary import Ev, Gate, RunStatus


def tell(event: Event) -> Said | None:
    """What happened, in words; None for parts of a stretch of work and for unknown types."""
    teller = _TELLERS.get(event.type)
    return teller(event) if teller else None


# --- starting ------------------------------------------------------------------------------------


def _created(event: Event) -> Said:
    number = event.payload.get("attempt_no", 1)
    hints = "; ".join(event.payload.get("hints") or ())
    instruction = event.payload.get("instruction_no", 1)
    detail = hints or (f"for instruction {instruction}" if instruction > 1 else "")
    return Said(f"Run {number} made", detail=detail)


def _leased(event: Event) -> Said:
    role = event.actor.type.replace("_", " ")
    again = event.from_status != RunStatus.QUEUED
    verb = "goes on" if again else "took the run"
    return Said(
        f"Worker {event.actor.name} {verb}",
        detail=f"as {role}, fence {event.fence}",
        importance=DETAIL if again else NORMAL,
    )


def _released(event: Event) -> Said:
    reason = event.payload.get("reason") or ""
    return Said(f"Worker {event.actor.name} gave the run back", detail=reason, importance=DETAIL)


def _lost(event: Event) -> Said:
    return Said("The worker was lost; the next one goes on from here", "warn", "warning", KEY)


def _worker_started(event: Event) -> Said:
    isolation = event.payload.get("isolation") or "none"
    return Said(
        "Worker started",
        detail=f"{event.payload['worker_version']}, isolation {isolation}",
        importance=DETAIL,
    )


def _sandbox(event: Event) -> Said:
    commit = event.payload["base_commit"][:10]
    return Said(f"Sandbox ready; {commit} checked out")


def _context(event: Event) -> Said:
    payload = event.payload
    return Said(
        "Context ready",
        detail=short(payload.get("summary") or ""),
        artifact_id=payload.get("context_artifact_id") or "",
        importance=DETAIL,
    )


# --- thinking and working ------------------------------------------------------------------------


def _plan(event: Event) -> Said:
    plan: Json = event.facts.get("plan") or {}
    parts = [
        plural(len(plan.get("files", ())), "path"),
        plural(len(plan.get("verifiers", ())), "check"),
        plural(len(plan.get("risks", ())), "risk"),
    ]
    return Said(
        "Plan made: " + ", ".join(parts),
        artifact_id=plan.get("id", ""),
        icon="check",
        detail=short(plan.get("summary", "")),
        importance=KEY,
    )


def _attempt_started(event: Event) -> Said | None:
    number = event.payload["number"]
    if number == 1:
        return None
    return Said(
        f"Attempt {number} started", detail=event.payload.get("strategy", ""), icon="retry", importance=KEY
    )


def _attempt_finished(event: Event) -> Said | None:
    if event.payload["outcome"] == "succeeded":
        return None
    failure = event.payload.get("failure") or {}
    verb = "was given up" if event.payload["outcome"] == "aborted" else "failed"
    return Said(
        f"Attempt {event.attempt} {verb}: {failure_words(failure)}",
        "bad",
        "cross",
        KEY,
        artifact_id=failure.get("evidence_artifact_id") or "",
    )


def _patch(event: Event) -> Said:
    patch: Json = event.facts.get("patch") or {}
    size = f"{plural(patch.get('files', 0), 'file')}, +{patch.get('added', 0)} −{patch.get('deleted', 0)}"
    return Said(
        f"Patch made: {size}",
        icon="file",
        importance=KEY,
        detail=short(event.payload.get("summary") or ""),
        artifact_id=patch.get("id", ""),
    )


def _report(event: Event) -> Said:
    return Said(
        "Report written",
        icon="file",
        importance=KEY,
        detail=short(event.payload.get("summary") or ""),
        artifact_id=(event.facts.get("report") or {}).get("id", ""),
    )


def _question(event: Event) -> Said:
    return Said(f"The agent asks: {short(event.payload['question'])}", "warn", "question", KEY)


# --- checking and judging ------------------------------------------------------------------------


def _checks_started(event: Event) -> Said:
    return Said(f"Checks started: {', '.join(event.payload['commands'])}", importance=DETAIL)


def _checks_passed(event: Event) -> Said:
    report: Json = event.facts.get("verification") or {}
    names = [command["name"] for command in report.get("commands", ())]
    flaky = [command["name"] for command in report.get("commands", ()) if command.get("flaky")]
    detail = f"{', '.join(flaky)} passed only on a second try" if flaky else _took(report)
    return Said(f"{listed(names)} passed", "ok", "check", KEY, detail, report.get("id", ""))


def _checks_failed(event: Event) -> Said:
    report: Json = event.facts.get("verification") or {}
    bad = [command for command in report.get("commands", ()) if not passed(command)]
    names = listed([command["name"] for command in bad])
    late = all(command.get("timed_out") for command in bad) and bool(bad)
    detail = "ran out of time" if late else short(_feedback(event))
    return Said(f"{names or 'The checks'} failed", "bad", "cross", KEY, detail, report.get("id", ""))


def _feedback(event: Event) -> str:
    """What people read of it: workers may say more to the agent, as an object with a summary."""
    text = (event.facts.get("feedback") or {}).get("text") or ""
    return str(text.get("summary", "")) if isinstance(text, dict) else str(text)


def _took(report: Json) -> str:
    total = sum(float(command.get("duration_ms") or 0) for command in report.get("commands", ()))
    return f"in {total / 1000:.0f} s" if total >= 1000 else ""  # noqa: PLR2004


def _judged(event: Event) -> Said:
    judgement: Json = event.facts.get("judgement") or {}
    return Said(
        "The judge is satisfied",
        "ok",
        "check",
        KEY,
        f"confidence {judgement.get('confidence', '?')}",
        judgement.get("id", ""),
    )


def _judge_wants(event: Event) -> Said:
    judgement: Json = event.facts.get("judgement") or {}
    reason = next(iter(judgement.get("reasons") or ()), "")
    return Said("The judge asks for a fix", "bad", "cross", KEY, short(reason), judgement.get("id", ""))


def _evaluated(event: Event) -> Said:
    guards = event.facts.get("guards") or []
    failing = [guard_label(guard["name"]) for guard in guards if guard["passed"] is not True]
    if failing:
        return Said(
            f"{plural(len(failing), 'guard')} of {len(guards)} did not pass: {', '.join(failing)}",
            "warn",
            "shield",
        )
    return Said(f"All {len(guards)} guards passed", "ok", "shield")


def guard_label(name: str) -> str:
    """The guard as the review page calls it; the log may hold one that is no longer known."""
    return LABELS.get(name) or str(name).replace("_", " ").capitalize()


# --- people --------------------------------------------------------------------------------------

_GATE_OPENED: Final = {
    Gate.PLAN: "A person must approve the plan",
    Gate.PATCH: "A person must review the patch",
    Gate.TOOL_CALL: "A person must allow a tool call",
    Gate.BUDGET: "The budget is spent; a person must decide",
    Gate.QUESTION: "The run waits for an answer",
}


def _gate(event: Event) -> Said:
    return Said(_GATE_OPENED[Gate(event.payload["gate"])], "warn", "eye", KEY)


def _by(
    verb: str, tone: str = "quiet", icon: str = "person", importance: int = KEY
) -> Callable[[Event], Said]:
    def said(event: Event) -> Said:
        payload = event.payload
        words = payload.get("comment") or payload.get("reason") or payload.get("text") or ""
        return Said(f"{event.actor.name} {verb}", tone, icon, importance, short(words))

    return said


def _raised(event: Event) -> Said:
    """``opa raised the budget to $1.50``; ``… to 200 steps``."""
    limits = event.facts.get("budget") or {}
    words = [
        f"${Decimal(str(limit)):,.2f}"
        if name == "max_cost_usd"
        else f"{limit:,} {name.removeprefix('max_').replace('_', ' ')}"
        for name, limit in limits.items()
    ]
    to = f" to {' and '.join(words)}" if words else ""
    return Said(f"{event.actor.name} raised the budget{to}", "quiet", "person", KEY)


def _waived(event: Event) -> Said:
    return Said(
        f"{event.actor.name} waived the guard “{guard_label(event.payload.get('guard', ''))}”",
        "warn",
        "shield",
        KEY,
        short(event.payload.get("reason") or ""),
    )


# --- ends ----------------------------------------------------------------------------------------


def _pr(event: Event) -> Said:
    return Said(
        f"Branch {event.payload['branch']} pushed",
        "ok",
        "branch",
        KEY,
        f"commit {event.payload['commit_sha'][:10]}",
    )


def _pr_failed(event: Event) -> Said:
    return Said(
        f"Opening the pull request failed: {failure_words(event.payload['failure'])}", "bad", "cross", KEY
    )


def _completed(event: Event) -> Said:
    return Said("Completed", "ok", "seal", KEY, (event.facts.get("verdict") or {}).get("reason", ""))


def _cancelled(event: Event) -> Said:
    cleanup = {"done": "cleaned up", "partial": "partly cleaned up"}.get(
        event.payload.get("cleanup", ""), "clean-up unconfirmed"
    )
    return Said("Cancelled", "quiet", "slash", KEY, cleanup)


def _failed(event: Event) -> Said:
    failure = event.facts.get("failure") or event.payload.get("failure") or {}
    return Said(
        f"Failed: {failure_words(failure)}",
        "bad",
        "fail",
        KEY,
        artifact_id=failure.get("evidence_artifact_id") or "",
    )


def _timed_out(event: Event) -> Said:
    scope = str(event.payload.get("scope", "")).replace("_", " ")
    return Said(f"Ended: the {scope} clock ran out", "bad", "clock", KEY)


def _retry(event: Event) -> Said:
    scheduled = event.type == Ev.RETRY_SCHEDULED
    lead = "The next run follows" if scheduled else "No further run by itself"
    return Said(
        lead, icon="retry" if scheduled else "info", detail=event.facts.get("reason", ""), importance=KEY
    )


def _cleanup(event: Event) -> Said:
    return Said("Clean-up reported", detail=event.payload.get("cleanup", ""), importance=DETAIL)


#: Events that tell of a failure wherever they stand; a failed attempt says so in its outcome.
FAILURES: Final = frozenset(
    {
        Ev.VERIFICATION_FAILED_RETRYABLE,
        Ev.JUDGE_REQUIRES_FIX,
        Ev.REJECTED,
        Ev.PR_CREATION_FAILED,
        Ev.NON_RETRYABLE_FAILURE,
        Ev.TIMEOUT,
    }
)

_TELLERS: Final[dict[str, Callable[[Event], Said | None]]] = {
    Ev.RUN_CREATED: _created,
    Ev.LEASE_ACQUIRED: _leased,
    Ev.LEASE_RELEASED: _released,
    Ev.LEASE_LOST: _lost,
    Ev.WORKER_STARTED: _worker_started,
    Ev.SANDBOX_READY: _sandbox,
    Ev.CONTEXT_READY: _context,
    Ev.PLAN_CREATED: _plan,
    Ev.ATTEMPT_STARTED: _attempt_started,
    Ev.ATTEMPT_FINISHED: _attempt_finished,
    Ev.PATCH_CREATED: _patch,
    Ev.REPORT_CREATED: _report,
    Ev.QUESTION_ASKED: _question,
    Ev.VERIFICATION_STARTED: _checks_started,
    Ev.VERIFICATION_PASSED: _checks_passed,
    Ev.VERIFICATION_FAILED_RETRYABLE: _checks_failed,
    Ev.JUDGE_PASSED: _judged,
    Ev.JUDGE_REQUIRES_FIX: _judge_wants,
    Ev.POLICY_EVALUATED: _evaluated,
    Ev.AUTO_PR_ALLOWED: lambda _: Said("Policy lets it go on without a review", "ok", "shield", KEY),
    Ev.HUMAN_APPROVAL_REQUIRED: _gate,
    Ev.APPROVED: _by("approved", "ok", "check"),
    Ev.CHANGES_REQUESTED: _by("asked for changes", "warn", "retry"),
    Ev.REJECTED: _by("rejected it", "bad", "cross"),
    Ev.VOTE_RECORDED: _by("approved; more approvals are needed"),
    Ev.GUARD_WAIVED: _waived,
    Ev.BUDGET_RAISED: _raised,
    Ev.CANCEL_REQUESTED: _by("asked to stop", "warn", "stop"),
    Ev.PAUSE_REQUESTED: _by("asked to pause", "quiet", "pause"),
    Ev.WIND_DOWN_REQUESTED: _by("asked to finish up", "quiet", "stop"),
    Ev.RUN_RESUMED: _by("resumed it", "quiet", "play"),
    Ev.DIRECTIVE_SEEN: lambda _: Said("The worker heard it", importance=DETAIL),
    Ev.RUN_INTERRUPTED: lambda event: Said(f"Worker {event.actor.name} paused", icon="pause"),
    Ev.INSTRUCTION_ADDED: _by("added an instruction"),
    Ev.PRIORITY_CHANGED: _by("changed the priority", importance=DETAIL),
    Ev.NOTE_ADDED: _by("noted", icon="pencil"),
    Ev.PR_CREATED: _pr,
    Ev.PR_CREATION_FAILED: _pr_failed,
    Ev.COMPLETION_CONDITION_MET: _completed,
    Ev.RUN_CANCELLED: _cancelled,
    Ev.NON_RETRYABLE_FAILURE: _failed,
    Ev.TIMEOUT: _timed_out,
    Ev.RETRY_SCHEDULED: _retry,
    Ev.RETRY_DECLINED: _retry,
    Ev.CLEANUP_REPORTED: _cleanup,
}
