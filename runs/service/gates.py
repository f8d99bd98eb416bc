"""What a decision at a gate needs of its run. The approvals app decides; this holds the run still."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Sum

from agentplatform.clock import database_now
from runs import store
from runs.domain import guards
from runs.domain.facts import Json, stamp
from runs.domain.policy import Effective
from runs.domain.state import RunState
from runs.models import Run


@dataclass(frozen=True, slots=True)
class Held:
    """A locked run, the policy in force now, and the database's clock read after the lock."""

    run: Run
    state: RunState
    policy: Effective
    now: datetime


def run_lock(run_id: str) -> Held:
    """Lock a run for a decision; in a transaction. Its requests change only under this lock.

    Raises ``NotFound``.
    """
    run = store.lock_run(run_id)
    around = store.surroundings(run)
    return Held(run, RunState.from_json(run.state), around.policy, database_now())


def spent_by_others(run: Run) -> Decimal:
    """What the other runs of this run's task cost, in US dollars. One query."""
    others = Run.objects.filter(task_id=run.task_id).exclude(pk=run.pk)
    return others.aggregate(cost=Sum("cost_usd"))["cost"] or Decimal(0)


def guards_with_waiver(held: Held, *, guard: str, reason: str, by_name: str) -> list[Json]:
    """Every guard of a held run, evaluated as if ``guard`` were waived by that person for that reason."""
    patch_id = (held.state.patch or {}).get("id", "")
    patch = store.artifacts_of(held.run.pk, [patch_id]).get(patch_id)
    reading = patch.facts if patch else None
    evidence = guards.Evidence(held.state, held.run.task.contract, held.policy.values, reading)
    at = stamp(held.now)
    results = guards.evaluate_waived(evidence, guard=guard, by=by_name, reason=reason, at=at)
    return [result.to_json() for result in results]
