"""What events change in attempts and steps (lifecycle contract, sections 1 and 12)."""

from __future__ import annotations

from decimal import Decimal

from runs.domain.facts import Event, Json, fingerprint
from runs.domain.state import Changes, RunState, plain
from runs.domain.vocabulary import AttemptState, StepState


def attempt_started(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.attempts_started = payload["number"]
    state.attempt = {
        "number": payload["number"],
        "strategy": payload.get("strategy", ""),
        "started_at": event.recorded_at,
        "steps": 0,
        "tool_calls": 0,
        "repairs": 0,
        "cost_usd": "0",
        "active_seconds": 0.0,
        "repeats": {},
    }
    state.checkpoint, state.unsaved, state.lost = None, [], []
    _drop_workspace_calls(state, event, changes)
    changes.attempt(
        payload["number"],
        state=AttemptState.STARTED.value,
        strategy=payload.get("strategy", ""),
        started_at=event.recorded_at,
        finished_at=None,
        failure=None,
        used=attempt_used(state.attempt),
    )


def _drop_workspace_calls(state: RunState, event: Event, changes: Changes) -> None:
    """Calls into a workspace that is gone; one to the outside may have happened and stays pending."""
    for operation_id in [name for name, call in state.pending.items() if call["effect"] != "outside"]:
        del state.pending[operation_id]
        changes.step(operation_id, state=StepState.SKIPPED.value, finished_at=event.recorded_at)


def attempt_finished(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    ends = {
        "failed": AttemptState.FAILED,
        "aborted": AttemptState.ABORTED,
        "succeeded": AttemptState.SUCCEEDED,
    }
    close_attempt(state, event, ends[payload["outcome"]], changes, payload.get("failure"))


def close_attempt(
    state: RunState, event: Event, end: AttemptState, changes: Changes, failure: Json | None = None
) -> None:
    if state.attempt is None:
        return
    if end is AttemptState.FAILED:
        state.attempts_failed += 1
        failure = failure or state.failure
    # ``max_takeovers`` bounds what died with its worker.
    state.attempts_aborted += end is AttemptState.ABORTED and not event.facts.get("lease_lost")
    changes.attempt(
        state.attempt["number"],
        state=end.value,
        finished_at=event.recorded_at,
        failure=failure,
        used=attempt_used(state.attempt),
    )
    state.attempt = None


def attempt_used(attempt: Json) -> Json:
    return {name: attempt[name] for name in ("steps", "tool_calls", "repairs", "cost_usd")}


# --- steps (section 12) --------------------------------------------------------------------------


def model_decision(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    state.used["steps"] += 1
    if facts.get("cost_usd") is None:
        state.used["unknown_costs"] = state.used.get("unknown_costs", 0) + 1
    if state.attempt:
        state.attempt["steps"] += 1
    state.model = payload.get("model") or state.model
    state.provider = payload.get("provider") or state.provider
    _spend(state, facts, changes)
    changes.step(
        f"decision:{event.sequence}",
        attempt=event.attempt,
        kind="model",
        tool=payload.get("model") or "",
        label=payload.get("summary") or "",
        arguments={},
        effect="none",
        state=StepState.SUCCEEDED.value,
        started_at=event.recorded_at,
        finished_at=event.recorded_at,
        cost_usd=facts.get("cost_usd"),
        summary=payload.get("summary") or "",
        output_artifact_id=payload.get("content_artifact_id") or "",
        requested_sequence=event.sequence,
    )


def tool_requested(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    operation_id = payload["operation_id"]
    effect = payload.get("effect") or "workspace"
    call = {
        "operation_id": operation_id,
        "tool": payload["tool"],
        "arguments": payload["arguments"],
        "label": payload["label"],
        "effect": effect,
        "requested_at": event.recorded_at,
        "approved": False,
    }
    state.pending[operation_id] = call
    state.used["tool_calls"] += 1
    if effect == "outside":
        state.used["outside_writes"] += 1
    if state.attempt:
        state.attempt["tool_calls"] += 1
        same = fingerprint([payload["tool"], payload["arguments"]])[:16]
        state.attempt["repeats"][same] = state.attempt["repeats"].get(same, 0) + 1
    if operation_id in state.lost:
        state.lost.remove(operation_id)
    changes.step(
        operation_id,
        attempt=event.attempt,
        kind="tool",
        tool=payload["tool"],
        label=payload["label"],
        arguments=payload["arguments"],
        effect=effect,
        state=StepState.RUNNING.value,
        started_at=event.recorded_at,
        finished_at=None,
        requested_sequence=event.sequence,
    )


def tool_completed(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    operation_id = payload["operation_id"]
    call = state.pending.pop(operation_id, {})
    result = {
        "exit_code": payload.get("exit_code"),
        "summary": payload.get("summary") or "",
        "output_artifact_id": payload.get("output_artifact_id") or "",
        "duration_ms": payload.get("duration_ms"),
    }
    if call.get("effect") == "outside" and payload["outcome"] == "succeeded":
        state.operations.append(
            {"operation_id": operation_id, "tool": call["tool"], "outcome": payload["outcome"], **result}
        )
    if call.get("effect") == "workspace":
        state.unsaved.append(operation_id)
    _spend(state, facts, changes)
    changes.step(
        operation_id,
        state=StepState[payload["outcome"].upper()].value,
        finished_at=event.recorded_at,
        cost_usd=facts.get("cost_usd"),
        completed_sequence=event.sequence,
        **result,
    )


def checkpoint_saved(state: RunState, event: Event, payload: Json, facts: Json, changes: Changes) -> None:
    save_checkpoint(state, {**facts["checkpoint"], "base_commit": payload["base_commit"]})


def save_checkpoint(state: RunState, checkpoint: Json) -> None:
    names = ("id", "sha256", "size", "base_commit")
    state.checkpoint = {name: checkpoint[name] for name in names}
    state.unsaved, state.lost = [], []


def _spend(state: RunState, facts: Json, changes: Changes) -> None:
    """Unknown cost is left out, never zero; what was spent is always added, whatever the limit."""
    if cost := Decimal(facts.get("cost_usd") or 0):
        state.used["cost_usd"] = plain(Decimal(state.used["cost_usd"]) + cost)
        if state.attempt:
            state.attempt["cost_usd"] = plain(Decimal(state.attempt["cost_usd"]) + cost)
    if state.attempt:
        changes.attempt(state.attempt["number"], used=attempt_used(state.attempt))
