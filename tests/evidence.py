"""What a run is shown: artifacts with their readings, and a payload that each event may have.

Artifacts are inserted as the upload endpoint would store them: rows with the control plane's reading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs.domain.facts import Json, fingerprint, stamp
from runs.domain.patch.reading import GitWord, patch_facts
from runs.domain.state import RunState
from runs.domain.vocabulary import ArtifactKind, Ev
from runs.models import Artifact, WorkerAccount

BASE = "b" * 40
COMMIT, TREE = "c" * 40, "d" * 40


def reading(*paths: str, base: str = BASE, **other: Any) -> Json:
    """The stored reading of a harmless patch that modifies ``paths``; ``other`` replaces fields."""
    git = GitWord(commit=base, applies=True, tree=TREE, head=base, applies_to_head=True)
    names = paths or ("app.py",)
    plain = {"old_path": None, "status": "modified", "added": 1, "deleted": 1, "binary": False}
    files = [{"path": path, "old_mode": "100644", "new_mode": "100644", **plain} for path in names]
    return {**patch_facts((), git), "files": files, "paths": list(names), "added": 1, "deleted": 1, **other}


def failure_of(category: str = "TOOL_FAILED", reason: str = "tool_broke", **other: Any) -> Json:
    """A failure as a machine reports it."""
    return {"category": category, "reason": reason, "summary": "It broke.", **other}


def contract_of(**other: Any) -> Json:
    """The body of a task that is submitted at once; ``other`` replaces fields."""
    return {
        "title": "Replace utcnow",
        "instruction": "Replace datetime.utcnow() everywhere.",
        "verifiers": [{"name": "test", "command": "true", "timeout_seconds": 60}],
        "agent": {"kind": "script", "command": "true"},
        "auto_pr": True,
        "submit": True,
        **other,
    }


class Evidence(ABC):
    """Makes payloads and artifacts for the run that it is mixed into."""

    worker: WorkerAccount
    run_id: str
    operations: int

    @property
    @abstractmethod
    def state(self) -> RunState:
        """The run's state now."""

    def artifact(self, kind: ArtifactKind, document: Json | None = None, facts: Json | None = None) -> str:
        """An uploaded artifact with bytes of its own; returns its id."""
        row = Artifact.objects.create(
            id=new_id("art"),
            run_id=self.run_id,
            kind=kind.value,
            sha256=fingerprint([kind, new_id("bytes"), document, facts]),
            size=100,
            content_type="application/json",
            facts=facts or {},
            document=document,
            created_by=self.worker.pk,
            fence=self.state.fence,
            created_at=database_now(),
        )
        return row.pk

    def patch(self, *paths: str, **facts: Any) -> Json:
        """The payload of a ``patch_created`` for a new patch."""
        return {"patch_artifact_id": self.artifact(ArtifactKind.PATCH, facts=reading(*paths, **facts))}

    def plan(self) -> Json:
        document = {
            "files": ["**/*.py"],
            "verifiers": ["test"],
            "risks": [],
            "must_not_change": [],
            "stop_condition": "All calls are replaced.",
            "summary": "Replace the calls.",
        }
        return {"plan_artifact_id": self.artifact(ArtifactKind.PLAN, document)}

    def verification(self, *, exit_code: int = 0, **document: Any) -> Json:
        command = {"name": "test", "command": "true", "exit_code": exit_code, "duration_ms": 5}
        content = {
            "patch_sha256": (self.state.patch or {}).get("sha256", "0" * 64),
            "commands": [command],
            "feedback": "mend it" if exit_code else None,
            **document,
        }
        return {"verification_report_id": self.artifact(ArtifactKind.VERIFICATION_REPORT, content)}

    def judgement(self, verdict: str = "pass", **document: Any) -> Json:
        state = self.state
        content = {
            "subject_sha256": (state.patch or state.report or {}).get("sha256", "0" * 64),
            "verdict": verdict,
            "confidence": 0.95,
            "reasons": ["It does what was asked."],
            **document,
        }
        return {"judge_report_id": self.artifact(ArtifactKind.JUDGE_REPORT, content)}

    def checkpoint(self) -> Json:
        artifact_id = self.artifact(ArtifactKind.CHECKPOINT)
        return {"checkpoint_artifact_id": artifact_id, "base_commit": self.state.base_commit or BASE}

    def tool(self, **more: Any) -> Json:
        """The payload of a new tool call."""
        self.operations += 1
        call = {"operation_id": f"op-{self.operations}", "tool": "edit", "arguments": {"n": self.operations}}
        return {**call, "label": "Edit a file", **more}

    def decision(self) -> Json:
        """What names the open gate, as a reviewer saw it."""
        gate = self.state.gate or {"approval_id": "apr_none", "version": 1, "subject_sha256": "0" * 64}
        names = ("approval_id", "version", "subject_sha256")
        return {**{name: gate[name] for name in names}, "comment": "seen"}

    def payload(self, event: Ev) -> Json:
        """A payload that ``event`` may have in the run's present state."""
        if event in _PLAIN:
            return deepcopy(_PLAIN[event])
        makers: dict[Ev, Callable[[], Json]] = {
            Ev.PLAN_CREATED: self.plan,
            Ev.PATCH_CREATED: self.patch,
            Ev.VERIFICATION_PASSED: self.verification,
            Ev.VERIFICATION_FAILED_RETRYABLE: lambda: self.verification(exit_code=1),
            Ev.JUDGE_PASSED: self.judgement,
            Ev.JUDGE_REQUIRES_FIX: lambda: self.judgement("fix", feedback="mend it"),
            Ev.REPORT_CREATED: lambda: {"report_artifact_id": self.artifact(ArtifactKind.ANALYSIS_REPORT)},
            Ev.CHECKPOINT_SAVED: self.checkpoint,
            Ev.TOOL_REQUESTED: self.tool,
            Ev.TOOL_COMPLETED: lambda: {"operation_id": self._open_call(), "outcome": "succeeded"},
            Ev.ATTEMPT_STARTED: lambda: {"number": self.state.attempts_started + 1},
            Ev.APPROVED: self.decision,
            Ev.CHANGES_REQUESTED: self.decision,
            Ev.REJECTED: self.decision,
            Ev.VOTE_RECORDED: self.decision,
            Ev.HUMAN_APPROVAL_REQUIRED: lambda: {"gate": "budget", "approval_id": new_id("apr")},
        }
        return makers[event]() if event in makers else {}

    def _open_call(self) -> str:
        pending: Iterable[str] = self.state.pending
        return next(iter(pending), f"op-{self.operations}")

    def facts(self, event: Ev) -> Json:
        """What our own services say beside the payload."""
        state = self.state
        gate = state.gate or {}
        due = stamp(database_now() + timedelta(days=3))
        shown = {"subject_sha256": "1" * 64, "subject": {"kind": "budget"}, "guards": [], "needed": 1}
        waived = {"version": gate.get("version", 0) + 1, "subject_sha256": "2" * 64, "guards": state.guards}
        known: dict[Ev, Json] = {
            Ev.HUMAN_APPROVAL_REQUIRED: {
                **shown, "due_at": due, "on_timeout": "cancel", "effective_risk": state.effective_risk
            },
            Ev.GUARD_WAIVED: waived,
            Ev.BUDGET_RAISED: {"budget": {"max_cost_usd": "50"}},
            Ev.INSTRUCTION_ADDED: {"instruction_no": state.instruction_no + 1},
            Ev.POLICY_EVALUATED: {
                "guards": state.guards, "effective_risk": state.effective_risk, "policy_version": "p@1"
            },
            Ev.COMPLETION_CONDITION_MET: {"verdict": {"mode": state.completion_mode, "reason": "done"}},
            Ev.RETRY_DECLINED: {"rule": "test"},
            Ev.RETRY_SCHEDULED: {"rule": "test"},
        }  # fmt: skip
        return known.get(event, {})


_FAILURE = {"failure": failure_of("POLICY_DENIED", "denied")}
_CLEANUP = {"cleanup": "done", "process_group_gone": True, "artifacts_saved": True}
_PLAIN: dict[Ev, Json] = {
    Ev.RUN_ENQUEUED: {"not_before": ""},
    Ev.LEASE_RELEASED: {"reason": "shutting down"},
    Ev.WORKER_STARTED: {"worker_version": "1.0", "isolation": "process"},
    Ev.SANDBOX_READY: {"sandbox_id": "sbx-1", "base_commit": BASE},
    Ev.CONTEXT_READY: {"summary": "A small repository."},
    Ev.VERIFICATION_STARTED: {"commands": ["test"]},
    Ev.PR_CREATED: {
        "provider": "git",
        "url": "https://git.example/x.git",
        "branch": "agent/x",
        "commit_sha": COMMIT,
        "tree_sha": TREE,
        "body": "What was done, and the evidence.",
    },
    Ev.PR_CREATION_FAILED: {"failure": failure_of("PR_CREATION_FAILED", "provider_down")},
    Ev.NON_RETRYABLE_FAILURE: _FAILURE,
    Ev.RUN_CANCELLED: _CLEANUP,
    Ev.CLEANUP_REPORTED: _CLEANUP,
    Ev.ATTEMPT_FINISHED: {"outcome": "failed", "failure": failure_of()},
    Ev.MODEL_DECISION: {"decision": "tool", "model": "m", "input_tokens": 1, "output_tokens": 1},
    Ev.QUESTION_ASKED: {"question": "Which one?", "choices": ["a", "b"]},
    Ev.CANCEL_REQUESTED: {"reason": "not needed"},
    Ev.PAUSE_REQUESTED: {"reason": "look first"},
    Ev.WIND_DOWN_REQUESTED: {"reason": "enough"},
    Ev.RUN_RESUMED: {"reason": "go on"},
    Ev.NOTE_ADDED: {"text": "looks fine"},
    Ev.TIMEOUT: {"scope": "heartbeat", "limit_seconds": 60, "since": "2026-01-01T00:00:00.000000Z"},
    Ev.INSTRUCTION_ADDED: {"text": "Leave generated files alone."},
    Ev.PRIORITY_CHANGED: {"priority": 9},
    Ev.GUARD_WAIVED: {"guard": "tests_intact", "reason": "agreed"},
}


def stored_at(artifact: Artifact) -> Path:
    """The file of its bytes, where artifacts are kept in a folder."""
    return Path(settings.ARTIFACT_DIR) / artifact.sha256[:2] / artifact.sha256
