"""Long runs fold from a checkpoint, which is checked itself and never a fact."""

import json

import pytest

from approvals.models import ApprovalRequest
from runs import rebuild, store
from runs.domain.facts import canonical
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import FoldCheckpoint, Run, Step
from runs.rebuild import checkpoints
from runs.rebuild.folding import fold_run
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """These tests damage rows on purpose."""


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", 5)


@pytest.fixture
def holder():
    holder = factories.run_in(RunStatus.EXECUTING)
    holder.post(Ev.TOOL_REQUESTED, operation_id="a", tool="shell", arguments={"n": [1.5, 0]}, label="list")
    assert rebuild.differences(holder.run_id) == []
    return holder


def test_going_on_from_a_checkpoint_adds_up_to_the_same_as_the_whole_log(holder):
    begun = FoldCheckpoint.objects.get().sequence
    factories.drive(holder, RunStatus.WAITING_FOR_APPROVAL)
    run = holder.run
    start, wrong = checkpoints.load(run)
    assert start is not None
    assert (start.state.sequence, wrong) == (begun, "")
    on, whole = fold_run(run, start), fold_run(run)
    assert on == whole
    assert set(on.others["approval"]) == set(ApprovalRequest.objects.values_list("pk", flat=True))
    assert rebuild.differences(run.pk) == rebuild.differences(run.pk, whole=True) == []
    assert FoldCheckpoint.objects.get().sequence == run.version > begun


def test_a_checkpoint_reads_only_what_came_after(holder):
    holder.post(Ev.TOOL_COMPLETED, operation_id="a", outcome="succeeded")
    start, _ = checkpoints.load(holder.run)
    assert start is not None
    assert [event.type for event in store.events_of(holder.run_id, after=start.state.sequence)] == [
        Ev.TOOL_COMPLETED
    ]


def test_rows_are_held_against_the_checkpoint_as_well(holder):
    Step.objects.update(label="something else")
    assert [d.field for d in rebuild.differences(holder.run_id)] == ["label"]
    rebuild.rebuild(holder.run_id)
    assert rebuild.differences(holder.run_id) == []


def tampered_content(kept):
    content = json.loads(kept.content)
    content["state"]["used"]["cost_usd"] = "0"
    content["state"]["priority"] = 9
    kept.content = canonical(content).decode()


def tampered_place(kept):
    kept.sequence -= 1


@pytest.mark.parametrize("tamper", [tampered_content, tampered_place])
def test_a_tampered_checkpoint_is_found_and_not_believed(holder, tamper):
    kept = FoldCheckpoint.objects.get()
    tamper(kept)
    kept.save()
    found = rebuild.differences(holder.run_id)
    assert [(d.where, d.field) for d in found] == [("checkpoint", "content")]
    assert "without the platform's key" in str(found[0])
    rebuild.rebuild(holder.run_id)
    assert rebuild.differences(holder.run_id) == []


def test_a_fold_by_other_code_is_made_anew(holder, monkeypatch):
    monkeypatch.setattr(checkpoints, "folded_by", lambda: "other code")
    assert checkpoints.load(holder.run) == (None, "")
    assert rebuild.differences(holder.run_id) == []
    assert FoldCheckpoint.objects.get().folded_by == "other code"


def test_short_runs_have_none():
    run = factories.queued_run()
    rebuild.differences(run.pk)
    assert not FoldCheckpoint.objects.exists()
    assert Run.objects.count() == 1
