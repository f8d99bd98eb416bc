"""Workers with what they hold, the lifecycle with what stands where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count
from django.urls import reverse

from agentplatform.clock import database_now
from runs.auth import Principal, visible_repositories
from runs.domain.diagram import svg
from runs.domain.facts import Json
from runs.domain.vocabulary import CLAIMABLE, OWNER, Role, RunStatus
from runs.models import Lease, Run, WorkerAccount
from runs.selectors.runs import visible_runs
from runs.selectors.words import joined, when

ALIVE: Final = timedelta(seconds=90)


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
