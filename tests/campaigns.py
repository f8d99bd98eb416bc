"""Campaigns over small repositories, and the means to bring their tasks to an end."""

from __future__ import annotations

from typing import Any

from runs import auth, leases, service
from runs.domain.campaigns.state import CampaignState
from runs.domain.facts import Json
from runs.domain.vocabulary import CompletionMode, Ev, PersonRole, RunStatus
from runs.models import Campaign, Person, Repository
from runs.store.campaigns import campaign_state
from tests.factories import Holder, Machine, contract, drive, person, repository


def campaign_data(**fields: Any) -> Json:
    """What a person sends to make a campaign of tasks that end with a report, over all repositories."""
    mode = fields.pop("completion_mode", CompletionMode.ANALYSIS_REPORT_CREATED.value)
    own = {name: fields.pop(name) for name in ("budget", "auto_pr", "verifiers") if name in fields}
    return {"contract": contract(completion_mode=mode, **own), "repositories": ["fleet-*"], **fields}


def make_repositories(count: int, **options: Any) -> list[Repository]:
    """``fleet-01``, ``fleet-02`` and so on."""
    return [repository(f"fleet-{number:02}", **options) for number in range(1, count + 1)]


def make_campaign(count: int = 6, *, by: Person | None = None, key: str = "", **fields: Any) -> Campaign:
    """A campaign over ``count`` new repositories; nothing is begun before the first step."""
    make_repositories(count)
    creator = by or person(PersonRole.SUBMITTER)
    made, _ = service.campaign_create(
        data=campaign_data(**fields),
        known=Repository.objects.all(),
        by=auth.of_person(creator).caller,
        key=key,
    )
    return made


def state_of(campaign: Campaign) -> CampaignState:
    """The campaign as it is now, with its parts."""
    return campaign_state(Campaign.objects.get(pk=campaign.pk))


def advance(campaign: Campaign) -> list[str]:
    """What one sweep does for it; the types of the new events."""
    return [event.type for event in service.campaign_advance(campaign_id=campaign.pk)]


def claim_any(machine: Machine) -> Holder | None:
    """The next run for this machine, if there is one."""
    found = leases.lease_claim(principal=machine.principal)
    return Holder(machine, found.run.pk, found.token) if found else None


def finish(holder: Holder) -> None:
    """The task's run ends well."""
    if holder.run.task.completion_mode != CompletionMode.ANALYSIS_REPORT_CREATED:
        drive(holder, RunStatus.PR_CREATING)
        return
    drive(holder, RunStatus.EXECUTING)
    holder.report()
    holder.judge()


def fail(holder: Holder) -> None:
    """The task's run ends badly, and is not tried again."""
    holder.post(Ev.WORKER_STARTED, worker_version="1")
    failure = {"category": "POLICY_DENIED", "reason": "not_here", "summary": "It cannot be done here."}
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
