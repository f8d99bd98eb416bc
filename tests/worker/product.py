"""The whole product for one test: a repository, people, and workers that reach it over HTTP alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from django.test import Client

from approvals.models import ApprovalRequest
from runs import auth, service
from runs.domain.vocabulary import PersonRole
from runs.models import Artifact, Person, PullRequest, Repository, Run, RunEvent
from runs.pull_requests.run import create_pull_requests
from tests import factories as make
from tests.api.calls import Caller
from tests.worker.repositories import commit_files, git
from worker.claiming import Worker
from worker.client import ControlPlane
from worker.config import WorkerConfig
from worker.drain import Drain
from worker.models.patience import ModelPatience

HURRIED = ModelPatience(answer=20, busy=5, first_wait=0.01, longest_wait=0.05)


FILES = {"notes.txt": "one\ntwo\n", "AGENTS.md": "Write numbers as words.\n"}


def say(*calls: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """One turn of a scripted model."""
    return {"text": text, "calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls]}


EDIT = say(("replace", {"path": "notes.txt", "old": "two", "new": "three"}))
FINISH = say(("finish", {"summary": "Replaced the word."}))


def contract(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A task whose model says these turns."""
    agent = {"kind": "model", "model": "scripted", "script": {"turns": list(turns)}, **more.pop("agent", {})}
    verifiers = [{"name": "no-two", "command": "! grep -q two notes.txt", "timeout_seconds": 20}]
    task = {"title": "Rename two", "instruction": "Replace two by three", "allowed_paths": ["*.txt"]}
    return {**task, "agent": agent, "verifiers": verifiers, **more}


class Product:
    """One repository at `remote` with one task's worth of people."""

    def __init__(
        self,
        *,
        url: str,
        folder: Path,
        files: dict[str, str],
        policy: dict[str, Any],
        object_format: str = "sha1",
    ) -> None:
        self.url, self.folder = url, folder
        self.remote = folder / "remote"
        self.remote.mkdir()
        git(self.remote, "init", "-q", "-b", "main", "--template=", f"--object-format={object_format}")
        git(self.remote, "config", "receive.denyCurrentBranch", "ignore")
        commit_files(self.remote, files)
        self.requester = make.person(PersonRole.SUBMITTER, name="sam")
        self.reviewer = make.person(PersonRole.REVIEWER, name="rita")
        self.repository: Repository = service.repository_create(
            name="package", url=self.remote.as_uri(), policy=policy
        )
        self.token = make.worker(name="machine").token

    def submit(self, **contract: Any) -> Run:
        by = auth.of_person(self.requester).caller
        task, _ = service.task_create(data={**contract, "submit": True}, repository=self.repository, by=by)
        return task.runs.get()

    def latest(self) -> Run:
        return Run.objects.latest("created_at")

    def worker(self, **settings: Any) -> Worker:
        plane = ControlPlane(url=self.url, token=self.token)
        chosen = {"wait_seconds": 0, "drain_seconds": 0, "kill_after_seconds": 0.3, "model_patience": HURRIED}
        config = WorkerConfig(work_dir=self.folder / "sandboxes", **{**chosen, **settings})
        return Worker(config=config, plane=plane, drain=Drain(grace_seconds=0))

    def work(self, **settings: Any) -> None:
        """One run until its lease ends."""
        worker = self.worker(**settings)
        worker.run(once=True)
        worker.close()

    def decide(self, run: Run, decision: str = "approve", **more: Any) -> None:
        request = ApprovalRequest.objects.get(run=run, status="open")
        client = Client()
        client.force_login(Person.objects.get(pk=self.reviewer.pk))
        seen = {"version": request.version, "subject_sha256": request.subject_sha256}
        body = {"decision": decision, "comment": "", **seen, **more}
        answer = Caller(client=client).post(f"approvals/{request.pk}/decisions", body)
        assert answer.status_code == 200, answer.content

    def push(self) -> None:
        create_pull_requests()

    def in_branch(self, run: Run, path: str) -> str:
        branch = PullRequest.objects.get(run=run).branch
        shown = ["git", f"--git-dir={self.remote / '.git'}", "show", f"{branch}:{path}"]
        return subprocess.run(shown, check=True, capture_output=True, text=True).stdout


def events(run: Run, *kinds: str) -> list[RunEvent]:
    rows = RunEvent.objects.filter(run=run).order_by("sequence")
    return list(rows.filter(event_type__in=kinds) if kinds else rows)


def types(run: Run) -> list[str]:
    return [event.event_type for event in events(run)]


def status(run: Run) -> str:
    return Run.objects.get(pk=run.pk).status


def artifacts(run: Run, kind: str) -> list[Artifact]:
    return list(Artifact.objects.filter(run=run, kind=kind).order_by("created_at"))
