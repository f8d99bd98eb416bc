"""What decisions need beside the run itself; read under its lock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final

from django.db.models import DateTimeField, Func, Max, Sum

from agentplatform.clock import database_now, present
from agentplatform.rows import ask, columns_of, instance
from runs.domain.facts import Artifact, Event, Json
from runs.domain.policy import Effective, effective
from runs.domain.retry import History
from runs.domain.state import RunState
from runs.models import Artifact as ArtifactRow
from runs.models import Lease, Policy, PolicyVersion, Run, RunEvent
from runs.models.chains import LEVELS, POLICY_CHAIN, read_levels
from runs.store import chain
from runs.store.bell import ring


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Contract and policy of a run."""

    contract: Json
    policy: Effective


_LEVELS: Final = f"WITH RECURSIVE {POLICY_CHAIN.format(repositories='= %(id)s')} SELECT {LEVELS}"


def surroundings(run: Run) -> Surroundings:
    """Contract of the run's task and the policy in force now."""
    return Surroundings(run.task.contract, effective_policy(run.repository_id))


def effective_policy(repository_id: str) -> Effective:
    """The repository's policy chain, combined; one query."""
    ((levels,),) = ask(_LEVELS, {"id": repository_id})
    return levels_of(levels)


@lru_cache(maxsize=256)
def levels_of(text: str | None) -> Effective:
    """The policy that these levels make, given as JSON from the platform's down; for reading only."""
    return effective(read_levels(json.loads(text or "[]")))


def add_policy_version(policy: Policy, values: Json, *, by: str) -> PolicyVersion:
    """The policy's next version."""
    newest = policy.versions.aggregate(newest=Max("number"))["newest"] or 0
    ring()  # a higher limit may let somebody have a run
    return PolicyVersion.objects.create(policy=policy, number=newest + 1, values=values, changed_by=by)


def artifacts_of(run_id: str, ids: Iterable[str]) -> dict[str, Artifact]:
    """Those artifacts of this run, by id; another run's are not found."""
    wanted = {i for i in ids if i}
    if not wanted:
        return {}
    rows = ArtifactRow.objects.filter(run_id=run_id, pk__in=wanted)
    return {r.pk: Artifact(r.pk, r.kind, r.sha256, r.size, r.facts, r.document) for r in rows}


def history_of(run: Run, state: RunState, contract: Json) -> History:
    """What the retry decision looks at beside the failure."""
    totals = Run.objects.filter(task_id=run.task_id).aggregate(cost=Sum("cost_usd"), runs=Max("attempt_no"))
    before = Run.objects.filter(task_id=run.task_id, attempt_no__lt=run.attempt_no).order_by("-attempt_no")
    previous = before.first()
    failure = (previous.state.get("failure") if previous else None) or {}
    earlier = (totals["cost"] or Decimal(0)) - run.cost_usd
    rules = Counter(str((one.state.get("retry") or {}).get("rule", "")) for one in before[:20])
    return History(
        runs_made=totals["runs"] or run.attempt_no,
        max_runs=int(state.budget["max_runs"]),
        cost_usd=earlier + Decimal(state.used["cost_usd"]),
        # The run's limit is what earlier runs left of the task's, and what a person added since.
        max_cost_usd=earlier + Decimal(str(state.budget["max_cost_usd"])),
        previous=(failure["category"], failure["reason"]) if failure else None,
        instruction_changed=previous is not None
        and previous.state.get("instruction_no") != state.instruction_no,
        risk=state.effective_risk,
        base_moved=_base_moved(run.pk, state),
        runs_by_rule=rules,
    )


def _base_moved(run_id: str, state: RunState) -> bool | None:
    """Whether git, when it read the patch, saw another commit on the base branch; None: it saw none."""
    patch_id = (state.patch or {}).get("id", "")
    patch = artifacts_of(run_id, [patch_id]).get(patch_id)
    base = (patch.facts.get("base") if patch else None) or {}
    return None if not base.get("head") else base["head"] != base["commit"]


def lease_and_clock(run_id: str) -> tuple[Lease | None, datetime]:
    """The lease in force and the database's present moment, both read after the run's lock."""
    read_at = Func(function="clock_timestamp", output_field=DateTimeField())
    rows = Lease.objects.filter(run_id=run_id, ended_at__isnull=True).annotate(read_at=read_at)
    for lease in rows:
        return lease, present(lease.read_at)
    return None, database_now()


def active_lease(run_id: str) -> Lease | None:
    """The lease in force, or None. Read it after the run's lock: a takeover may have happened meanwhile."""
    columns = columns_of(Lease, "l")
    rows = ask(f"SELECT {columns} FROM run_leases l WHERE run_id = %s AND ended_at IS NULL", [run_id])  # noqa: S608
    return instance(Lease, rows[0]) if rows else None


def holds(lease: Lease, account: str, token: str, now: datetime) -> bool:
    """Whether ``account`` holds this active lease: its own, by its token, and not expired."""
    is_theirs = lease.worker_id == account and chain.is_token_of(lease.pk, token)
    return is_theirs and lease.expires_at > now


def find_keys(run_id: str, keys: Iterable[str]) -> dict[str, Event]:
    """Events already stored under these idempotency keys."""
    rows = RunEvent.objects.filter(run_id=run_id, idempotency_key__in=list(keys))
    return {row.idempotency_key or "": event_of(row) for row in rows}


def following(run_id: str, sequence: int) -> list[Event]:
    """Events that followed up the one with ``sequence``."""
    return [
        event_of(row) for row in RunEvent.objects.filter(run_id=run_id, parent=sequence).order_by("sequence")
    ]


def events_of(run_id: str, *, after: int = 0) -> Iterable[Event]:
    """The log of a run, in sequence."""
    rows = RunEvent.objects.filter(run_id=run_id, sequence__gt=after).order_by("sequence")
    return (event_of(row) for row in rows.iterator(chunk_size=1000))


def event_of(row: RunEvent) -> Event:
    """A stored event as the domain sees it."""
    return row.as_fact()
