"""Drives runs through the service as workers and people would, and knows a valid payload for every event.

Artifacts are inserted as the upload endpoint would store them: rows with the control plane's reading.
Nothing here writes a status, an event or a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs import auth, leases, service, store
from runs.domain.commands import Caller, Command, Context
from runs.domain.decide import decide, first_events
from runs.domain.facts import CONTROL_PLANE, Json, fingerprint, stamp
from runs.domain.fold import evolve
from runs.domain.patch.reading import GitWord, patch_facts
from runs.domain.policy import Effective
from runs.domain.state import RunState
from runs.domain.vocabulary import (
    CLAIMABLE,
    MACHINE_ROLES,
    ArtifactKind,
    CompletionMode,
    Ev,
    Role,
    RunStatus,
    TaskEv,
)
from runs.models import Artifact, Person, Policy, Repository, Run, Task, WorkerAccount
from runs.service import runs as running

S = RunStatus
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


@dataclass
class Driver:
    """One task's present run, its people and its worker (with all roles)."""

    repository: Repository
    person: Person
    worker: WorkerAccount
    task_id: str = ""
    run_id: str = ""
    token: str = ""
    operations: int = 0
    last: service.Outcome | None = field(default=None, repr=False)

    # --- making ---------------------------------------------------------------------------------

    @classmethod
    def prepared(cls, *, policy: Json | None = None) -> Driver:
        """A repository, a person and a worker of their own; no task yet."""
        rules = Policy.objects.create(name=new_id("policy"))
        if policy:
            store.add_policy_version(rules, policy, by="test")
        name = new_id("repository")
        repository = Repository.objects.create(name=name, url="https://git.example/x.git", policy=rules)
        person = Person.objects.create(username=new_id("person"))
        roles = [role.value for role in MACHINE_ROLES]
        worker = WorkerAccount.objects.create(name=new_id("worker"), roles=roles)
        worker.repositories.add(repository)
        return cls(repository, person, worker)

    @classmethod
    def started(cls, *, policy: Json | None = None, **contract: Any) -> Driver:
        """A submitted task with its first run QUEUED."""
        driver = cls.prepared(policy=policy)
        driver.submit(**contract)
        return driver

    @classmethod
    def at(cls, status: RunStatus, *, policy: Json | None = None, **contract: Any) -> Driver:
        """A run in ``status``, brought there by real events."""
        if status is S.CREATED:
            driver = cls.prepared(policy=policy)
            driver.create_only(**contract)
            return driver
        if status is S.WAITING_FOR_APPROVAL:
            contract.setdefault("auto_pr", False)
        driver = cls.started(policy=policy, **contract)
        driver.drive(status)
        return driver

    def submit(self, **contract: Any) -> None:
        task, _ = service.task_create(data=contract_of(**contract), repository=self.repository, by=self.human)
        self.task_id, self.run_id = task.pk, task.latest_run_id

    def create_only(self, **contract: Any) -> None:
        """A run that is CREATED and not queued yet: the service makes both moves in one transaction."""
        data = contract_of(**contract, submit=False)
        task, _ = service.task_create(data=data, repository=self.repository, by=self.human)
        now = database_now()
        for event in (TaskEv.TASK_SUBMITTED, TaskEv.VALIDATION_STARTED, TaskEv.TASK_ACCEPTED):
            store.append_task(task, event, actor=CONTROL_PLANE, now=now)
        around = store.Surroundings(task.contract, store.effective_policy(self.repository.pk))
        run = store.insert_run(run_id=new_id("run"), task=task, attempt_no=1, now=now)
        payload = {
            "task_id": task.pk,
            "repository_id": self.repository.pk,
            "attempt_no": 1,
            "completion_mode": task.completion_mode,
            "risk_level": task.risk_level,
            "budget": running.budget_left(task, around),
        }
        context = _plain_context(now, around.policy, task.contract)
        decision = first_events(run.pk, payload, not_before=stamp(now), facts={}, context=context)
        created = decision.events[0]
        state = RunState(id=run.pk)
        changes = evolve(state, created)
        store.write(run, [created], state, changes, around)
        store.append_task(
            task,
            TaskEv.RUN_SCHEDULED,
            actor=CONTROL_PLANE,
            now=now,
            facts={"run_id": run.pk, "attempt_no": 1},
        )
        self.task_id, self.run_id = task.pk, run.pk

    # --- looking --------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        return Run.objects.get(pk=self.run_id)

    @property
    def state(self) -> RunState:
        return RunState.from_json(self.run.state)

    @property
    def task(self) -> Task:
        return Task.objects.get(pk=self.task_id)

    @property
    def human(self) -> Caller:
        return Caller(self.person.pk, self.person.username, frozenset({Role.HUMAN}))

    def types(self) -> list[str]:
        """The event types of the run's log, in sequence."""
        return [event.type for event in store.events_of(self.run_id)]

    def caller(self, *roles: Role) -> Caller:
        """Somebody with exactly these roles: the worker, a person, or the control plane itself."""
        if Role.HUMAN in roles:
            return self.human
        if set(roles) <= set(MACHINE_ROLES):
            return Caller(self.worker.pk, self.worker.name, frozenset(roles), is_machine=True)
        return Caller("control_plane", "Control plane", frozenset(roles))

    # --- acting ---------------------------------------------------------------------------------

    def claim(self, *roles: Role, worker: WorkerAccount | None = None, key: str = "") -> leases.Claim:
        """Lease the run; it must be claimable."""
        principal = auth.of_worker(worker or self.worker)
        found = leases.lease_claim(principal=principal, roles=[role.value for role in roles], key=key)
        assert found is not None, f"{self.run_id} in {self.run.status} was not offered"
        assert found.run.pk == self.run_id
        self.token = found.token
        return found

    def post(self, event: Ev, payload: Json | None = None, *, role: Role | None = None, **more: Any) -> Any:
        """Post an event in the role that owns it (or ``role``); a valid payload where none is given."""
        roles = (role,) if role else self._roles_for(event)
        if payload is None:
            payload = self.payload(event)
        more.setdefault("key", new_id("key"))
        more.setdefault("lease_token", self.token)
        more.setdefault("facts", self.facts(event))
        command = Command(event, payload, self.caller(*roles), **more)
        self.last = service.apply_event(self.run_id, command)
        return self.last

    def _roles_for(self, event: Ev) -> tuple[Role, ...]:
        if event in _OWN:
            return (_OWN[event],)
        return MACHINE_ROLES if event not in _HUMAN else (Role.HUMAN,)

    def direct(self, event: Ev, reason: str = "because") -> service.Outcome:
        """A person's directive."""
        return service.run_direct(run_id=self.run_id, event=event, reason=reason, by=self.human)

    def decide(self, event: Ev, **more: Any) -> service.Outcome:
        """A person's decision at the open gate."""
        return self.post(event, {**self.decision(), **more})

    def only(self, event: Ev) -> None:
        """The event without what follows it: to stand in a status that the service passes through."""
        command = Command(event, self.payload(event), self.caller(*MACHINE_ROLES), new_id("key"), self.token)
        hand = running._take(self.run_id, [command])
        first = decide(hand.state, command, running._context(hand, command)).events[0]
        state = deepcopy(hand.state)
        changes = evolve(state, first)
        store.write(hand.run, [first], state, changes, hand.around)

    def lose_lease(self) -> service.Outcome:
        """The sweep found that the worker fell silent."""
        return self.post(Ev.LEASE_LOST, {"limit_seconds": 60, "since": stamp(database_now())})

    def follow(self) -> RunState:
        """Turn to the task's newest run."""
        self.run_id, self.token = self.task.latest_run_id, ""
        return self.state

    def start_now(self) -> None:
        """Skip a pending backoff, as a person may."""
        run = self.run
        if run.not_before and run.not_before > database_now():
            service.task_retry(task_id=self.task_id, by=self.human)

    def step(self) -> RunState:
        """The next event of the straight way; claims where nobody holds the run."""
        state = self.state
        if state.holder is None and state.run_status in CLAIMABLE:
            self.start_now()
            self.claim()
        else:
            analysis = state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED
            straight = Ev.REPORT_CREATED if analysis else Ev.PATCH_CREATED
            self.post(_STRAIGHT.get(state.run_status, straight))
        return self.state

    def drive(self, status: RunStatus) -> RunState:
        """Go on until the run is in ``status``."""
        for _ in range(20):
            state = self.state
            if state.status == status:
                return state
            if status is S.PR_CREATED and state.status == S.PR_CREATING and state.holder:
                self.only(Ev.PR_CREATED)
            elif status in (S.FAILED, S.EXPIRED, S.CANCELLED) and state.status == S.LEASED:
                self.end_as(status)
            else:
                self.step()
        raise AssertionError(f"{self.run_id} stands in {self.state.status}, wanted {status}")

    def end_as(self, status: RunStatus) -> None:
        """End a leased run as FAILED, EXPIRED or CANCELLED."""
        if status is S.EXPIRED:
            self.lose_lease()
        elif status is S.CANCELLED:
            self.direct(Ev.CANCEL_REQUESTED)
            self.post(Ev.RUN_CANCELLED)
        else:
            self.post(Ev.NON_RETRYABLE_FAILURE, {"failure": failure_of("POLICY_DENIED", "denied")})

    # --- evidence -------------------------------------------------------------------------------

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


def _plain_context(now: Any, policy: Effective, contract: Json) -> Context:
    return Context(
        now=now, policy=policy.values, policy_version=policy.version, contract=contract, new_id=new_id
    )


_STRAIGHT = {
    S.LEASED: Ev.WORKER_STARTED,
    S.PREPARING: Ev.SANDBOX_READY,
    S.CONTEXT_BUILDING: Ev.CONTEXT_READY,
    S.PLANNING: Ev.PLAN_CREATED,
    S.PATCH_READY: Ev.VERIFICATION_STARTED,
    S.VERIFYING: Ev.VERIFICATION_PASSED,
    S.JUDGING: Ev.JUDGE_PASSED,
    S.WAITING_FOR_APPROVAL: Ev.APPROVED,
    S.PR_CREATING: Ev.PR_CREATED,
}

#: Events that the control plane makes itself, and in which role.
_OWN = {
    Ev.RUN_ENQUEUED: Role.SCHEDULER,
    Ev.LEASE_LOST: Role.SCHEDULER,
    Ev.TIMEOUT: Role.SCHEDULER,
    Ev.AUTO_PR_ALLOWED: Role.POLICY,
    Ev.HUMAN_APPROVAL_REQUIRED: Role.POLICY,
    Ev.POLICY_EVALUATED: Role.POLICY,
    Ev.RETRY_SCHEDULED: Role.POLICY,
    Ev.RETRY_DECLINED: Role.POLICY,
    Ev.COMPLETION_CONDITION_MET: Role.CONTROL_PLANE,
    Ev.ATTEMPT_STARTED: Role.CONTROL_PLANE,
    Ev.DIRECTIVE_SEEN: Role.CONTROL_PLANE,
}
_HUMAN = frozenset(
    {
        Ev.APPROVED,
        Ev.CHANGES_REQUESTED,
        Ev.REJECTED,
        Ev.CANCEL_REQUESTED,
        Ev.PAUSE_REQUESTED,
        Ev.WIND_DOWN_REQUESTED,
        Ev.RUN_RESUMED,
        Ev.INSTRUCTION_ADDED,
        Ev.PRIORITY_CHANGED,
        Ev.BUDGET_RAISED,
        Ev.GUARD_WAIVED,
        Ev.VOTE_RECORDED,
        Ev.NOTE_ADDED,
    }
)

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
