"""A worker whose clock is an hour off does what any other does: no moment of its own decides anything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.conf import settings
from django.db.models import F

from runs.domain.vocabulary import RunStatus
from runs.models import Lease, Refusal, Run, RunEvent
from tests import factories
from tests.race.test_worker_kill import PROMPT, WORK

pytestmark = pytest.mark.django_db(transaction=True)

#: The reference worker under another clock; nothing in it knows.
SHIFTED = """
import sys, time, time_machine
from tests.race.mortal_worker import main
shift, *words = sys.argv[1:]
with time_machine.travel(time.time() + float(shift), tick=True):
    main(*words)
"""


@pytest.mark.parametrize("shift", [-3600, 3600])
def test_a_worker_whose_clock_is_an_hour_off_finishes_its_run(shift, live_server, tmp_path):
    run = factories.queued_run(factories.repository(policy=PROMPT), **WORK)
    words = (shift, live_server.url, factories.worker().token, tmp_path, 0, 0, "before")
    done = subprocess.run(
        [sys.executable, "-c", SHIFTED, *map(str, words)], cwd=settings.BASE_DIR, check=False, timeout=300
    )
    assert done.returncode == 0
    assert Run.objects.get(pk=run.pk).status == RunStatus.SUCCEEDED
    assert Lease.objects.filter(run=run).count() == 1, "it kept its lease to the end"
    assert not Refusal.objects.exists()
    late = RunEvent.objects.filter(run=run, recorded_at__lt=F("run__created_at"))
    assert not late.exists(), "what was recorded stands in the database's time"
