"""A task's table against the contract, section 2."""

from __future__ import annotations

import pytest

from runs.domain.tasks import TASK_MOVES, task_target
from runs.domain.vocabulary import TASK_FINAL, TaskEv, TaskStatus

T = TaskStatus


def test_a_task_moves_only_as_the_contract_says():
    line = {
        ("DRAFT", "SUBMITTED"),
        ("SUBMITTED", "VALIDATING"),
        ("VALIDATING", "READY"),
        ("VALIDATING", "REJECTED"),
        ("READY", "RUNNING"),
        ("RUNNING", "WAITING_FOR_APPROVAL"),
        ("WAITING_FOR_APPROVAL", "RUNNING"),
        ("RUNNING", "COMPLETED"),
        ("RUNNING", "FAILED"),
        ("WAITING_FOR_APPROVAL", "FAILED"),
    }
    cancels = {(status.value, "CANCELLED") for status in TaskStatus if status not in TASK_FINAL}
    assert {(a.value, b.value) for a, b in TASK_MOVES} == line | cancels


@pytest.mark.parametrize("status", sorted(TASK_FINAL))
def test_final_tasks_can_only_be_put_away(status: TaskStatus):
    taken = {event for event in TaskEv if event is not TaskEv.TASK_CREATED and task_target(event, status)}
    assert taken == {TaskEv.TASK_ARCHIVED, TaskEv.TASK_RESTORED}


@pytest.mark.parametrize("status", list(TaskStatus))
def test_putting_away_is_no_status(status: TaskStatus):
    assert task_target(TaskEv.TASK_ARCHIVED, status) is status
