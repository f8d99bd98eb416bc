"""SIGKILL at every boundary: the run finishes, nothing is done twice, nothing is left behind."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs import timeouts
from runs.domain.vocabulary import RunStatus
from runs.models import Run
from tests.db.test_sweep import lapse
from tests.worker import mortal, product
from tests.worker.product import EDIT, FINISH, Product, contract, say

pytestmark = pytest.mark.django_db(transaction=True)

# What a worker needs is loaded once, and each of its lives is a fork of that.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([mortal.__name__, "worker.phases.looping", "worker.phases.model_planning"])
# Boundaries of a whole run are about this many; a later one lets a worker finish.
BOUNDARIES = 60


def contract_with_effects(effects: Path) -> dict[str, Any]:
    """Two calls with an effect outside that is counted, and an edit between them."""
    tool = {
        "name": "notify",
        "command": f'echo "$OPERATION_ID" >> {effects}; echo told',
        "reconcile": f'grep -qx "$OPERATION_ID" {effects} && echo told',
        "effect": "outside",
    }
    first, second = say(("notify", {"text": "begin"})), say(("notify", {"text": "done"}))
    agent = {"tools": [tool]}
    budget = {"max_takeovers": 1_000, "max_outside_writes": 2, "max_runs": 1_000}
    return contract(first, EDIT, second, FINISH, agent=agent, budget=budget)


def finish_between_kills(made: Product, run: Run, kills: list[int]) -> int:
    """How many died: workers in turn, each killed where it says, until the run waits for its review."""
    lives = 0
    for kill_at in [*kills, *[10 * BOUNDARIES] * 3]:
        life = FORKS.Process(
            target=mortal.live, args=(made.url, made.token, made.folder / "sandboxes", kill_at), daemon=True
        )
        life.start()
        life.join(60)
        assert life.exitcode in (0, -signal.SIGKILL), life.exitcode
        lives += life.exitcode == -signal.SIGKILL
        if product.status(run) == RunStatus.WAITING_FOR_APPROVAL:
            break
        lapse(run.pk)
        timeouts.sweep()
        run = made.latest()
    return lives


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_every_boundary_each_effect_is_once_and_the_run_finishes(
    make_product: Callable[..., Product], tmp_path: Path, kills: int
) -> None:
    # A worker that dies before it began costs its run, by contract, and the next run follows at once.
    made = make_product(retry_base_seconds=1, retry_max_seconds=1)
    chance = random.Random(kills)
    killed = 0
    seeds = itertools.count()
    while killed < kills:
        effects = tmp_path / f"effects-{next(seeds)}"
        effects.touch()
        run = made.submit(**contract_with_effects(effects))
        # Few boundaries ahead: each life gets somewhere, and dies soon.
        plan = [chance.randint(2, BOUNDARIES // 3) for _ in range(min(6, kills - killed))]
        killed += finish_between_kills(made, run, plan)
        _once_each(made.latest(), effects)
    assert not list((tmp_path / "sandboxes" / "runs").iterdir())


def _once_each(run: Run, effects: Path) -> None:
    assert product.status(run) == RunStatus.WAITING_FOR_APPROVAL, product.types(run)
    operations = effects.read_text().split()
    assert len(operations) == len(set(operations)) == 2, operations
    for kind in ("tool_requested", "tool_completed"):
        counted = Counter(event.payload["operation_id"] for event in product.events(run, kind))
        assert len(counted) == 3
        assert set(counted.values()) == {1}, counted
    types = Counter(product.types(run))
    assert types["model_decision"] == 5
    assert types["plan_created"] == types["patch_created"] == types["judge_passed"] == 1
