"""Posts one task of the past, from its request to its end, through the service that takes the present ones.

A whole task is one transaction: nobody sees it half done, so neither workers nor the sweep lay hands on it.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from agentplatform.clock import clock_turned_to, database_now
from agentplatform.ids import new_id
from approvals.history.stories import FAILURES, Story
from approvals.models import ApprovalRequest
from approvals.service import approval_decide
from runs import service
from runs.artifacts import artifact_store
from runs.auth import Principal
from runs.domain.commands import Caller, Command
from runs.domain.facts import CONTROL_PLANE, Json, stamp
from runs.domain.state import RunState
from runs.domain.vocabulary import (
    ApprovalStatus,
    ArtifactKind,
    DecisionWord,
    Ev,
    PullRequestState,
    Role,
    RunStatus,
)
from runs.leases import lease_claim
from runs.models import PullRequest, Repository, Run, Task

S = RunStatus
LABEL: Final = "past"
#: Of a hundred pull requests: merged, with red checks on the way; of a hundred merged: taken back.
_MERGED, _RED, _REVERTED = 0.88, 0.15, 0.05


@dataclass(slots=True)
class Past:
    """Somebody's task in the past: who asks, decides and works, and what time it is there."""

    repository: Repository
    asker: Principal
    reviewer: Principal
    worker: Principal
    base_commit: str
    dollars: float
    now: datetime
    dice: random.Random
    token: str = ""
    run_id: str = ""
    steps: int = field(default=0)

    @transaction.atomic
    def post(self, request: tuple[str, str, str, str], story: Story) -> Task:
        """The whole task, by ``story``; its retries end well."""
        title, folder, agent, label = request
        task = self._ask(title, agent, label, story)
        self._run(task, folder, story)
        while (task := Task.objects.get(pk=task.pk)).latest_run_id != self.run_id:
            self._run(task, folder, Story("again", 0))
        return task

    def _ask(self, title: str, agent: str, label: str, story: Story) -> Task:
        contract: Json = {
            "title": title,
            "instruction": f"{title}, in {self.repository.name}. What the package does stays as it is.",
            "agent": {"kind": agent, "command": "python3 codemods/inventory.py"},
            "verifiers": [{"name": "tests", "command": "python3 -m unittest -q", "timeout_seconds": 120}],
            "auto_pr": not story.reviewed,
            "labels": [label],
            "needs": [LABEL],
            "submit": True,
        }
        with clock_turned_to(self.now):
            by = self.asker.caller
            return service.task_create(data=contract, repository=self.repository, by=by)[0]

    # --- one run --------------------------------------------------------------------------------------

    def _run(self, task: Task, folder: str, story: Story) -> None:
        self.run_id = task.latest_run_id
        run = Run.objects.get(pk=self.run_id)
        self.now = max(self.now, run.not_before or self.now)
        if story.ends == "cancelled" and self.dice.random() < 0.3:  # noqa: PLR2004
            self._cancel()
            return
        self._claim(minutes=(0.2, 9))
        if story.ends == "lost":
            self._event(Ev.LEASE_LOST, {"limit_seconds": 60, "since": stamp(self.now)}, (4, 9), by=_SCHEDULER)
            return
        self._begin(story)
        if self._state.is_terminal:
            return
        self._work(folder, story)
        self._decide(story)
        if self._state.status == S.PR_CREATING:
            if self._state.holder is None:  # a review gave the lease back
                self._claim(minutes=(0.1, 0.6))
            self._push()

    @property
    def _state(self) -> RunState:
        return RunState.from_json(Run.objects.get(pk=self.run_id).state)

    def _begin(self, story: Story) -> None:
        """From the worker's start to a plan, or to an early end."""
        self._event(Ev.WORKER_STARTED, {"worker_version": "1"}, (0.1, 0.5))
        base = {"sandbox_id": "past", "base_commit": self.base_commit}
        self._event(Ev.SANDBOX_READY, base, (0.3, 2))
        self._event(Ev.CONTEXT_READY, {"summary": "12 files read"}, (0.2, 1))
        if story.ends == "failed":
            self._event(Ev.NON_RETRYABLE_FAILURE, {"failure": self.dice.choice(FAILURES)}, (1, 12))
        elif story.ends == "cancelled":
            self._cancel()
        else:
            plan = {
                "files": ["**"], "verifiers": ["tests"], "risks": ["A caller that nobody knows."],
                "must_not_change": ["What the package does."], "stop_condition": "The tests pass.",
                "summary": "Change it file by file, run the tests after each.",
            }  # fmt: skip
            self._event(Ev.PLAN_CREATED, {"plan_artifact_id": self._keep(ArtifactKind.PLAN, plan)}, (0.5, 4))

    def _work(self, folder: str, story: Story) -> None:
        """Edit, check and judge, as often as the story sends it back."""
        checks, judge = story.checks_fail, story.judge_sends_back
        for _ in range(1 + checks + judge):
            self._edit(folder)
            passes = checks == 0
            self._check(passes=passes)
            if not passes:
                checks -= 1
                continue
            self._judge(passes=judge == 0)
            judge = max(judge - 1, 0)

    def _edit(self, folder: str) -> None:
        for label in self.dice.sample(_LABELS, 2):
            self.steps += 1
            operation = f"past-{self.steps}"
            call = {"operation_id": operation, "tool": "edit", "arguments": {"n": self.steps}, "label": label}
            self._event(Ev.TOOL_REQUESTED, call, (0.1, 0.6))
            cost = f"{self.dollars * (0.4 + self.dice.random()):.4f}"
            done = {"operation_id": operation, "outcome": "succeeded", "exit_code": 0, "cost_usd": cost}
            self._event(Ev.TOOL_COMPLETED, done, (0.4, 6))
        patch = self._keep(ArtifactKind.PATCH, _patch(f"{folder}/notes_{self.dice.randrange(10**6)}.md"))
        self._event(
            Ev.PATCH_CREATED, {"patch_artifact_id": patch, "summary": "A note of what changed."}, (0.2, 1)
        )

    def _check(self, *, passes: bool) -> None:
        self._event(Ev.VERIFICATION_STARTED, {"commands": ["tests"]}, (0.05, 0.3))
        took = self.dice.randrange(4_000, 90_000)
        command = {
            "name": "tests", "command": "python3 -m unittest -q", "exit_code": 0 if passes else 1,
            "duration_ms": took,
        }  # fmt: skip
        report: Json = {"patch_sha256": (self._state.patch or {})["sha256"], "commands": [command]}
        if not passes:
            report["feedback"] = "test_agenda fails: NameError: name 'timezone' is not defined"
        event = Ev.VERIFICATION_PASSED if passes else Ev.VERIFICATION_FAILED_RETRYABLE
        kept = self._keep(ArtifactKind.VERIFICATION_REPORT, report)
        self._event(event, {"verification_report_id": kept}, (took / 60_000, took / 50_000))

    def _judge(self, *, passes: bool) -> None:
        reason = "It does what was asked." if passes else "One call was left as it was."
        verdict: Json = {
            "subject_sha256": (self._state.patch or {})["sha256"], "verdict": "pass" if passes else "fix",
            "confidence": 0.93, "reasons": [reason], "feedback": None if passes else reason,
        }  # fmt: skip
        event = Ev.JUDGE_PASSED if passes else Ev.JUDGE_REQUIRES_FIX
        self._event(event, {"judge_report_id": self._keep(ArtifactKind.JUDGE_REPORT, verdict)}, (0.1, 1))

    def _decide(self, story: Story) -> None:
        """What a reviewer says at an open gate, some time later."""
        if self._state.status != S.WAITING_FOR_APPROVAL:
            return
        self._pass((4, 160))
        request = ApprovalRequest.objects.get(run_id=self.run_id, status=ApprovalStatus.OPEN)
        rejects = story.ends == "rejected"
        with clock_turned_to(self.now):
            approval_decide(
                approval_id=request.pk,
                decision=DecisionWord.REJECT if rejects else DecisionWord.APPROVE,
                version=request.version,
                subject_sha256=request.subject_sha256,
                comment="The team decided against it." if rejects else "",
                by=self.reviewer,
            )

    def _push(self) -> None:
        state = self._state
        pull_request = {
            "provider": "git", "url": self.repository.url, "branch": f"agent/{self.run_id.lower()}",
            "commit_sha": hashlib.sha1(self.run_id.encode(), usedforsecurity=False).hexdigest(),
            "tree_sha": (state.patch or {})["tree"], "body": "What was done.",
        }  # fmt: skip
        self._event(Ev.PR_CREATED, pull_request, (0.05, 0.4))
        self._live(PullRequest.objects.get(run_id=self.run_id))

    def _live(self, row: PullRequest) -> None:
        """What became of it: no provider of the past could be asked, so nobody looks at it any more."""
        service.pull_request_rest(pull_request_id=row.pk)
        hours = 1 + 60 * self.dice.random() ** 2
        state = PullRequestState.MERGED if self.dice.random() < _MERGED else PullRequestState.CLOSED
        at = self.now + timedelta(hours=hours)
        is_red, is_reverted = self.dice.random() < _RED, self.dice.random() < _REVERTED
        if at >= database_now():
            return
        if is_red:
            with clock_turned_to(self.now + timedelta(hours=hours / 2)):
                service.pull_request_report(pull_request_id=row.pk, checks="failed")
        with clock_turned_to(at):
            service.pull_request_report(pull_request_id=row.pk, state=state, checks="passed")
        service.history_looked(pull_request_ids=[row.pk], next_look_at=None)
        undone = at + timedelta(hours=30)
        if is_reverted and state == PullRequestState.MERGED and undone < database_now():
            by = hashlib.sha1(f"{row.pk} reverted".encode(), usedforsecurity=False).hexdigest()
            service.pull_request_reverted(pull_request_id=row.pk, by=by, at=undone)

    def _cancel(self) -> None:
        self._pass((0.5, 20))
        with clock_turned_to(self.now):
            by, reason = self.asker.caller, "Not needed any more."
            service.run_direct(run_id=self.run_id, event=Ev.CANCEL_REQUESTED, reason=reason, by=by)
        if not self._state.is_terminal:
            gone = {"cleanup": "done", "process_group_gone": True, "artifacts_saved": True}
            self._event(Ev.RUN_CANCELLED, gone, (0.1, 0.5))

    # --- how it is posted -----------------------------------------------------------------------------

    def _pass(self, minutes: tuple[float, float]) -> None:
        """Let time go by; short waits are common, long ones seldom."""
        least, most = minutes
        self.now += timedelta(minutes=least + (most - least) * self.dice.random() ** 3)

    def _claim(self, *, minutes: tuple[float, float]) -> None:
        self._pass(minutes)
        with clock_turned_to(self.now):
            found = lease_claim(principal=self.worker)
        if found is None or found.run.pk != self.run_id:
            raise RuntimeError(f"{self.run_id} was not offered to the worker of the past")
        self.token = found.token

    def _event(
        self, event: Ev, payload: Json, minutes: tuple[float, float], *, by: Caller | None = None
    ) -> None:
        self._pass(minutes)
        command = Command(event, payload, by or self.worker.caller, new_id("key"), lease_token=self.token)
        with clock_turned_to(self.now):
            service.apply_event(self.run_id, command)

    def _keep(self, kind: ArtifactKind, content: bytes | Json) -> str:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with clock_turned_to(self.now):
            stored = artifact_store(
                run_id=self.run_id,
                kind=kind,
                content=io.BytesIO(data),
                content_type="application/octet-stream",
                sha256=hashlib.sha256(data).hexdigest(),
                account=self.worker.id,
                lease_token=self.token,
            )
        return stored.artifact.pk


_SCHEDULER: Final = Caller(CONTROL_PLANE.id, CONTROL_PLANE.name, frozenset({Role.SCHEDULER}))
_LABELS: Final = [
    "Read the package",
    "Edit the module",
    "Run the codemod",
    "Look at the callers",
    "Mend an import",
]


def _patch(path: str) -> bytes:
    """A real patch: one new file."""
    lines = f"# {path}\n\nWhat changed, and why.\n"
    body = "".join(f"+{line}\n" for line in lines.splitlines())
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,3 @@\n"
    )
    return (head + body).encode()
