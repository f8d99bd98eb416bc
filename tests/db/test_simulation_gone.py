"""What nobody can decide any more: runs whose evidence is gone."""

from __future__ import annotations

from dataclasses import replace

import pgtrigger
import pytest

from runs.domain.simulation import simulate
from runs.models import Artifact, Run
from runs.selectors import simulation
from runs.selectors.policies import effective_policies
from tests.simulating import judged, simulated

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """Evidence is taken away on purpose: the rows do not follow from what is left."""


@pytest.mark.parametrize("gone", ["row", "reading", "document"])
def test_a_run_whose_evidence_is_gone_is_undecidable_and_never_unchanged(gone: str):
    driver = judged(0.95)
    artifacts = Artifact.objects.filter(run_id=driver.run_id)
    if gone == "row":
        with pgtrigger.ignore("runs.Artifact:artifacts_no_delete"):
            artifacts.filter(kind="patch").delete()
    elif gone == "reading":
        artifacts.filter(kind="patch").update(facts={})
    else:
        artifacts.filter(kind="judge_report").update(document=None)
    one = simulated(driver.repository)[driver.run_id].simulated
    assert one.undecidable
    assert not one.is_unchanged
    assert one.differences == ()


def test_differences_before_the_gap_stand():
    driver = judged(0.95, "infra/main.tf")
    Artifact.objects.filter(run_id=driver.run_id, kind="judge_report").update(document=None)
    one = simulated(driver.repository, {"risky_paths": ["infra/**"]})[driver.run_id].simulated
    assert [difference.event for difference in one.differences] == ["patch_created"]
    assert one.undecidable.startswith("What was read in judge_report")


def test_a_gap_in_the_log_leaves_nothing_to_decide_after_it():
    run = Run.objects.select_related("task").get(pk=judged(0.95).run_id)
    ((_, recorded),) = simulation._recorded([run])
    policy = effective_policies(repository_ids=[run.repository_id])[run.repository_id].values
    assert simulate(recorded, policy).is_unchanged
    for number in (1, 4, run.version):
        kept = tuple(event for event in recorded.events if event.sequence != number)
        found = simulate(replace(recorded, events=kept), policy)
        assert (found.differences, found.undecidable) == ((), f"Event {number} is gone.")
        assert not found.is_unchanged
    grown = replace(recorded, length=recorded.length - 1)
    assert simulate(grown, policy).is_unchanged, "a run that went on meanwhile has lost nothing"
