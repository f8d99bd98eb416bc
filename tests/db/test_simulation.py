"""The policy time machine: recorded decisions asked again under another policy."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from agentplatform.clock import database_now
from approvals.history import load
from approvals.history.posting import Past
from approvals.history.stories import REQUESTS, STORIES
from runs import auth, service
from runs.demo.load import demo_load
from runs.domain.facts import Json
from runs.domain.vocabulary import Ev, RunStatus, TaskStatus
from runs.models import Person, Repository, Run
from runs.selectors.simulation import newest_runs
from tests.driver import Driver
from tests.simulating import judged, simulated

S = RunStatus


def differing(repository: Repository, values: Json) -> dict[str, list[tuple[str, str, str]]]:
    """Run id → (event, as recorded, as it would be) of each difference; runs without one are left out."""
    return {
        run_id: [(d.event, d.recorded, d.simulated) for d in one.simulated.differences]
        for run_id, one in simulated(repository, values).items()
        if one.simulated.differences
    }


@pytest.mark.django_db
def test_a_run_that_is_too_long_is_passed_over_and_hides_no_other():
    short = Driver.at(S.SUCCEEDED).run
    long = Driver.at(S.EXECUTING).run
    Run.objects.filter(pk=long.pk).update(repository=short.repository, version=5_000)
    assert [run.pk for run in newest_runs([short.repository_id], runs=10, events=2_000)] == [short.pk]
    Run.objects.filter(pk=long.pk).update(version=long.version)


BY_ITSELF = "the pull request goes out by itself"
A_PERSON = "a person decides (patch)"


@pytest.mark.django_db
def test_the_policy_in_force_decides_a_past_as_it_did_and_a_seeded_change_exactly_what_it_is_about(
    monkeypatch: pytest.MonkeyPatch,
):
    demo_load()
    worker = load._worker(load._places())
    place, begin = Repository.objects.get(name="billing"), database_now() - timedelta(days=9)
    for story in STORIES:
        past = Past(
            repository=place,
            asker=auth.of_person(Person.objects.get(username="sam")),
            reviewer=auth.of_person(Person.objects.get(username="rita")),
            worker=worker,
            base_commit=load._head(place),
            dollars=0.1,
            now=begin,
            dice=random.Random(4),
        )
        past.post(REQUESTS[0], story)
    as_it_was = simulated(place)
    assert len(as_it_was) == Run.objects.filter(repository=place).count()
    assert [one for one in as_it_was.values() if not one.simulated.is_unchanged] == []

    own = place.policy.versions.order_by("-number")[0].values
    found = differing(place, {**own, "judge_confidence": 0.94})  # the judge of the past is 0.93 sure
    passed = Run.objects.filter(repository=place, events__event_type=Ev.JUDGE_PASSED).distinct()
    alone = Run.objects.filter(repository=place, events__event_type=Ev.AUTO_PR_ALLOWED).distinct()
    assert set(found) == {run.pk for run in passed}
    assert {run_id for run_id, ((_, was, _),) in found.items() if was == BY_ITSELF} == {r.pk for r in alone}
    assert {then for ((_, _, then),) in found.values()} == {A_PERSON}
    assert alone.count() not in (0, passed.count())


@pytest.mark.django_db
def test_each_change_of_a_policy_changes_the_decisions_that_it_is_about():
    surer = judged(0.95)
    place = surer.repository
    unsure = judged(0.85, repository=place)
    risky = judged(0.95, "infra/main.tf", repository=place)
    asked = judged(0.6, repository=place)
    asked.decide(Ev.APPROVED)
    everything = {run.run_id for run in (surer, unsure, risky, asked)}

    assert differing(place, {}) == {}
    assert differing(place, {"judge_confidence": 0.9}) == {
        unsure.run_id: [(Ev.JUDGE_PASSED, BY_ITSELF, A_PERSON)]
    }
    assert differing(place, {"judge_confidence": 0.5}) == {
        asked.run_id: [(Ev.JUDGE_PASSED, A_PERSON, BY_ITSELF)]
    }
    assert set(differing(place, {"allow_auto_pr": False})) == everything
    (patch, judge) = differing(place, {"risky_paths": ["infra/**"]}).pop(risky.run_id)
    assert patch[0] == Ev.PATCH_CREATED  # the risk rises when the patch is read, and opens the gate later
    assert judge == (Ev.JUDGE_PASSED, BY_ITSELF, A_PERSON)
    (denied,) = differing(place, {"risky_paths": ["infra/**"], "risk_ceiling": "medium"})[risky.run_id][1:]
    assert denied[2] == "fails: denied by policy, risk_ceiling"
    (refused, *_) = differing(place, {"required_verifiers": ["lint"]})[surer.run_id]
    assert refused[2] == "the task is rejected: Required verifiers are missing: lint."
    (opened,) = differing(place, {"approvals": {"low": 2}})[asked.run_id]
    assert opened == (Ev.JUDGE_PASSED, A_PERSON, "2 people decide (patch)")
    assert set(differing(place, {"require_isolation": "namespace"})) == everything
    assert set(differing(place, {"budget": {"max_steps": 7}})) == everything


@pytest.mark.django_db
def test_an_approval_that_another_guard_would_have_forbidden_is_refused():
    driver = judged(0.6, "secrets/key.py")
    driver.decide(Ev.APPROVED)
    guarded, approved = differing(driver.repository, {"forbidden_paths": ["secrets/**"]})[driver.run_id]
    assert guarded == (Ev.JUDGE_PASSED, A_PERSON, A_PERSON)
    assert approved[0] == Ev.APPROVED
    assert approved[2].startswith("refused: A guard forbids approving")
    assert approved[2].endswith("Failing: paths.")


@pytest.mark.django_db
def test_what_the_policy_in_force_says_as_well_is_marked():
    driver = judged(0.85)
    service.policy_change(
        policy=driver.repository.policy, values={"judge_confidence": 0.9}, based_on=0, by=service.COMMAND_LINE
    )
    (now,) = simulated(driver.repository).values()
    assert now.simulated.differences == now.already
    assert now.new == []
    (looser,) = simulated(driver.repository, {"judge_confidence": 0.9, "approvals": {"low": 2}}).values()
    assert len(looser.new) == 1  # the gate would need two, which is new


@pytest.mark.django_db
def test_a_rejected_task_that_would_be_taken_is_listed():
    driver = Driver.prepared(policy={"required_verifiers": ["lint"]})
    driver.submit()
    assert driver.task.status == TaskStatus.REJECTED
    said = command(driver.repository, {})
    assert f"{driver.task_id} Replace utcnow\n  was rejected; then: taken\n" in said
    assert "0 runs of" in said
    assert "1 rejected tasks would fare otherwise" in said


@pytest.mark.django_db
def test_the_command_says_each_difference_and_counts_the_rest(tmp_path: Path):
    surer = judged(0.95)
    unsure = judged(0.85, repository=surer.repository)
    name = surer.repository.name
    said = command(surer.repository, {"judge_confidence": 0.9}, tmp_path)
    assert f"{unsure.run_id} Replace utcnow" in said
    assert f"was: {BY_ITSELF}; then: {A_PERSON}" in said
    assert "Judge: passed (pass, 0.85 of 0.8 needed) → failed (pass, 0.85 of 0.9 needed)" in said
    assert f"2 runs of {name}: 1 unchanged, 1 with decisions that would differ, 0 undecidable." in said
    assert surer.run_id not in said
    assert f"2 runs of {name}: 2 unchanged" in command(surer.repository)
    assert f"1 runs of {name}: 0 unchanged" in command(
        surer.repository, {"judge_confidence": 0.9}, tmp_path, newest=1
    )
    with pytest.raises(CommandError, match="judge_confidence: must be a number from 0 to 1"):
        command(surer.repository, {"judge_confidence": 7}, tmp_path)
    with pytest.raises(CommandError, match="no repository nowhere"):
        call_command("simulate_policy", "nowhere")


def command(
    repository: Repository, values: Json | None = None, folder: Path | None = None, **more: Any
) -> str:
    said = StringIO()
    if values is not None:
        file = (folder or Path(settings.DATA_DIR)) / f"{repository.pk}.json"
        file.write_text(json.dumps(values))
        more["policy"] = file
    call_command("simulate_policy", repository.name, stdout=said, **more)
    return said.getvalue()
