"""Rows and states as the contract's shapes (REST contract, "Shapes"). Field names are the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from runs.auth import Principal
from runs.domain.decide import events_now
from runs.domain.facts import Event, Json, moment, stamp
from runs.domain.outcome import outcome
from runs.domain.state import RunState, plain
from runs.domain.tasks import TaskState
from runs.models import Artifact, Attempt, Lease, Run, RunEvent, Step, Task
from runs.selectors import Surroundings, read_surroundings, shown_run, shown_task
from runs.selectors.words import told_risk
from runs.service import Outcome

_BRIEF: Final = ("id", "sha256", "size")
_PATCH: Final = (*_BRIEF, "files", "added", "deleted")


def at(time: datetime | None) -> str | None:
    """RFC 3339 in UTC with ``Z``, or null."""
    return stamp(time) if time else None


def pick(value: Mapping[str, Any] | None, names: Iterable[str]) -> Json | None:
    """Those fields, or null where there is nothing."""
    return {name: value.get(name) for name in names} if value else None


def money(amount: Decimal | None) -> str | None:
    """US dollars as decimal text without trailing zeros, or null where unknown."""
    if amount is None:
        return None
    text = plain(amount)
    return text.rstrip("0").rstrip(".") if "." in text else text


def artifact_href(artifact_id: str) -> str:
    """Where the bytes are downloaded."""
    return f"/api/v1/artifacts/{artifact_id}"


# --- runs -----------------------------------------------------------------------------------------


def runs(rows: list[Run], principal: Principal) -> list[Json]:
    """A page of runs with task and repository selected. Ten queries at most, however many there are."""
    around = read_surroundings(repository_ids={row.repository_id for row in rows}).for_rows(rows)
    leases = Lease.objects.filter(run_id__in=[row.pk for row in rows], ended_at__isnull=True)
    held = {lease.run_id: lease for lease in leases}
    return [run(row, held.get(row.pk), principal=principal, around=around) for row in rows]


def one_run(row: Run, principal: Principal) -> Json:
    """One run, with everything that its display depends on. Six queries."""
    return runs([row], principal)[0]


def run_now(result: Outcome, principal: Principal) -> Json:
    """The run right after an event, without another query: what it waits for says no end then."""
    moved = moment(result.state.updated_at)
    return run(result.run, result.lease, principal=principal, around=Surroundings(now=moved))


def run(row: Run, lease: Lease | None, *, principal: Principal, around: Surroundings) -> Json:
    """The shape of a run. No query where its task is loaded."""
    state = RunState.from_json(row.state)
    expires = [time for time in (row.expires_at, lease.expires_at if lease else None) if time]
    return {
        "id": row.pk,
        "task_id": row.task_id,
        "title": row.task.title,
        "repository": row.task.contract["repository"],
        "attempt_no": row.attempt_no,
        "retry_count": row.attempt_no - 1,
        "status": row.status,
        "sequence": row.version,
        "directive": row.directive,
        "outcome": outcome(state),
        **shown_run(row, principal=principal, surroundings=around),
        "gate": row.gate or None,
        "failure": state.failure,
        "expiration": state.expiration,
        "cancel_reason": state.cancel_reason or None,
        "fence": row.fence,
        "worker": state.worker_name or None,
        "isolation": state.isolation or None,
        "lease_expires_at": at(lease.expires_at) if lease else None,
        "base_commit": state.base_commit or None,
        "patch": pick(state.patch, _PATCH),
        "effective_risk": state.effective_risk,
        "budget": {"limit": state.budget, "used": state.used},
        "model": state.model or None,
        "provider": state.provider or None,
        "current_step": _current_step(state),
        "output_summary": state.output_summary or None,
        "output_path": _output_path(state),
        "policy_version": state.policy_version,
        "not_before": at(row.not_before),
        "expires_at": at(min(expires)) if expires else None,
        "created_at": at(row.created_at),
        "started_at": at(row.started_at),
        "updated_at": at(row.updated_at),
        "completed_at": at(row.completed_at),
        "allowed_events": events_now(state),
    }


def _current_step(state: RunState) -> str | None:
    """The label of the call that was begun last and has no result yet."""
    return next((call["label"] for call in reversed(state.pending.values())), None)


def _output_path(state: RunState) -> str | None:
    made = state.patch or state.report
    return artifact_href(made["id"]) if made else None


# --- events ---------------------------------------------------------------------------------------


def event(fact: Event) -> Json:
    """The shape of an event."""
    return {
        "id": fact.id,
        "run_id": fact.run_id,
        "sequence": fact.sequence,
        "type": fact.type,
        "from_status": fact.from_status or None,
        "to_status": fact.to_status,
        "attempt": fact.attempt,
        "actor": {"type": str(fact.actor.type), "id": fact.actor.id, "name": fact.actor.name},
        "fence": fact.fence,
        "schema_version": fact.schema_version,
        "payload": fact.payload,
        "facts": fact.facts,
        "occurred_at": fact.occurred_at,
        "recorded_at": fact.recorded_at,
        "hash": fact.hash,
    }


def event_row(row: RunEvent) -> Json:
    """The same of a stored row."""
    return {
        "id": row.pk,
        "run_id": row.run_id,
        "sequence": row.sequence,
        "type": row.event_type,
        "from_status": row.from_status or None,
        "to_status": row.to_status,
        "attempt": row.attempt,
        "actor": {"type": row.actor_type, "id": row.actor_id, "name": row.actor_name},
        "fence": row.fence,
        "schema_version": row.schema_version,
        "payload": row.payload,
        "facts": row.facts,
        "occurred_at": stamp(row.occurred_at),
        "recorded_at": stamp(row.recorded_at),
        "hash": row.hash,
    }


def result(made: Outcome) -> Json:
    """One accepted event and what the control plane appended to it."""
    assert made.event is not None  # noqa: S101  only a directive that was in force already has none
    return {"event": event(made.event), "follow_ups": [event(fact) for fact in made.follow_ups]}


def lease_now(lease: Lease | None) -> Json | None:
    """How long the lease lives, or null where this event ended it."""
    return {"expires_at": stamp(lease.expires_at)} if lease else None


# --- leases, steps, attempts, artifacts -----------------------------------------------------------


def lease(row: Lease, token: str, *, heartbeat_interval_seconds: float) -> Json:
    """The shape of a lease, with its secret: only in the answer to the claim."""
    return {
        "id": row.pk,
        "token": token,
        "fence": row.fence,
        "run_id": row.run_id,
        "acquired_at": stamp(row.acquired_at),
        "expires_at": stamp(row.expires_at),
        "heartbeat_interval_seconds": heartbeat_interval_seconds,
    }


def step(row: Step) -> Json:
    """The shape of a step."""
    return {
        "operation_id": row.operation_id,
        "attempt": row.attempt,
        "kind": row.kind,
        "tool": row.tool or None,
        "label": row.label,
        "arguments": row.arguments,
        "effect": row.effect,
        "state": row.state,
        "started_at": stamp(row.started_at),
        "finished_at": at(row.finished_at),
        "duration_ms": row.duration_ms,
        "exit_code": row.exit_code,
        "cost_usd": money(row.cost_usd),
        "summary": row.summary or None,
        "output_artifact_id": row.output_artifact_id or None,
    }


def attempt(row: Attempt) -> Json:
    """The shape of an attempt."""
    return {
        "number": row.number,
        "state": row.state,
        "strategy": row.strategy,
        "started_at": stamp(row.started_at),
        "finished_at": at(row.finished_at),
        "failure": row.failure,
        "used": row.used,
    }


def stored(row: Artifact) -> Json:
    """The answer to an upload."""
    return {"id": row.pk, "kind": row.kind, "sha256": row.sha256, "size": row.size, "facts": row.facts}


def artifact(row: Artifact) -> Json:
    """The shape of an artifact in lists."""
    more = {"content_type": row.content_type, "fence": row.fence, "created_at": stamp(row.created_at)}
    return {**stored(row), **more, "href": artifact_href(row.pk)}


def brief(artifact_facts: Mapping[str, Any] | None) -> Json | None:
    """``{id, sha256, size}``, or null."""
    return pick(artifact_facts, _BRIEF)


# --- tasks ----------------------------------------------------------------------------------------


def tasks(rows: list[Task], principal: Principal) -> list[Json]:
    """A page of tasks with repository and person selected. Six queries, however many there are."""
    around = read_surroundings(repository_ids={row.repository_id for row in rows})
    made: dict[str, list[Run]] = {}
    found = list(Run.objects.filter(task_id__in=[task.pk for task in rows]).order_by("attempt_no"))
    for row in found:
        made.setdefault(row.task_id, []).append(row)
    around = around.for_rows(found)
    return [task(row, made.get(row.pk, []), principal=principal, around=around) for row in rows]


def one_task(row: Task, principal: Principal) -> Json:
    """One task. Six queries."""
    return tasks([row], principal)[0]


def task(row: Task, made: list[Run], *, principal: Principal, around: Surroundings) -> Json:
    """The shape of a task. No query where its repository and person are loaded."""
    state = TaskState.from_json(row.state)
    return {
        "id": row.pk,
        "title": row.title,
        "status": row.status,
        "repository": row.repository.name,
        "base_branch": row.contract["base_branch"],
        "completion_mode": row.completion_mode,
        "risk_level": row.risk_level,
        "risk": told_risk(row.contract, made[-1].state["effective_risk"] if made else ""),
        "priority": row.priority,
        "labels": row.labels,
        "contract": row.contract,
        "instructions": instructions(state),
        **shown_task(row, made[-1] if made else None, principal=principal, surroundings=around),
        "rejection_reasons": row.rejection_reasons,
        "run_ids": [run_row.pk for run_row in made],
        "latest_run_id": row.latest_run_id or None,
        "parent_id": row.parent_id,
        "campaign_id": row.campaign_id,
        "created_by": row.created_by.get_username(),
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
        "archived_at": at(row.archived_at),
    }


def instructions(state: TaskState) -> list[Json]:
    """Every instruction of a task, the first prompt included."""
    return [
        {"number": one["number"], "text": one["text"], "by": one.get("by_name") or None, "at": one["at"]}
        for one in state.instructions
    ]
