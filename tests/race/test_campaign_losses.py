"""A campaign to its end through losses at random points: whatever a transaction had done when its process
died is gone, and nothing is begun, counted or brought out twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest
from django.db.models import F

from runs import projections, store, timeouts
from runs.domain.campaigns.decide import Look, committed
from runs.domain.campaigns.state import fold_campaign
from runs.domain.campaigns.words import CampaignStatus
from runs.domain.vocabulary import Role, TaskStatus
from runs.models import Campaign, Lease, PullRequest, Run, Task
from runs.selectors.campaigns import campaign_shapes
from runs.service import tasks
from tests.campaigns import claim_any, finish, make_campaign, state_of
from tests.db.test_sweep import lapse
from tests.factories import Machine, worker

pytestmark = pytest.mark.django_db
PACE, CAP, EACH = 2, 4, 1
#: Each is called inside the transaction that begins, moves or ends something.
DEADLY = ((store, "append_campaign"), (tasks, "start_run"), (projections, "tell"))


class Killed(BaseException):
    """The process died here, before the commit."""


@contextmanager
def mortal(chance: random.Random) -> Iterator[None]:
    """Once in a while the process dies when the work of a transaction is done and not committed."""

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            done = real(*args, **options)
            if chance.random() < 0.05:
                raise Killed
            return done

        return call

    with ExitStack() as patches, suppress(Killed):
        for module, name in DEADLY:
            patches.enter_context(mock.patch.object(module, name, deadly(getattr(module, name))))
        yield


def test_through_losses_at_random_points_each_repository_is_done_once_and_every_limit_holds() -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    campaign = make_campaign(
        6,
        first_wave=2,
        completion_mode="pr_created",
        auto_pr=True,
        budget={"max_cost_usd": str(EACH), "max_runs": 1_000, "max_takeovers": 1_000},
        pull_requests_per_hour=PACE,
        max_cost_usd=str(CAP),
    )
    machine, git = worker(), worker(Role.GIT_INTEGRATION)
    for _ in range(400):
        if state_of(campaign).is_over:
            break
        with mortal(chance):
            _something(chance, machine, git)
        _assert_limits_hold(campaign, seed)
    state = state_of(campaign)
    assert state.status == CampaignStatus.COMPLETED, (seed, state.counts())
    assert state.counts()["done"] == 6, seed
    assert Task.objects.filter(campaign=campaign, status=TaskStatus.COMPLETED).count() == 6, seed
    assert PullRequest.objects.count() == 6, seed


def _something(chance: random.Random, machine: Machine, git: Machine) -> None:
    """What one of the processes, or time, does next."""
    what = chance.choice(["sweep", "sweep", "work", "work", "bring out", "time"])
    if what == "sweep":
        timeouts.sweep()
    elif what == "work" and (holder := claim_any(machine)):
        finish(holder)
    elif what == "bring out" and (holder := claim_any(git)):
        holder.open_pull_request()
    elif what == "time":
        _time_passes()


def _time_passes() -> None:
    """Leases of the dead lapse, a retry's pause is over, an hour lies behind the last pull requests."""
    for run_id in list(Lease.objects.filter(ended_at=None).values_list("run_id", flat=True)):
        lapse(run_id)
    Run.objects.filter(not_before__isnull=False).exclude(claim_role="").update(not_before=None)
    PullRequest.objects.update(created_at=F("created_at") - timedelta(minutes=61))


def _assert_limits_hold(campaign: Campaign, seed: int) -> None:
    row = Campaign.objects.select_related("created_by").get(pk=campaign.pk)
    state = state_of(campaign)
    log = list(store.campaign_events_of(campaign.pk))
    begun = [part for part in state.parts.values() if part.tries]
    assert len(begun) <= state.opened, seed
    assert Task.objects.filter(campaign=campaign).count() == sum(part.tries for part in begun), seed
    assert committed(state, Look()) <= Decimal(CAP), seed
    (shape,) = campaign_shapes([row])
    told = fold_campaign(log[: shape["sequence"]])
    assert shape["counts"] == told.counts(), seed
    assert (shape["status"], shape["wave"], shape["opened"]) == (told.status, told.wave, told.opened), seed
    _assert_pace_holds(campaign, seed)


def _assert_pace_holds(campaign: Campaign, seed: int) -> None:
    """In no hour were more opened than the pace allows."""
    times = sorted(
        PullRequest.objects.filter(run__task__campaign=campaign).values_list("created_at", flat=True)
    )
    for first, later in zip(times, times[PACE:], strict=False):
        assert later - first >= timedelta(hours=1), seed
