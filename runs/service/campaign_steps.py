"""What moves campaigns on: one step after the other, each in a transaction of its own, from the sweep.

A step reads what became of the tasks, decides, and writes events and new tasks together. Lost in a crash it
is decided again; in two processes at once the second waits for the campaign's lock and finds nothing left.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Sum, When

from agentplatform.clock import database_now
from runs import store
from runs.domain.campaigns.decide import Draft, Look, Seen, next_step, not_startable
from runs.domain.campaigns.state import CampaignState
from runs.domain.campaigns.words import CAMPAIGN_FINAL, CampaignEv, CampaignStatus, PartState
from runs.domain.commands import Caller
from runs.domain.errors import Refusal
from runs.domain.facts import POLICY, Event
from runs.domain.payloads import reason_within
from runs.domain.vocabulary import ACTIVE, TASK_FINAL, Directive, Ev, Role, TaskStatus
from runs.models import Campaign, Lease, PullRequest, Repository, Run, Task
from runs.service.people import run_direct
from runs.service.tasks import task_cancel, task_create

log = structlog.get_logger(__name__)

#: Steps of one campaign in one sweep; more wait for the next.
MOST_STEPS: Final = 50
_POLICY: Final = Caller(POLICY.id, POLICY.name, frozenset({Role.POLICY}))
_FINAL: Final = [status.value for status in TASK_FINAL]


def unfinished_campaigns() -> list[str]:
    """Ids of the campaigns that may have to be moved on, oldest first. One query."""
    final = [status.value for status in CAMPAIGN_FINAL]
    return list(
        Campaign.objects.exclude(status__in=final).order_by("created_at").values_list("pk", flat=True)
    )


def campaign_advance(*, campaign_id: str) -> list[Event]:
    """Take every step that follows now, and let its tasks follow it; returns the new events."""
    events = _steps(campaign_id)
    if campaign_settle(campaign_id=campaign_id):
        events += _steps(campaign_id)  # what was cancelled just now is told at once
    return events


def _steps(campaign_id: str) -> list[Event]:
    events: list[Event] = []
    for _ in range(MOST_STEPS):
        new = _step(campaign_id)
        if not new:
            break
        events += new
    return events


@transaction.atomic
def _step(campaign_id: str) -> list[Event]:
    held = store.lock_campaign(campaign_id)
    drafts = next_step(held.state, look_at(held.state))
    if not drafts:
        return []
    return store.append_campaign(held, _with_tasks(held, drafts), now=database_now())


def _with_tasks(held: store.HeldCampaign, drafts: list[Draft]) -> list[Draft]:
    """The drafts, where a part is begun with its new task: both are written, or neither."""
    begun = [draft.facts["repository_id"] for draft in drafts if draft.event is CampaignEv.PART_STARTED]
    repositories = Repository.objects.in_bulk(begun)
    return [
        _begun(held, draft, repositories[draft.facts["repository_id"]])
        if draft.event is CampaignEv.PART_STARTED
        else draft
        for draft in drafts
    ]


def _begun(held: store.HeldCampaign, draft: Draft, repository: Repository) -> Draft:
    part = held.state.parts[repository.pk]
    creator = held.row.created_by
    if not creator.is_active:  # nobody would answer for it
        gone = f"{creator.get_username()}, who asked for this, has left"
        return not_startable(part, f"{gone}; start another campaign over what is left.")
    try:
        task, _ = task_create(
            data={**held.state.contract, "submit": True},
            repository=repository,
            by=Caller(creator.pk, creator.get_username(), frozenset({Role.HUMAN})),
            key=f"{held.row.pk}-{repository.pk}-{part.tries + 1}",
            campaign=held.row,
        )
    except Refusal as refusal:
        return not_startable(part, f"Its task could not be made: {refusal.in_words}")
    return Draft(draft.event, facts={**draft.facts, "task_id": task.pk, "tries": part.tries + 1})


# --- what is looked at ----------------------------------------------------------------------------


def look_at(state: CampaignState) -> Look:
    """What became of the tasks of begun parts, and which repositories are gone. Five queries at most."""
    open_states = (PartState.RUNNING, PartState.DELIVERED)
    parts = {part.task_id: pk for pk, part in state.parts.items() if part.state in open_states}
    ready = [
        pk for pk, p in state.parts.items() if p.state == PartState.WAITING and p.position <= state.opened
    ]
    archived = Repository.objects.filter(pk__in=ready, archived_at__isnull=False).values_list("pk", flat=True)
    return Look(
        seen={parts[task_id]: seen for task_id, seen in _seen(list(parts)).items()} if parts else {},
        archived=frozenset(archived) if ready else frozenset(),
    )


def _seen(task_ids: list[str]) -> dict[str, Seen]:
    # Statuses first: of a task that is seen to have ended, what is read later is final.
    tasks = list(Task.objects.filter(pk__in=task_ids).only("status", "rejection_reasons", "latest_run_id"))
    own, follow_ups = Q(task_id__in=task_ids), Q(task__parent_id__in=task_ids, task__campaign__isnull=False)
    of = Case(When(own, then=F("task_id")), default=F("task__parent_id"))
    runs = Run.objects.filter(own | follow_ups).order_by().annotate(of=of)
    costs = dict(runs.values("of").annotate(cost=Sum("cost_usd")).values_list("of", "cost"))
    pull_requests = PullRequest.objects.filter(run__task_id__in=task_ids).order_by("created_at")
    merges = dict(pull_requests.values_list("run__task_id", "state"))
    ended = [task.latest_run_id for task in tasks if task.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)]
    why = dict(Run.objects.filter(pk__in=ended).values_list("pk", "status_reason")) if ended else {}
    return {
        task.pk: Seen(
            task.status,
            merges.get(task.pk, ""),
            " ".join(task.rejection_reasons) or why.get(task.latest_run_id, ""),
            costs.get(task.pk) or Decimal(0),
        )
        for task in tasks
    }


# --- its tasks follow it --------------------------------------------------------------------------


def campaign_settle(*, campaign_id: str) -> list[str]:
    """Let tasks follow what people did with their campaign: cancelled with it, paused and resumed with it.

    Each in a transaction of its own; repeating it does nothing twice. Returns the ids of what was moved.
    """
    row = Campaign.objects.filter(pk=campaign_id).first()
    if row is None:
        return []
    state = CampaignState.from_json(row.state)
    if row.status == CampaignStatus.CANCELLING:
        return _cancel_tasks(row, state)
    if row.status == CampaignStatus.PAUSED:
        leased = Exists(Lease.objects.filter(run=OuterRef("pk"), ended_at__isnull=True))
        running = _runs(row).filter(leased, directive=Directive.CONTINUE.value)
        return _direct(running, Ev.PAUSE_REQUESTED, by=state.pause or {}, reason=_paused_with(row, state))
    if state.resumed:
        paused = _runs(row).filter(directive=Directive.PAUSE.value)
        ours = paused.filter(state__directive_info__reason__startswith=_mark(row))
        return _direct(ours, Ev.RUN_RESUMED, by=state.resumed, reason=f"{_mark(row)} was resumed.")
    return []


def _mark(row: Campaign) -> str:
    """What the reason of a pause begins with that came with the campaign's: only such ends with it."""
    return f"The campaign {row.pk}"


def _paused_with(row: Campaign, state: CampaignState) -> str:
    reason = (state.pause or {}).get("reason")
    return reason_within(f"{_mark(row)} was paused", reason) if reason else f"{_mark(row)} was paused."


def _runs(row: Campaign) -> QuerySet[Run]:
    return Run.objects.filter(task__campaign=row, status__in=[s.value for s in ACTIVE]).order_by("pk")


def _direct(runs: QuerySet[Run], event: Ev, *, by: dict[str, str], reason: str) -> list[str]:
    """As the person who asked for it: what follows for single runs is theirs, too."""
    caller = Caller(by.get("by_id", ""), by.get("by", ""), frozenset({Role.HUMAN}))
    moved = []
    for run_id in list(runs.values_list("pk", flat=True)):
        try:
            run_direct(run_id=run_id, event=event, reason=reason, by=caller)
        except Refusal as refusal:  # it ended, or is past that, by now
            log.info("campaign_moves_nothing", run_id=run_id, code=refusal.code)
            continue
        moved.append(run_id)
    return moved


def _cancel_tasks(row: Campaign, state: CampaignState) -> list[str]:
    tasks = Task.objects.filter(campaign=row).exclude(status__in=_FINAL).order_by("pk")
    reason = reason_within(f"{_mark(row)} was cancelled", (state.cancel or {}).get("reason", ""))
    return [task_id for task_id in _ids(tasks) if _cancel(task_id, reason)]


def _ids(tasks: QuerySet[Task]) -> Iterable[str]:
    return list(tasks.values_list("pk", flat=True))


def _cancel(task_id: str, reason: str) -> bool:
    try:
        task_cancel(task_id=task_id, reason=reason, by=_POLICY)
    except Refusal as refusal:  # it ended, or its pull request is being opened: it ends by itself
        log.info("campaign_cancels_nothing", task_id=task_id, code=refusal.code)
        return False
    return True
