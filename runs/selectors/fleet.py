"""Repositories with their policies, workers with what they hold, the lifecycle with what stands where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from agentplatform.clock import database_now
from runs.auth import Principal, visible_repositories
from runs.domain.diagram import svg
from runs.domain.errors import NotFound
from runs.domain.facts import Json
from runs.domain.policy import Effective
from runs.domain.vocabulary import ACTIVE, CLAIMABLE, OWNER, Role, RunStatus
from runs.models import Lease, Repository, Run, WorkerAccount
from runs.selectors.policies import effective_policies
from runs.selectors.runs import run_rows, visible_runs, visible_surroundings
from runs.selectors.words import brief_id, joined, when

ALIVE: Final = timedelta(seconds=90)
RECENT_RUNS: Final = 10


# --- repositories --------------------------------------------------------------------------------


def repository_list(*, principal: Principal) -> Json:
    """``{rows, empty}`` of /repositories/. Three queries, whatever the number of repositories."""
    found = list(_visible(principal).select_related("policy").order_by("name"))
    counts = dict(
        Run.objects.filter(repository__in=[row.pk for row in found], status__in=[s.value for s in ACTIVE])
        .values_list("repository_id")
        .annotate(n=Count("pk"))
    )
    policies = effective_policies(repository_ids=[row.pk for row in found])
    hint = "An admin adds one by name and git address; tasks name it as theirs."
    return {
        "rows": [_repository(row, counts.get(row.pk, 0), policies[row.pk]) for row in found],
        "empty": {"title": "No repository yet", "hint": hint},
    }


def _visible(principal: Principal) -> QuerySet[Repository]:
    ids = visible_repositories(principal)
    return Repository.objects.all() if ids is None else Repository.objects.filter(pk__in=ids)


def _repository(row: Repository, active: int, policy: Effective) -> Json:
    values = policy.values
    return {
        "name": row.name,
        "href": reverse("repository", args=[row.name]),
        "url": row.url,
        "branch": row.base_branch,
        "policy": row.policy.name,
        "active": f"{active:,}",
        "active_href": f"{reverse('runs')}?repository={row.name}",
        "auto_pr": "allowed" if values["allow_auto_pr"] else "always reviewed",
        "ceiling": values["risk_ceiling"],
        "archived": bool(row.archived_at),
    }


def repository_page(*, principal: Principal, name: str) -> Json:
    """One repository: facts, the effective policy with where each value comes from, its newest runs.

    Ten queries. Raises ``NotFound`` for one that they may not see.
    """
    row = _visible(principal).select_related("policy").filter(Q(name=name) | Q(pk=name)).first()
    if row is None:
        raise NotFound
    policy = effective_policies(repository_ids=[row.pk])[row.pk]
    surroundings = visible_surroundings(principal)
    runs = visible_runs(principal).filter(repository=row).order_by("-created_at", "-pk")[:RECENT_RUNS]
    return {
        "name": row.name,
        "facts": [
            {"term": "Address", "text": row.url, "mono": True},
            {"term": "Provider", "text": row.provider},
            {"term": "Base branch", "text": row.base_branch, "mono": True},
            {"term": "Policy", "text": row.policy.name},
            {"term": "Id", "text": brief_id(row.pk), "mono": True, "copy_text": row.pk},
        ],
        "version": policy.version,
        "policy": [_field(name, value, policy.origins[name]) for name, value in policy.values.items()],
        "runs": run_rows(runs, principal=principal, surroundings=surroundings),
        "runs_href": f"{reverse('runs')}?repository={row.name}",
    }


def _field(name: str, value: object, origins: list[str]) -> Json:
    return {
        "name": name.replace("_", " "),
        "lines": _lines(value),
        "origin": ", ".join(origins),
        "built_in": origins == ["built-in"],
    }


def _lines(value: object) -> list[str]:
    """A policy value in words, one line for each part."""
    if isinstance(value, dict):
        return [f"{name.replace('_', ' ')}: {inner}" for name, inner in value.items()] or ["none"]
    if isinstance(value, list):
        flat = [", ".join(part) if isinstance(part, list) else str(part) for part in value]
        return flat or ["none"]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return ["no limit" if value is None else str(value)]


# --- workers -------------------------------------------------------------------------------------


def worker_list(*, principal: Principal) -> Json:
    """``{rows, roles, empty}`` of /workers/. Five queries, whatever the number of workers.

    Of runs that this person may not see, only their number is told.
    """
    now = database_now()
    workers = list(WorkerAccount.objects.select_related("owner").order_by("name"))
    leases: dict[str, list[Lease]] = defaultdict(list)
    for lease in (
        Lease.objects.filter(ended_at__isnull=True).select_related("run__task").order_by("acquired_at")
    ):
        leases[lease.worker_id].append(lease)
    seen = visible_repositories(principal)
    rows = [_worker(row, leases[row.pk], seen, now) for row in workers]
    waiting = dict(
        Run.objects.exclude(claim_role="").values_list("claim_role").annotate(n=Count("pk")).order_by()
    )
    return {
        "rows": rows,
        "roles": [_role(role, workers, waiting, now) for role in dict.fromkeys(CLAIMABLE.values())],
        "empty": {
            "title": "No worker yet",
            "hint": "Make an account with create_worker, then start a worker with its token.",
        },
    }


def _worker(row: WorkerAccount, leases: list[Lease], seen: frozenset[str] | None, now: datetime) -> Json:
    visible = [lease for lease in leases if seen is None or lease.repository_id in seen]
    heard = max((at for at in (row.last_seen_at, row.last_asked_at) if at), default=None)
    alive = heard is not None and now - heard < ALIVE
    state = ("disabled", "quiet", "slash") if row.disabled_at else _alive(leases, alive=alive, heard=heard)
    return {
        "name": row.name,
        "state": {"state": state[0], "title": state[0].capitalize(), "tone": state[1], "icon": state[2]},
        "meta": joined(
            ", ".join(Role(role).label.lower() for role in row.roles),
            f"isolation {row.isolation}" if row.isolation else "",
            f"version {row.version}" if row.version else "",
            f"owned by {row.owner.get_username()}" if row.owner else "",
            ", ".join(sorted({*row.labels, *row.offers})),
        ),
        "heard": when(heard),
        "holds": [
            {
                "href": reverse("run", args=[lease.run_id]),
                "title": lease.run.task.title,
                "status": RunStatus(lease.run.status).label.lower(),
                "since": when(lease.acquired_at),
                "beat": when(lease.heartbeat_at),
            }
            for lease in visible
        ],
        "hidden": len(leases) - len(visible),
    }


def _alive(leases: list[Lease], *, alive: bool, heard: datetime | None) -> tuple[str, str, str]:
    if leases:
        return ("working", "busy", "bolt") if alive else ("silent", "warn", "warning")
    if alive:
        return "ready", "ok", "check"
    return ("away", "quiet", "ring") if heard else ("never seen", "quiet", "ring")


def _role(role: Role, workers: list[WorkerAccount], waiting: Mapping[str, int], now: datetime) -> Json:
    able = [row for row in workers if role.value in row.roles and not row.disabled_at]
    here = [row for row in able if row.last_asked_at and now - row.last_asked_at < ALIVE]
    count = waiting.get(role.value, 0)
    return {
        "label": role.label,
        "sentence": role.sentence,
        "there": f"{len(here)} of {len(able)} asking",
        "waiting": f"{count:,} waiting",
        "tone": "warn" if count and not here else "quiet",
    }


# --- the lifecycle -------------------------------------------------------------------------------


def lifecycle_page(*, principal: Principal) -> Json:
    """``{drawing, statuses}``: the machine with how many runs stand where. One query."""
    counts = dict(visible_runs(principal).order_by().values_list("status").annotate(n=Count("*")))
    hrefs = {status.value: f"{reverse('runs')}?status={status.value}" for status in RunStatus}
    return {
        "drawing": svg(counts=counts, hrefs=hrefs),
        "statuses": [
            {
                "label": status.label,
                "sentence": status.sentence,
                "owner": OWNER[status].label,
                "count": f"{counts.get(status.value, 0):,}",
                "href": hrefs[status.value],
            }
            for status in RunStatus
        ],
    }
