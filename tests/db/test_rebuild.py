"""Rows are what their log says: differences are found, named and rewritten."""

import io

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from approvals.models import ApprovalRequest
from runs import rebuild
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Attempt, Instruction, Run, Step, Task
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """These tests damage rows on purpose."""


S = RunStatus


def command(*words: str) -> tuple[int, str]:
    out, code = io.StringIO(), 0
    try:
        call_command("rebuild_runs", *words, stdout=out, stderr=out)
    except SystemExit as exit_:
        code = int(str(exit_.code))
    return code, out.getvalue()


@pytest.mark.parametrize(
    "status", [S.LEASED, S.EXECUTING, S.VERIFYING, S.WAITING_FOR_APPROVAL, S.PR_CREATING, S.SUCCEEDED]
)
def test_whatever_the_service_wrote_folds(status):
    holder = factories.run_in(status)
    rebuild.assert_folds(holder.run_id)
    rebuild.assert_folds(holder.run.task_id)
    assert command("--check") == (0, "No difference.\n")


def test_a_changed_row_is_named_and_rewritten():
    holder = factories.run_in(S.EXECUTING)
    holder.post(Ev.TOOL_REQUESTED, operation_id="a", tool="shell", arguments={}, label="list")
    state = holder.run.state
    state["used"]["tool_calls"] = 99
    Run.objects.filter(pk=holder.run_id).update(directive="cancel", state=state)
    Attempt.objects.filter(run_id=holder.run_id).update(strategy="other")
    Step.objects.filter(run_id=holder.run_id).update(operation_id="b")
    code, said = command("--check")
    assert code == 1
    for place in ("run.directive", "run.state.used", "attempt 1.strategy", "step a.exists", "step b.exists"):
        assert f"{holder.run_id} {place}: " in said
    assert command("--run", holder.run_id)[0] == 0
    assert command("--check") == (0, "No difference.\n")
    assert Step.objects.get(run_id=holder.run_id).operation_id == "a"


def test_a_changed_task_is_named_and_rewritten():
    task = factories.task(instruction="what was asked")
    Task.objects.filter(pk=task.pk).update(title="something else", priority=9)
    Instruction.objects.filter(task=task).update(text="something else")
    assert {d.field for d in rebuild.differences(task.pk)} == {"title", "priority", "texts"}
    command()
    assert rebuild.differences(task.pk) == []
    assert Instruction.objects.get(task=task).text == "what was asked"


def test_a_changed_approval_request_is_named_and_rewritten():
    holder = factories.run_in(S.WAITING_FOR_APPROVAL)
    request = ApprovalRequest.objects.get()
    ApprovalRequest.objects.update(needed=0, status="approved", subject_sha256="0" * 64)
    found = {(d.where, d.field) for d in rebuild.differences(holder.run_id)}
    assert found == {(f"approval {request.pk}", name) for name in ("needed", "status", "subject_sha256")}
    assert command("--run", holder.run_id)[0] == 0
    request.refresh_from_db()
    assert (request.needed, request.status) == (1, "open")
    ApprovalRequest.objects.all().delete()
    rebuild.rebuild(holder.run_id)
    assert rebuild.differences(holder.run_id) == []
    assert ApprovalRequest.objects.get().pk == request.pk


def test_no_clock_of_the_sweep_is_a_difference_but_a_moved_one_is_not():
    run = factories.queued_run()
    Run.objects.filter(pk=run.pk).update(expires_at=run.created_at)
    assert rebuild.differences(run.pk) == []
    Run.objects.filter(pk=run.pk).update(expires_at=None)
    assert [d.field for d in rebuild.differences(run.pk)] == ["expires_at"]


def test_only_the_named_run_is_looked_at():
    wrong, right = factories.queued_run(), factories.queued_run()
    Run.objects.filter(pk=wrong.pk).update(gate="plan")
    assert command("--check", "--run", right.pk)[0] == 0
    assert command("--check", "--run", wrong.pk)[0] == 1
    with pytest.raises(CommandError, match="There is no run or task run_0"):
        call_command("rebuild_runs", "--run", "run_0")
