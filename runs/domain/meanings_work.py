"""What the events of a step mean (lifecycle contract, section 12); see ``runs.domain.meanings``. All keep the
status."""

from __future__ import annotations

from decimal import Decimal

from runs.domain import documents as docs
from runs.domain.commands import Command, Context
from runs.domain.errors import BudgetExhausted, Invalid, NotAllowedNow
from runs.domain.facts import Json, moment
from runs.domain.payloads import cost_of
from runs.domain.state import RunState, plain
from runs.domain.vocabulary import ArtifactKind, RunStatus

Meaning = tuple[str, Json]
S = RunStatus


def tool_requested(state: RunState, command: Command, context: Context) -> Meaning:
    operation_id = command.payload["operation_id"]
    if context.step and operation_id not in state.lost:
        raise NotAllowedNow(
            f"Operation {operation_id} was requested before; its result stands.", step=context.step
        )
    if calls_for_approval(command.payload, context) and state.status not in (S.PLANNING, S.EXECUTING):
        raise NotAllowedNow("This call needs a person's approval: make it while planning or executing.")
    effect = command.payload.get("effect") or "workspace"
    limits = [("max_tool_calls", (state.attempt or state.used)["tool_calls"])]
    if effect == "outside":
        limits.append(("max_outside_writes", state.used["outside_writes"]))
    if state.active_since and state.budget.get("max_duration_seconds"):
        limits.append(("max_duration_seconds", int(_active_seconds(state, context))))
    for name, used in limits:
        if used >= int(state.budget.get(name, 10**9)):
            raise BudgetExhausted(f"{name} of {state.budget[name]} is used up.", **over_budget(state))
    if spent_out(state):
        raise BudgetExhausted("The money is used up.", **over_budget(state))
    return state.status, {}


def _active_seconds(state: RunState, context: Context) -> float:
    """Active time up to now: the sweep may be late, and nothing new shall begin meanwhile."""
    return float(state.used["active_seconds"]) + (context.now - moment(state.active_since)).total_seconds()


def calls_for_approval(payload: Json, context: Context) -> bool:
    """Whether a tool call waits for a person: its request says so, or the policy does."""
    return bool(payload.get("requires_approval")) or payload["tool"] in context.policy["approval_tools"]


def spent_out(state: RunState) -> bool:
    """Whether the reported costs reach the limit."""
    limit, spent = state.budget.get("max_cost_usd"), Decimal(state.used["cost_usd"])
    return limit is not None and spent > 0 and spent >= Decimal(str(limit))


def over_budget(state: RunState) -> Json:
    """What the refusal adds: limits and use."""
    return {"budget": dict(state.budget), "used": {**state.used, "attempt": state.attempt}}


def model_decision(state: RunState, command: Command, context: Context) -> Meaning:
    return state.status, _cost(command.payload)


def _cost(payload: Json) -> Json:
    """The amount that was reported, as decimal text: the fold adds this up and reads no payload for it."""
    cost = cost_of(payload["cost_usd"]) if payload.get("cost_usd") is not None else None
    return {} if cost is None else {"cost_usd": plain(cost)}


def tool_completed(state: RunState, command: Command, context: Context) -> Meaning:
    operation_id = command.payload["operation_id"]
    if operation_id not in state.pending:
        if context.step:
            raise NotAllowedNow(f"Operation {operation_id} has its result already.", step=context.step)
        raise Invalid({"payload.operation_id": ["was never requested"]})
    if artifact_id := command.payload.get("output_artifact_id"):
        kinds = (ArtifactKind.LOG, ArtifactKind.OUTPUT)
        docs.cited(context.artifacts, artifact_id, "output_artifact_id", *kinds)
    return state.status, _cost(command.payload)


def checkpoint_saved(state: RunState, command: Command, context: Context) -> Meaning:
    artifact = docs.cited(
        context.artifacts,
        command.payload["checkpoint_artifact_id"],
        "checkpoint_artifact_id",
        ArtifactKind.CHECKPOINT,
        ArtifactKind.PATCH,
    )
    if state.base_commit and command.payload["base_commit"] != state.base_commit:
        stands = f"the run stands on {state.base_commit}"
        raise docs.claims_otherwise("base_commit", command.payload["base_commit"], stands)
    return state.status, {"checkpoint": artifact.brief()}
