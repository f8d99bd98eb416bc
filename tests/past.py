"""A synthetic past: runs that ended, with the verdicts and lives that a test wants, some hundred at once.

Inserted as rows, because hundreds of runs by way of the service would take minutes; what is counted over them
reads outcomes and pull requests alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs.domain.facts import Json, stamp
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import RunStatus, TaskStatus
from runs.models import Person, PullRequest, Repository, Run, RunOutcome, Task
from tests import factories as make


@dataclass(frozen=True)
class Ended:
    """How one run ended. ``verdicts``: (verdict, confidence) of each patch; ``life``: its pull request's
    state, "" for none; it was opened ``days`` ago."""

    verdicts: tuple[tuple[str, float], ...] = ()
    life: str = ""
    reverted: bool = False
    red: bool = False
    cost: str = "1"
    agent: str = "script"
    labels: tuple[str, ...] = ()
    campaign: str = ""
    days: float = 2
    merged_after: timedelta = field(default=timedelta(hours=4))


def post(where: Repository, *ended: Ended, by: Person | None = None) -> list[Run]:
    """The runs, in the order given."""
    person, now = by or make.person(), database_now()
    tasks = [_task(where, person, one, now) for one in ended]
    Task.objects.bulk_create(tasks)
    runs = [_run(where, task) for task in tasks]
    Run.objects.bulk_create(runs)
    RunOutcome.objects.bulk_create(map(_outcome, runs, ended))
    PullRequest.objects.bulk_create(
        _pull_request(run, one) for run, one in zip(runs, ended, strict=True) if one.life
    )
    return runs


def _task(where: Repository, person: Person, one: Ended, now: datetime) -> Task:
    at, task_id = now - timedelta(days=one.days), new_id("task")
    contract: Json = {**make.contract(), "repository": where.name, "base_branch": "main", "budget": {}}
    state = TaskState(
        id=task_id, repository_id=where.pk, status=TaskStatus.DRAFT, contract=contract,
        labels=list(one.labels), created_at=stamp(at), updated_at=stamp(at),
    )  # fmt: skip
    return Task(
        id=task_id, title=contract["title"], repository=where, completion_mode="pr_created", risk_level="low",
        labels=list(one.labels), contract=contract, state=state.to_json(), campaign_id=one.campaign or None,
        created_by=person, created_at=at, updated_at=at,
    )  # fmt: skip


def _run(where: Repository, task: Task) -> Run:
    at, run_id = task.created_at, new_id("run")
    times = dict.fromkeys(("created_at", "updated_at", "status_since"), at)
    told: Json = dict.fromkeys(times, stamp(at))
    state = RunState(
        id=run_id, task_id=task.pk, repository_id=where.pk, attempt_no=1, status=RunStatus.CREATED,
        risk_level="low", effective_risk="low", completion_mode="pr_created",
        **told,
    )  # fmt: skip
    return Run(id=run_id, task=task, repository=where, attempt_no=1, state=state.to_json(), **times)


def _outcome(run: Run, one: Ended) -> RunOutcome:
    verdicts = [
        {"verdict": word, "confidence": sure, "seconds": None if word == "alone" else 600}
        for word, sure in one.verdicts
    ]
    return RunOutcome(
        run=run, task=run.task, repository=run.repository, agent=one.agent, status="SUCCEEDED",
        cost_usd=Decimal(one.cost), created_at=run.created_at, ended_at=run.created_at, verdicts=verdicts,
    )  # fmt: skip


def _pull_request(run: Run, one: Ended) -> PullRequest:
    at = run.created_at
    over = at + one.merged_after if one.life in ("MERGED", "CLOSED") else None
    return PullRequest(
        run=run, repository=run.repository, provider="git", url="https://git.example/x", branch=run.pk,
        commit_sha="c" * 40, tree_sha="d" * 40, body="", state=one.life, was_red=one.red, created_at=at,
        updated_at=at, ended_at=over, reverted_at=over if one.reverted else None,
    )  # fmt: skip
