"""Drives runs through the service as workers and people would, and knows a valid payload for every event.

Nothing here writes a status of its own; see ``tests.evidence`` for what it shows to the runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs import auth, leases, service, store
from runs.domain.commands import Caller, Command, Context
from runs.domain.decide import decide, first_events
from runs.domain.facts import CONTROL_PLANE, Json, stamp
from runs.domain.fold import evolve
from runs.domain.policy import Effective
from runs.domain.state import RunState
from runs.domain.vocabulary import (
    CLAIMABLE,
    MACHINE_ROLES,
    CompletionMode,
    Ev,
    Role,
    RunStatus,
    TaskEv,
)
from runs.models import Person, Policy, Repository, Run, Task, WorkerAccount
from runs.service import runs as running
from tests.evidence import BASE, Evidence, contract_of, failure_of, reading

__all__ = ["BASE", "Driver", "contract_of", "failure_of", "reading"]

S = RunStatus


@dataclass
class Driver(Evidence):
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
            "budget": running.budget_left(task, around)[0],
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
        context = running._context(hand, command, lease_is_alive=running._is_alive(hand, command))
        first = decide(hand.state, command, context).events[0]
        state = hand.state.copy()
        changes = evolve(state, first)
        store.write(hand.taken.run, [first], state, changes, hand.taken.around)

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
