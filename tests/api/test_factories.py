"""What other tests start from is reachable, and is what it says."""

from __future__ import annotations

import pytest

from runs.domain.vocabulary import RunStatus
from tests import factories

pytestmark = pytest.mark.django_db

S = RunStatus
ON_THE_WAY = [*factories.WAY, S.WAITING_FOR_APPROVAL, S.PR_CREATING, S.SUCCEEDED]


@pytest.mark.parametrize("status", ON_THE_WAY)
def test_a_worker_brings_a_run_there(status):
    assert factories.run_in(status).run.status == status


def test_an_analysis_ends_without_a_patch():
    holder = factories.run_in(RunStatus.EXECUTING, completion_mode="analysis_report_created")
    holder.report()
    holder.judge()
    assert holder.run.status == RunStatus.SUCCEEDED


def test_a_plan_waits_for_a_person():
    holder = factories.run_in(RunStatus.WAITING_FOR_APPROVAL, plan_approval="required")
    assert holder.run.gate == "plan"
