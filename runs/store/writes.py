"""Events to the log, and rows in line with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from psycopg import Cursor

from agentplatform import rows
from agentplatform.rows import together
from runs.domain import clocks
from runs.domain.contract import lease_seconds
from runs.domain.errors import Invalid
from runs.domain.facts import Event, Json, moment
from runs.domain.state import Changes, RunState
from runs.domain.table import sources_of
from runs.domain.vocabulary import CLAIMABLE, Directive, Ev, RunStatus
from runs.models import Attempt, Lease, PullRequest, Run, RunEvent, Step, Task, WorkerAccount
from runs.store import chain
from runs.store.bell import ring
from runs.store.claims import SECONDS_PER_PRIORITY
from runs.store.outbox import publish_run
from runs.store.outcomes import write_outcome
from runs.store.reads import Surroundings
from runs.store.spending import record_spending


def insert_run(*, run_id: str, task: Task, attempt_no: int, now: datetime) -> Run:
    """A new row in CREATED; its events follow at once."""
    run = Run(
        id=run_id,
        task=task,
        repository_id=task.repository_id,
        attempt_no=attempt_no,
        needs=task.needs,
        status_since=now,
        created_at=now,
        updated_at=now,
    )
    run.save(force_insert=True)
    return run


def write(
    run: Run, events: Sequence[Event], state: RunState, changes: Changes, around: Surroundings
) -> list[Event]:
    """Append ``events`` to the log and bring row, attempts, steps, lease and outbox in line.

    One round trip: what a trigger refuses is raised at its end. Returns the events as they were chained.
    """
    before = RunState.from_json(run.state)
    offered = (run.claim_role, run.not_before)
    sealed = _seal(events, run.chain_hash)
    with together() as cursor:
        rows.insert(cursor, RunEvent, [_event_columns(event) for event in sealed])
        _move(cursor, run, sealed)
        _project(cursor, run, sealed[-1], state, around)
        record_spending(cursor, run, before, state)
        _write_attempts(cursor, run.pk, changes)
        _write_steps(cursor, run.pk, changes)
        _end_lease(cursor, sealed, before, state)
        _begin_lease(cursor, run, sealed, around)
        publish_run(cursor, sealed)
    _write_pull_request(run, sealed)
    _write_worker(sealed)
    if state.is_terminal and not (before.status and before.is_terminal):
        write_outcome(run, state, around.contract)
    gives_a_place = before.holder and state.holder is None  # to another run, where their number is limited
    if gives_a_place or (run.claim_role and (run.claim_role, run.not_before) != offered):
        ring()
    return sealed


def _seal(events: Sequence[Event], link: str) -> list[Event]:
    """The events, chained to the one whose hash is ``link``."""
    sealed: list[Event] = []
    for event in events:
        chained = replace(event, previous_hash=link)
        link = chain.hash_of(chained)
        sealed.append(replace(chained, hash=link))
    return sealed


def _move(cursor: Cursor[Any], run: Run, events: Sequence[Event]) -> None:
    """Each event's own transition. The trigger judges one move at a time, so one that is followed by
    another is written before it."""
    written = run.status
    for event in events:
        if not sources_of(Ev(event.type)):
            continue
        if run.status not in (written, event.to_status):
            rows.update(cursor, Run, [{"id": run.pk, "status": run.status}])
            written = run.status
        getattr(run, event.type)(to=event.to_status)


def _event_columns(event: Event) -> Json:
    return {
        "id": event.id,
        "run_id": event.run_id,
        "sequence": event.sequence,
        "event_type": event.type,
        "from_status": event.from_status,
        "to_status": event.to_status,
        "attempt": event.attempt,
        "actor_type": event.actor.type,
        "actor_id": event.actor.id,
        "actor_name": event.actor.name,
        "fence": event.fence,
        "idempotency_key": event.key or None,
        "request_fingerprint": event.fingerprint,
        "parent": event.parent,
        "payload": event.payload,
        "facts": event.facts,
        "schema_version": event.schema_version,
        "occurred_at": event.occurred_at,
        "recorded_at": event.recorded_at,
        "previous_hash": event.previous_hash,
        "hash": event.hash,
    }


def row_columns(state: RunState, around: Surroundings) -> Json:
    """The run row's columns as its state and the clocks say; rebuild compares with the same function."""
    deadlines = clocks.deadlines(state, around.contract, around.policy.values)
    claimable = state.holder is None and state.run_status in CLAIMABLE and state.directive != Directive.PAUSE
    queued = int(moment(state.queued_at or state.created_at).timestamp())
    return {
        "attempt_no": state.attempt_no,
        "status_reason": _reason(state),
        "worker_id": state.worker_id,
        "state": state.to_json(),
        "directive": state.directive,
        "fence": state.fence,
        "claim_role": CLAIMABLE[state.run_status].value if claimable else "",
        "begun": state.status not in (RunStatus.CREATED, RunStatus.QUEUED),
        "queue_key": queued - state.priority * SECONDS_PER_PRIORITY,
        "not_before": moment(state.not_before) if state.not_before else None,
        "idle_since": moment(state.idle_since) if state.idle_since else None,
        "failure_category": (state.failure or {}).get("category", ""),
        "gate": (state.gate or {}).get("gate", ""),
        "cost_usd": Decimal(state.used["cost_usd"]),
        "started_at": moment(state.started_at) if state.started_at else None,
        "completed_at": moment(state.completed_at) if state.completed_at else None,
        "expires_at": deadlines[0].at if deadlines else None,
        "status_since": moment(state.status_since),
        "version": state.sequence,
        "created_at": moment(state.created_at),
        "updated_at": moment(state.updated_at),
    }


def _reason(state: RunState) -> str:
    if state.failure:
        return str(state.failure["summary"])
    if state.expiration:
        return str(state.expiration["reason"])
    return state.cancel_reason


def _project(cursor: Cursor[Any], run: Run, last: Event, state: RunState, around: Surroundings) -> None:
    columns = row_columns(state, around)
    columns["chain_hash"] = last.hash
    columns["chain_mac"] = chain.mac(run.pk, last.sequence, last.hash)
    for name, value in columns.items():
        setattr(run, name, value)
    rows.update(cursor, Run, [{"id": run.pk, "status": run.status, **columns}])


def attempt_columns(values: Json) -> Json:
    """Stamps as moments, for the row."""
    return {
        name: moment(value) if name in ("started_at", "finished_at") and value else value
        for name, value in values.items()
    }


def _write_attempts(cursor: Cursor[Any], run_id: str, changes: Changes) -> None:
    wanted = [
        {"run_id": run_id, "number": number, **attempt_columns(values)}
        for number, values in changes.attempts.items()
    ]
    # Only its beginning says with which strategy.
    rows.insert(cursor, Attempt, [row for row in wanted if "strategy" in row])
    rows.update(cursor, Attempt, [row for row in wanted if "strategy" not in row], by=("run_id", "number"))


def step_columns(values: Json) -> Json:
    """Stamps as moments and money as decimal, for the row."""
    columns = attempt_columns(values)
    if columns.get("cost_usd") is not None:
        columns["cost_usd"] = Decimal(columns["cost_usd"])
    return columns


def _write_steps(cursor: Cursor[Any], run_id: str, changes: Changes) -> None:
    key = ("run_id", "operation_id")
    wanted = [
        {"run_id": run_id, "operation_id": operation_id, **step_columns(values)}
        for operation_id, values in changes.steps.items()
    ]
    # Only its beginning says what kind it is; lost work is begun again.
    rows.insert(cursor, Step, [row for row in wanted if "kind" in row], replacing=key)
    rows.update(cursor, Step, [row for row in wanted if "kind" not in row], by=key)


def _end_lease(cursor: Cursor[Any], events: Sequence[Event], before: RunState, state: RunState) -> None:
    if before.holder and (state.holder or {}).get("lease_id") != before.holder["lease_id"]:
        ended = next(
            (e for e in events if e.type in ("lease_lost", "lease_released", "run_interrupted")), events[0]
        )
        row = {"id": before.holder["lease_id"], "ended_at": ended.recorded_at, "end_reason": ended.type}
        rows.update(cursor, Lease, [row])


def _begin_lease(cursor: Cursor[Any], run: Run, events: Sequence[Event], around: Surroundings) -> None:
    begun = [event for event in events if event.type == Ev.LEASE_ACQUIRED]
    rows.insert(cursor, Lease, [_lease_columns(run, event, around) for event in begun])


def _lease_columns(run: Run, event: Event, around: Surroundings) -> Json:
    now = moment(event.recorded_at)
    seconds = lease_seconds(event.to_status, around.contract, around.policy.values)
    return {
        "id": event.facts["lease_id"],
        "run_id": run.pk,
        "repository_id": run.repository_id,
        "worker_id": event.actor.id,
        "fence": event.fence,
        "claim_key": event.facts.get("claim_key", ""),
        "acquired_at": now,
        "heartbeat_at": now,
        "expires_at": now + timedelta(seconds=seconds),
        "end_reason": "",
    }


_EXTEND: Final = """
WITH extended AS (
    UPDATE run_leases SET heartbeat_at = %(now)s,
        expires_at = greatest(expires_at, %(now)s + make_interval(secs => %(seconds)s))
    WHERE id = %(lease)s RETURNING expires_at, worker_id
), seen AS (
    -- Once in a while is enough: a worker with many runs would wait for its own row.
    UPDATE worker_accounts SET last_seen_at = %(now)s FROM extended WHERE id = extended.worker_id
    AND (last_seen_at IS NULL OR last_seen_at < %(now)s - interval '5 seconds')
)
SELECT expires_at FROM extended
"""


def extend_lease(lease: Lease, *, now: datetime, seconds: int) -> datetime:
    """Renew an active lease, which never gets shorter, and note that its worker was seen."""
    ((expires_at,),) = rows.ask(_EXTEND, {"lease": lease.pk, "now": now, "seconds": seconds})
    return expires_at  # type: ignore[no-any-return]


def _write_pull_request(run: Run, events: Sequence[Event]) -> None:
    for event in events:
        if event.type == Ev.PR_CREATED:
            names = ("provider", "url", "branch", "commit_sha", "tree_sha", "body", "number")
            at = moment(event.recorded_at)
            values = {name: event.payload.get(name) for name in names}
            others = PullRequest.objects.filter(repository_id=run.repository_id, branch=values["branch"])
            if other := others.values_list("run_id", flat=True).first():
                raise Invalid({"payload.branch": [f"is that of the pull request of {other}; push another"]})
            PullRequest.objects.create(
                run=run,
                repository_id=run.repository_id,
                created_at=at,
                updated_at=at,
                next_look_at=at,
                **values,
            )


def _write_worker(events: Sequence[Event]) -> None:
    """What a machine says of itself when it begins, for the next claim and the page of workers."""
    for event in events:
        if event.type == Ev.WORKER_STARTED:
            WorkerAccount.objects.filter(pk=event.actor.id).update(
                version=event.payload["worker_version"], isolation=event.payload.get("isolation") or "none"
            )
