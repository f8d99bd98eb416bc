"""Columns, constraints, triggers and FSM edges. No decisions."""

from runs.models.archives import EventArchive
from runs.models.audit import AuditEntry
from runs.models.campaigns import Campaign, CampaignEvent, CampaignPart
from runs.models.checks import Alarm, FoldCheckpoint, LogCheck
from runs.models.holds import Hold
from runs.models.logs import LiveLog, LogChunk
from runs.models.outcomes import RunOutcome
from runs.models.people import ApiToken, Person, RoleGrant, WorkerAccount
from runs.models.repositories import Organisation, Policy, PolicyRule, PolicyVersion, Repository
from runs.models.runs import Attempt, Run, RunEvent, RunWatch, Step
from runs.models.schedule import PeriodicTask
from runs.models.sessions import Session
from runs.models.spending import DaySpend
from runs.models.tasks import Instruction, Task, TaskEvent
from runs.models.work import Artifact, Delivery, Lease, OutboxMessage, PullRequest, Refusal

__all__ = [
    "Alarm",
    "ApiToken",
    "Artifact",
    "Attempt",
    "AuditEntry",
    "Campaign",
    "CampaignEvent",
    "CampaignPart",
    "DaySpend",
    "Delivery",
    "EventArchive",
    "FoldCheckpoint",
    "Hold",
    "Instruction",
    "Lease",
    "LiveLog",
    "LogCheck",
    "LogChunk",
    "Organisation",
    "OutboxMessage",
    "PeriodicTask",
    "Person",
    "Policy",
    "PolicyRule",
    "PolicyVersion",
    "PullRequest",
    "Refusal",
    "Repository",
    "RoleGrant",
    "Run",
    "RunEvent",
    "RunOutcome",
    "RunWatch",
    "Session",
    "Step",
    "Task",
    "TaskEvent",
    "WorkerAccount",
]
