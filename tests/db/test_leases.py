"""A lease is its holder's own, and what it hands over is what was seen."""

from __future__ import annotations

import io

import pytest

from agentplatform.ids import new_id
from runs import artifacts, auth, leases, service
from runs.domain.commands import Caller, Command
from runs.domain.errors import GuardFailed, LeaseLost
from runs.domain.vocabulary import MACHINE_ROLES, ArtifactKind, Ev, RunStatus
from runs.models import WorkerAccount
from tests.driver import Driver

pytestmark = pytest.mark.django_db

S = RunStatus


def _other_worker() -> WorkerAccount:
    return WorkerAccount.objects.create(name=new_id("worker"), roles=[role.value for role in MACHINE_ROLES])


def test_a_token_in_other_hands_moves_nothing():
    driver = Driver.at(S.EXECUTING)
    thief = _other_worker()
    before = driver.run.version
    caller = Caller(thief.pk, thief.name, frozenset(MACHINE_ROLES), is_machine=True)
    request = Command(Ev.TOOL_REQUESTED, driver.payload(Ev.TOOL_REQUESTED), caller, "k", driver.token)
    with pytest.raises(LeaseLost):
        service.apply_event(driver.run_id, request)
    with pytest.raises(LeaseLost):
        leases.lease_heartbeat(principal=auth.of_worker(thief), run_id=driver.run_id, token=driver.token)
    with pytest.raises(LeaseLost):
        artifacts.artifact_store(
            run_id=driver.run_id,
            kind=ArtifactKind.LOG,
            content=io.BytesIO(b"log"),
            content_type="text/plain",
            sha256="0" * 64,
            account=thief.pk,
            lease_token=driver.token,
        )
    assert driver.run.version == before


def test_a_branch_with_another_tree_than_the_patch_makes_is_not_taken():
    driver = Driver.at(S.PR_CREATING)
    if driver.state.holder is None:
        driver.claim()
    with pytest.raises(GuardFailed) as refused:
        driver.post(Ev.PR_CREATED, {**driver.payload(Ev.PR_CREATED), "tree_sha": "e" * 40})
    assert refused.value.extra["guards"][0]["name"] == "tree"
    driver.post(Ev.PR_CREATED)
    assert driver.run.status == S.SUCCEEDED
