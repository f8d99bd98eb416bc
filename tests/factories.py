"""Real people, machines, repositories, tasks and runs for tests, made the way the product makes them.

Runs are moved by the service alone, so whatever a test starts from is a state the product can reach.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from agentplatform.ids import new_id
from runs import auth, leases, service, store
from runs.artifacts import artifact_store
from runs.domain.commands import Command
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import MACHINE_ROLES, ArtifactKind, Ev, PersonRole, Role, RunStatus
from runs.models import Person, Policy, Repository, RoleGrant, Run, Task, WorkerAccount

STARTED: Json = {"worker_version": "1"}
UNDERSTOOD: Json = {"summary": "two files"}
FILES = {
    "clock.py": "import datetime\n\n\ndef now():\n    return datetime.datetime.utcnow()\n",
    "test_clock.py": "import clock\n\n\ndef test_now():\n    assert clock.now()\n",
}
#: What the agent of these tests does to ``clock.py``.
EDITED = FILES["clock.py"].replace("datetime.datetime.utcnow()", "datetime.datetime.now(datetime.UTC)")


# --- people and machines --------------------------------------------------------------------------


def person(*roles: PersonRole, name: str = "", repository: Repository | None = None, **fields: Any) -> Person:
    """Somebody with these roles, everywhere or in one repository; the password is ``secret``."""
    made = Person.objects.create_user(username=name or new_id("person"), password="secret", **fields)
    for role in roles:
        RoleGrant.objects.create(person=made, role=role.value, repository=repository)
    return made


def person_token(somebody: Person) -> str:
    """A personal API token."""
    return service.token_create(by=service.COMMAND_LINE, person=somebody)[1]


@dataclass(frozen=True)
class Machine:
    """A worker account and its token."""

    account: WorkerAccount
    token: str

    @property
    def principal(self) -> auth.Principal:
        return auth.of_worker(self.account)


def worker(
    *roles: Role, name: str = "", repositories: tuple[Repository, ...] = (), labels: tuple[str, ...] = ()
) -> Machine:
    """A worker account with these roles; without any, with all of them but the git integration's."""
    chosen = roles or tuple(role for role in MACHINE_ROLES if role is not Role.GIT_INTEGRATION)
    account = WorkerAccount.objects.create(
        name=name or new_id("worker"), roles=[role.value for role in chosen], labels=list(labels)
    )
    account.repositories.set(repositories)
    return Machine(account, service.token_create(by=service.COMMAND_LINE, worker=account)[1])


# --- repositories ---------------------------------------------------------------------------------


def repository(name: str = "", *, url: str = "", policy: Json | None = None) -> Repository:
    """A repository with a policy of its own; without ``url`` it is the shared one, which is only read."""
    name = name or new_id("repo").lower()
    own = Policy.objects.create(name=f"policy of {name}")
    if policy:
        store.add_policy_version(own, policy, by="test")
    return Repository.objects.create(name=name, url=url or shared_origin().url, policy=own)


@dataclass(frozen=True)
class Origin:
    """A real bare git repository with one commit, and a patch that edits it."""

    path: Path
    commit: str
    patch: bytes

    @property
    def url(self) -> str:
        return f"file://{self.path}"


@functools.cache
def shared_origin() -> Origin:
    """One for all tests of this process that do not push."""
    return make_origin(Path(settings.DATA_DIR) / f"origin-{os.getpid()}")


def make_origin(folder: Path) -> Origin:
    """A bare repository in ``folder`` that holds ``FILES`` on ``main``."""
    checkout, bare = folder / "checkout", folder / "origin.git"
    checkout.mkdir(parents=True)
    _git("init", "--quiet", "--initial-branch=main", at=checkout)
    for path, text in FILES.items():
        (checkout / path).write_text(text)
    _git("add", ".", at=checkout)
    _git("commit", "--quiet", "--message=Tell the time", at=checkout)
    _git("clone", "--quiet", "--bare", str(checkout), str(bare), at=folder)
    commit = _git("rev-parse", "HEAD", at=checkout).decode().strip()
    return Origin(bare, commit, patch_of(checkout, {"clock.py": EDITED}))


def patch_of(checkout: Path, files: dict[str, str]) -> bytes:
    """What git prints when these files are written; the checkout is put back afterwards."""
    for path, text in files.items():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text)
    _git("add", "--all", at=checkout)
    patch = _git("diff", "--cached", "--binary", "--full-index", at=checkout)
    _git("reset", "--quiet", "--hard", at=checkout)
    return patch


def patch_writing(files: dict[str, str]) -> bytes:
    """A patch of the shared repository that writes these files."""
    return patch_of(shared_origin().path.parent / "checkout", files)


def _git(*args: str, at: Path) -> bytes:
    who = {
        f"GIT_{role}_{what}": "test@example.invalid"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"]}
    return subprocess.run(
        ["git", *args], cwd=at, env={**who, **quiet}, check=True, capture_output=True
    ).stdout


# --- tasks and runs -------------------------------------------------------------------------------


def contract(**fields: Any) -> Json:
    """What a person sends to make a task."""
    return {
        "title": "Replace utcnow",
        "instruction": "Replace datetime.utcnow() by an aware time.",
        "verifiers": [{"name": "test", "command": "pytest -q", "timeout_seconds": 600}],
        "agent": {"kind": "script", "command": "true"},
        **fields,
    }


def task(
    where: Repository | None = None, by: Person | None = None, *, submit: bool = True, **fields: Any
) -> Task:
    """A task, submitted unless told otherwise; its first run is then QUEUED."""
    somebody = by or person(PersonRole.SUBMITTER)
    made, _ = service.task_create(
        data=contract(submit=submit, **fields),
        repository=where or repository(),
        by=auth.of_person(somebody).caller,
    )
    return made


def queued_run(where: Repository | None = None, by: Person | None = None, **fields: Any) -> Run:
    """The first run of a new task."""
    return Run.objects.get(pk=task(where, by, **fields).latest_run_id)


@dataclass
class Holder:
    """A machine with the lease of one run, doing what a worker does."""

    machine: Machine
    run_id: str
    token: str
    patch: bytes = field(default_factory=lambda: shared_origin().patch)
    base_commit: str = field(default_factory=lambda: shared_origin().commit)

    @property
    def run(self) -> Run:
        return Run.objects.select_related("task", "repository").get(pk=self.run_id)

    @property
    def state(self) -> RunState:
        return RunState.from_json(self.run.state)

    def post(self, event: Ev, key: str = "", **payload: Any) -> service.Outcome:
        """One event under the lease."""
        return self.post_all((event, payload), key=key)[0]

    def post_all(self, *events: tuple[Ev, Json], key: str = "") -> list[service.Outcome]:
        """Events in one go, as a worker sends what happened at once."""
        caller = self.machine.principal.caller
        commands = [
            Command(event, payload, caller, key or new_id("key"), lease_token=self.token)
            for event, payload in events
        ]
        return service.apply_batch(self.run_id, commands)

    def upload(self, kind: ArtifactKind, content: bytes | Json) -> str:
        """Bytes, or JSON, as an artifact; returns its id."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        stored = artifact_store(
            run_id=self.run_id,
            kind=kind,
            content=io.BytesIO(data),
            content_type="application/octet-stream",
            sha256=hashlib.sha256(data).hexdigest(),
            account=self.machine.account.pk,
            lease_token=self.token,
        )
        return stored.artifact.pk

    # --- one step each: from the status it is named after to the next -----------------------------

    def start(self) -> service.Outcome:
        """LEASED → PREPARING."""
        return self.post(Ev.WORKER_STARTED, **STARTED)

    def prepare(self) -> service.Outcome:
        """PREPARING → CONTEXT_BUILDING."""
        return self.post(Ev.SANDBOX_READY, **self._sandbox)

    def build_context(self) -> service.Outcome:
        """CONTEXT_BUILDING → PLANNING."""
        return self.post(Ev.CONTEXT_READY, **UNDERSTOOD)

    def get_ready(self) -> service.Outcome:
        """LEASED → PLANNING."""
        return self.post_all(
            (Ev.WORKER_STARTED, STARTED), (Ev.SANDBOX_READY, self._sandbox), (Ev.CONTEXT_READY, UNDERSTOOD)
        )[-1]

    @property
    def _sandbox(self) -> Json:
        return {"sandbox_id": "sandbox", "base_commit": self.base_commit}

    def plan(self, **fields: Any) -> service.Outcome:
        """PLANNING → EXECUTING, or to the plan gate."""
        document = {
            "files": ["clock.py"], "verifiers": ["test"], "risks": [], "must_not_change": [],
            "stop_condition": "tests pass", "summary": "replace one call", **fields,
        }  # fmt: skip
        return self.post(Ev.PLAN_CREATED, plan_artifact_id=self.upload(ArtifactKind.PLAN, document))

    def hand_in(self, patch: bytes | None = None) -> service.Outcome:
        """EXECUTING → PATCH_READY."""
        return self.post(Ev.PATCH_CREATED, **self._uploaded(patch))

    def hand_in_for_checks(self) -> service.Outcome:
        """EXECUTING → VERIFYING."""
        return self.post_all(
            (Ev.PATCH_CREATED, self._uploaded()), (Ev.VERIFICATION_STARTED, {"commands": ["test"]})
        )[-1]

    def _uploaded(self, patch: bytes | None = None) -> Json:
        artifact_id = self.upload(ArtifactKind.PATCH, patch or self.patch)
        return {"patch_artifact_id": artifact_id, "summary": "replaced one call"}

    def report(self, text: bytes = b"# What was found\n") -> None:
        """EXECUTING → JUDGING, for analysis tasks."""
        self.post(Ev.REPORT_CREATED, report_artifact_id=self.upload(ArtifactKind.ANALYSIS_REPORT, text))

    def begin_checks(self) -> service.Outcome:
        """PATCH_READY → VERIFYING."""
        return self.post(Ev.VERIFICATION_STARTED, commands=["test"])

    def check(self, *, exit_code: int = 0, feedback: str = "") -> service.Outcome:
        """VERIFYING → JUDGING, or back to EXECUTING with a failing exit code."""
        command = {"name": "test", "command": "pytest -q", "exit_code": exit_code, "duration_ms": 12}
        document: Json = {"patch_sha256": (self.state.patch or {})["sha256"], "commands": [command]}
        if feedback:
            document["feedback"] = feedback
        event = Ev.VERIFICATION_FAILED_RETRYABLE if exit_code else Ev.VERIFICATION_PASSED
        return self.post(
            event, verification_report_id=self.upload(ArtifactKind.VERIFICATION_REPORT, document)
        )

    def judge(self, *, verdict: str = "pass", confidence: float = 0.95, **more: Any) -> service.Outcome:
        """JUDGING → what policy decides, or back to EXECUTING."""
        state = self.state
        subject = state.patch or state.report or {}
        document = {
            "subject_sha256": subject["sha256"], "verdict": verdict, "confidence": confidence,
            "reasons": ["it does what was asked"], "feedback": "do it right" if verdict == "fix" else None,
            **more,
        }  # fmt: skip
        event = Ev.JUDGE_PASSED if verdict == "pass" else Ev.JUDGE_REQUIRES_FIX
        return self.post(event, judge_report_id=self.upload(ArtifactKind.JUDGE_REPORT, document))

    def open_pull_request(self) -> service.Outcome:
        """PR_CREATING → SUCCEEDED, as the git integration reports it."""
        return self.post(
            Ev.PR_CREATED, provider="git", url="file:///origin.git", branch=f"agent/{self.run_id.lower()}",
            commit_sha="c" * 40, tree_sha=(self.state.patch or {})["tree"], body="What was done.",
        )  # fmt: skip


def claim(machine: Machine | None = None, run: Run | None = None, **options: Any) -> Holder:
    """The next run for this machine; with ``run``, a new one unless there is something else to claim."""
    holder = machine or worker()
    found = leases.lease_claim(principal=holder.principal, **options)
    assert found is not None, "there was nothing to claim"
    assert run is None or found.run.pk == run.pk, "another run came first"
    return Holder(holder, found.run.pk, found.token)


#: Each status on the way of a patch, and the step that leaves it.
WAY: dict[str, Callable[[Holder], service.Outcome]] = {
    RunStatus.LEASED: Holder.start,
    RunStatus.PREPARING: Holder.prepare,
    RunStatus.CONTEXT_BUILDING: Holder.build_context,
    RunStatus.PLANNING: Holder.plan,
    RunStatus.EXECUTING: Holder.hand_in,
    RunStatus.PATCH_READY: Holder.begin_checks,
    RunStatus.VERIFYING: Holder.check,
    RunStatus.JUDGING: Holder.judge,
}
#: Longer strides over statuses that nobody asked for.
STRIDES: dict[str, tuple[Callable[[Holder], service.Outcome], frozenset[RunStatus]]] = {
    RunStatus.LEASED: (Holder.get_ready, frozenset({RunStatus.PREPARING, RunStatus.CONTEXT_BUILDING})),
    RunStatus.EXECUTING: (Holder.hand_in_for_checks, frozenset({RunStatus.PATCH_READY})),
}


def run_in(
    status: RunStatus,
    *,
    where: Repository | None = None,
    by: Person | None = None,
    machine: Machine | None = None,
    **fields: Any,
) -> Holder:
    """A run that a worker brought to ``status``: LEASED to JUDGING, or WAITING_FOR_APPROVAL at its patch
    gate (at its plan gate with ``plan_approval="required"``), or PR_CREATING and SUCCEEDED by itself."""
    by_itself = status in (RunStatus.PR_CREATING, RunStatus.SUCCEEDED)
    run = queued_run(where, by, **({"auto_pr": True} if by_itself else {}), **fields)
    return drive(claim(machine, run), status)


def drive(holder: Holder, status: RunStatus) -> Holder:
    """Go on until ``status`` is reached."""
    now = holder.run.status
    while now != status:
        if now == RunStatus.PR_CREATING:
            holder = claim(worker(Role.GIT_INTEGRATION), holder.run)
            now = holder.open_pull_request().run.status
            continue
        assert now in WAY, f"the run went to {now}, not to {status}"
        stride, over = STRIDES.get(now, (WAY[now], frozenset()))
        now = (WAY[now] if status in over else stride)(holder).run.status
    return holder
