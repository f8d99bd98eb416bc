"""The demonstration's requests, worked on for real: reference worker over HTTP, git integration, reviews."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.test import Client

from approvals.models import ApprovalRequest
from runs import service
from runs.demo import load
from runs.demo.repository import NAME
from runs.domain.vocabulary import ArtifactKind, Ev, Gate, RunStatus
from runs.models import Artifact, Person, PullRequest, Repository, Run, RunEvent, WorkerAccount
from runs.pull_requests.run import create_pull_requests
from tests.api.calls import Caller
from worker.claiming import Worker
from worker.client.plane import ControlPlane
from worker.config import WorkerConfig
from worker.drain import Drain

pytestmark = pytest.mark.django_db(transaction=True)

S = RunStatus
ITSELF = "Give every moment its offset"
REVIEWED = "Write headings with f-strings"
REPAIRED = "Rename pad to zero_padded"
ANALYSED = "Which functions lack a docstring?"
MODELLED = "Follow the deprecation of Logger.warn"
RISKY = "Index the agenda by start time"


@pytest.fixture
def work(settings, tmp_path, live_server) -> Iterator[Callable[[], None]]:
    """The demonstration, loaded; each call works on one run until its lease ends."""
    settings.DATA_DIR = tmp_path
    settings.ARTIFACT_DIR, settings.MIRROR_DIR = tmp_path / "artifacts", tmp_path / "mirrors"
    load.demo_load()
    token = service.token_create(by=service.COMMAND_LINE, worker=WorkerAccount.objects.get())[1]
    plane = ControlPlane(url=live_server.url, token=token)
    config = WorkerConfig(work_dir=tmp_path / "sandboxes", wait_seconds=0, drain_seconds=0)
    worker = Worker(config=config, plane=plane, drain=Drain(grace_seconds=0))
    yield lambda: worker.run(once=True)
    plane.close()


def run_of(title: str) -> Run:
    return Run.objects.get(task__title=title)


def statuses() -> dict[str, str]:
    return dict(Run.objects.values_list("task__title", "status"))


def events(title: str, kind: Ev) -> list[RunEvent]:
    return list(RunEvent.objects.filter(run=run_of(title), event_type=kind).order_by("sequence"))


def in_branch(title: str, path: str) -> str:
    """The file as the pushed branch has it."""
    remote = urlsplit(Repository.objects.get(name=NAME).url).path
    branch = PullRequest.objects.get(run=run_of(title)).branch
    shown = ["git", "-c", "safe.directory=*", f"--git-dir={remote}", "show", f"{branch}:{path}"]
    return subprocess.run(shown, check=True, capture_output=True, text=True).stdout


def approve(title: str, gate: Gate) -> None:
    request = ApprovalRequest.objects.get(run=run_of(title), status="open", gate=gate)
    client = Client()
    client.force_login(Person.objects.get(username="rita"))
    body = {"decision": "approve", "version": request.version, "subject_sha256": request.subject_sha256}
    answer = Caller(client=client).post(f"approvals/{request.pk}/decisions", {**body, "comment": ""})
    assert answer.status_code == 200, answer.content


def test_each_request_ends_where_it_belongs(work):
    for _ in range(6):
        work()
    create_pull_requests()
    assert statuses() == {
        ITSELF: S.SUCCEEDED,
        REVIEWED: S.WAITING_FOR_APPROVAL,
        REPAIRED: S.SUCCEEDED,
        MODELLED: S.WAITING_FOR_APPROVAL,
        ANALYSED: S.SUCCEEDED,
        RISKY: S.WAITING_FOR_APPROVAL,
    }
    assert "datetime.now(timezone.utc)" in in_branch(ITSELF, "clock/now.py")
    _repaired_by_the_report(REPAIRED, "clock/agenda.py")
    assert '"hour": "zero_padded"' in in_branch(REPAIRED, "clock/agenda.py")
    _repaired_by_the_report(MODELLED, "clock/tones.py")
    assert {event.payload["model"] for event in events(MODELLED, Ev.MODEL_DECISION)} == {"scripted"}
    report = Artifact.objects.get(run=run_of(ANALYSED), kind=ArtifactKind.ANALYSIS_REPORT)
    assert report.size > 0
    assert not events(ANALYSED, Ev.PATCH_CREATED)
    approve(REVIEWED, Gate.PATCH)
    approve(MODELLED, Gate.PATCH)
    approve(RISKY, Gate.PLAN)
    work()
    approve(RISKY, Gate.PATCH)
    create_pull_requests()
    assert set(statuses().values()) == {S.SUCCEEDED}
    assert '"late": "warning"' in in_branch(MODELLED, "clock/tones.py")
    assert 'f"{name}: {value}"' in in_branch(REVIEWED, "clock/report.py")
    assert "CREATE INDEX" in in_branch(RISKY, "schema/0002_index_starts_at.sql")


def _repaired_by_the_report(title: str, path: str) -> None:
    """The checks failed once, and the second patch reaches the file that they pointed to."""
    assert len(events(title, Ev.VERIFICATION_FAILED_RETRYABLE)) == 1
    first, second = (
        Artifact.objects.get(pk=event.payload["patch_artifact_id"]).facts["paths"]
        for event in events(title, Ev.PATCH_CREATED)
    )
    assert set(second) - set(first) == {path}


def test_no_script_of_the_repository_holds_the_answer_of_the_repair():
    codemods = Path(load.__file__).parent / "clock" / "codemods"
    scripts = "".join(path.read_text() for path in sorted(codemods.iterdir()))
    assert "rename.py" in {path.name.removesuffix(".txt") for path in codemods.iterdir()}
    assert [word for word in ("agenda", "pad", "WRITERS") if word in scripts] == []
