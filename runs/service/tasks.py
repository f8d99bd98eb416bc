"""Task commands, by the same steps as a run's: lock, decide, write, outbox; one transaction each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs import store
from runs.domain.commands import Caller, Command, NextRun
from runs.domain.contract import check_contract, normalise, rejection_reasons
from runs.domain.errors import (
    DuplicateTask,
    IdempotencyKeyReused,
    Invalid,
    NotAllowedNow,
)
from runs.domain.facts import CONTROL_PLANE, Actor, Json, fingerprint, stamp
from runs.domain.secrets import without_secrets
from runs.domain.tasks import TaskState
from runs.domain.vocabulary import TASK_FINAL, Ev, Role, TaskEv, TaskStatus
from runs.models import Campaign, Repository, Run, Task
from runs.service.people import run_direct
from runs.service.runs import apply_event, archive_if_asked, start_run

MAX_KEY = 255


def _actor(by: Caller) -> Actor:
    return Actor(Role.HUMAN if Role.HUMAN in by.roles else Role.POLICY, by.account, by.name)


def task_create(
    *,
    data: Mapping[str, Any],
    repository: Repository,
    by: Caller,
    key: str = "",
    parent: Task | None = None,
    campaign: Campaign | None = None,
) -> tuple[Task, bool]:
    """Make a task (DRAFT), and submit it when ``data["submit"]`` is true. Returns (task, made now).

    The same key with the same body answers with the same task. Raises ``Invalid``, ``DuplicateTask``,
    ``IdempotencyKeyReused``, ``NotAllowedNow`` where the repository is archived.
    """
    contract = normalise({**data, "repository": repository.name})
    contract["base_branch"] = contract["base_branch"] or repository.base_branch
    wrong = check_contract(contract)
    dedupe_key = data.get("dedupe_key") or ""
    if not isinstance(dedupe_key, str) or len(dedupe_key) > MAX_KEY:
        wrong["dedupe_key"] = [f"must be text of at most {MAX_KEY} characters"]
    if wrong:
        raise Invalid(wrong)
    request = fingerprint([contract, dedupe_key, bool(data.get("submit"))])
    if key and (earlier := Task.objects.filter(created_by_id=by.account, idempotency_key=key).first()):
        return _same_request(earlier, request), False
    _check_open(repository)
    try:
        with transaction.atomic():
            task = Task(
                id=new_id("task"),
                repository=repository,
                created_by_id=by.account,
                idempotency_key=key,
                dedupe_key=dedupe_key,
                request_fingerprint=request,
                parent=parent,
                campaign=campaign,
            )
            _log_creation(task, contract, by)
            if data.get("submit"):
                _submit(task, by)
    except IntegrityError as error:
        return _lost_the_race(error, by=by, key=key, dedupe=(repository, dedupe_key), request=request), False
    return task, True


def _check_open(repository: Repository) -> None:
    if repository.archived_at:
        raise NotAllowedNow(f"{repository.name} is archived and takes no new tasks.")


def _same_request(task: Task, request: str) -> Task:
    if task.request_fingerprint != request:
        raise IdempotencyKeyReused
    return task


def _lost_the_race(
    error: IntegrityError, *, by: Caller, key: str, dedupe: tuple[Repository, str], request: str
) -> Task:
    if "one_task_per_idempotency_key" in str(error):
        return _same_request(Task.objects.get(created_by_id=by.account, idempotency_key=key), request)
    if "one_unfinished_task_per_key" in str(error):
        final = [status.value for status in TASK_FINAL]
        other = (
            Task.objects.filter(repository=dedupe[0], dedupe_key=dedupe[1]).exclude(status__in=final).first()
        )
        raise DuplicateTask(task_id=other.pk if other else "") from error
    raise error


def _log_creation(task: Task, contract: Json, by: Caller) -> None:
    belongs = {"parent_id": task.parent_id or "", "campaign_id": task.campaign_id or ""}
    facts = {"repository_id": task.repository_id, **belongs}
    store.append_task(
        task,
        TaskEv.TASK_CREATED,
        actor=_actor(by),
        now=database_now(),
        payload={"contract": contract},
        facts=facts,
    )


@transaction.atomic
def task_edit(*, task_id: str, data: Mapping[str, Any], by: Caller) -> Task:
    """Edit a draft; of an unfinished task only priority and labels may change."""
    task = _locked_with_run(task_id)
    present = {**task.contract, "priority": task.priority, "labels": task.labels}
    contract = normalise({**present, **data, "repository": task.contract["repository"]})
    if wrong := check_contract(contract):
        raise Invalid(wrong)
    now = database_now()
    if task.status == TaskStatus.DRAFT:
        contract["base_branch"] = contract["base_branch"] or task.repository.base_branch
        facts = {"repository_id": task.repository_id}
        store.append_task(
            task,
            TaskEv.TASK_EDITED,
            actor=_actor(by),
            now=now,
            payload={"contract": contract},
            facts=facts,
        )
        return task
    changed = [n for n in contract if contract[n] != task.contract[n] and n not in ("priority", "labels")]
    if changed:
        raise NotAllowedNow(f"Only a draft can change {', '.join(changed)}.", status=task.status)
    payload = {"priority": contract["priority"], "labels": contract["labels"]}
    store.append_task(task, TaskEv.PRIORITY_CHANGED, actor=_actor(by), now=now, payload=payload)
    run = _active_run(task)
    if run and "priority" in data:
        apply_event(run.pk, Command(Ev.PRIORITY_CHANGED, {"priority": contract["priority"]}, by, ""))
    return task


@transaction.atomic
def task_delete(*, task_id: str) -> None:
    """Delete a draft; its log stays."""
    task = store.lock_task(task_id)
    if task.status != TaskStatus.DRAFT:
        raise NotAllowedNow("Only a draft can be deleted; cancel or archive it instead.", status=task.status)
    task.delete()


@transaction.atomic
def task_submit(*, task_id: str, by: Caller) -> Task:
    """Validate a draft against its repository's policy; REJECTED with all reasons, or RUNNING with a run."""
    task = store.lock_task(task_id)
    _check_open(task.repository)
    _submit(task, by)
    return task


def _submit(task: Task, by: Caller) -> None:
    now, actor = database_now(), _actor(by)
    store.append_task(task, TaskEv.TASK_SUBMITTED, actor=actor, now=now)
    store.append_task(task, TaskEv.VALIDATION_STARTED, actor=CONTROL_PLANE, now=now)
    policy = store.effective_policy(task.repository_id)
    facts: Json = {"policy_version": policy.version}
    if reasons := rejection_reasons(task.contract, policy.values):
        facts["reasons"] = reasons
        store.append_task(task, TaskEv.TASK_REJECTED, actor=CONTROL_PLANE, now=now, facts=facts)
        return
    store.append_task(task, TaskEv.TASK_ACCEPTED, actor=CONTROL_PLANE, now=now, facts=facts)
    start_run(task, around=store.Surroundings(task.contract, policy), now=now)


def _active_run(task: Task) -> Run | None:
    run = Run.objects.filter(pk=task.latest_run_id).first() if task.latest_run_id else None
    return run if run and run.is_active else None


def _locked_with_run(task_id: str) -> Task:
    """The task, locked after its latest run: that order everywhere."""
    while True:
        peek = Task.objects.filter(pk=task_id).only("latest_run_id").first()
        begun = transaction.savepoint()
        if peek and peek.latest_run_id:
            store.lock_run(peek.latest_run_id)
        task = store.lock_task(task_id)
        if peek is None or task.latest_run_id == peek.latest_run_id:
            transaction.savepoint_commit(begun)
            return task
        # Another run began between the look and the lock: let both go, for its lock comes before the task's.
        transaction.savepoint_rollback(begun)


@transaction.atomic
def task_cancel(*, task_id: str, reason: str, by: Caller) -> Task:
    """Cancel a task: its run by its own rules, and the task with it; without a run at once."""
    task = _locked_with_run(task_id)
    if task.status in TASK_FINAL:
        raise NotAllowedNow(f"The task is {task.status.lower()} already.", status=task.status)
    if run := _active_run(task):
        run_direct(run_id=run.pk, event=Ev.CANCEL_REQUESTED, reason=reason, by=by)
        return Task.objects.get(pk=task_id)
    facts = {"reason": reason}
    now = database_now()
    store.append_task(task, TaskEv.TASK_CANCELLED, actor=_actor(by), now=now, facts=facts)
    archive_if_asked(task, now=now)
    return task


@transaction.atomic
def task_retry(*, task_id: str, by: Caller) -> Task:
    """Start the next run now: skip a pending backoff, or make a new run of a blocked task."""
    task = _locked_with_run(task_id)
    if task.status in TASK_FINAL:
        raise NotAllowedNow("The task has ended; use run-again to make a new one.", status=task.status)
    if run := _active_run(task):
        if not run.not_before or run.not_before <= database_now():
            raise NotAllowedNow("Its run is under way; there is nothing to retry.", run_id=run.pk)
        payload = {"priority": task.priority, "start_now": True}
        apply_event(run.pk, Command(Ev.PRIORITY_CHANGED, payload, by, ""))
        return task
    if not task.latest_run_id:
        raise NotAllowedNow("Submit the task first.", status=task.status)
    return _unblock(task, by, rule="retried_by_person")


@transaction.atomic
def access_renewed(*, task_id: str, by: Caller) -> Task:
    """Somebody renewed access: the blocked task gets a new run."""
    task = _locked_with_run(task_id)
    blocked = TaskState.from_json(task.state).blocked
    if not blocked or blocked["rule"] != "access_to_renew":
        raise NotAllowedNow("This task does not wait for access.", status=task.status)
    return _unblock(task, by, rule="access_renewed")


def _unblock(task: Task, by: Caller, *, rule: str) -> Task:
    now = database_now()
    around = store.Surroundings(task.contract, store.effective_policy(task.repository_id))
    start_run(task, around=around, now=now, follows=NextRun(stamp(now), (), rule))
    return task


def run_again(*, task_id: str, by: Caller, key: str = "") -> tuple[Task, bool]:
    """A new task by the contract of a finished one, which it names."""
    old = Task.objects.select_related("repository").get(pk=task_id)
    if old.status not in TASK_FINAL:
        raise NotAllowedNow("The task has not ended; retry it instead.", status=old.status)
    data = {**old.contract, "submit": True}
    return task_create(data=data, repository=old.repository, by=by, key=key, parent=old)


@transaction.atomic
def task_archive(*, task_id: str, by: Caller, restore: bool = False) -> Task:
    """Hide a task from active lists, or bring it back. Doing it twice changes nothing."""
    task = store.lock_task(task_id)
    if bool(task.archived_at) is not restore:
        return task
    event = TaskEv.TASK_RESTORED if restore else TaskEv.TASK_ARCHIVED
    store.append_task(task, event, actor=_actor(by), now=database_now())
    return task


@transaction.atomic
def task_archive_after(*, task_id: str, by: Caller) -> Task:
    """Archive an unfinished task as soon as it ends; one that has ended, now. Twice changes nothing."""
    task = store.lock_task(task_id)
    if task.status in TASK_FINAL:
        return task_archive(task_id=task_id, by=by)
    if not TaskState.from_json(task.state).archive_after:
        payload = {"after": True}
        store.append_task(task, TaskEv.TASK_ARCHIVED, actor=_actor(by), now=database_now(), payload=payload)
    return task


@transaction.atomic
def instruction_add(*, task_id: str, text: str, by: Caller) -> int:
    """A further instruction for an unfinished task; its run knows it at once. Returns its number."""
    task, text = _locked_with_run(task_id), without_secrets(text)
    event = store.append_task(
        task,
        TaskEv.INSTRUCTION_ADDED,
        actor=_actor(by),
        now=database_now(),
        payload={"text": text},
    )
    number = len(TaskState.from_json(task.state).instructions)
    if run := _active_run(task):
        facts = {"instruction_no": number, "task_event": event.id}
        apply_event(run.pk, Command(Ev.INSTRUCTION_ADDED, {"text": text}, by, "", facts=facts))
    return number
