"""Recorded runs, and what they would have been under another policy."""

from __future__ import annotations

from typing import Any

from runs.domain.facts import Json
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Repository
from runs.selectors.policies import effective_policies, effective_with
from runs.selectors.simulation import SimulatedRun, recorded_runs, simulate_runs
from tests.driver import Driver

S = RunStatus


def simulated(repository: Repository, values: Json | None = None) -> dict[str, SimulatedRun]:
    """Run id → what it would have been with ``values`` as the repository's own policy."""
    in_force = effective_policies(repository_ids=[repository.pk])
    policies = in_force
    if values is not None:
        policies = effective_with(repository_ids=[repository.pk], policy=repository.policy, values=values)
    runs = recorded_runs([repository.pk]).iterator()
    return {one.run.pk: one for one in simulate_runs(runs, policies=policies, in_force=in_force)}


def judged(confidence: float, *paths: str, repository: Repository | None = None, **contract: Any) -> Driver:
    """A run that a judge passed with this confidence, in the repository of others when it is given."""
    driver = Driver.prepared()
    if repository is not None:
        driver.repository = repository
        driver.worker.repositories.set([repository])
    driver.submit(**contract)
    driver.drive(S.EXECUTING)
    driver.post(Ev.PATCH_CREATED, driver.patch(*paths))
    driver.drive(S.JUDGING)
    driver.post(Ev.JUDGE_PASSED, driver.judgement(confidence=confidence))
    return driver
