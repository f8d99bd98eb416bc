"""One road for every change: API, pages, admin, Celery and commands all come through here."""

from runs.service.access import access_settle, person_leave, sessions_end
from runs.service.accounts import person_create, repository_create, worker_create
from runs.service.aftermath import parts_cancel
from runs.service.audit import COMMAND_LINE, audit_record, snapshot
from runs.service.breaker import trip_breakers
from runs.service.campaign_steps import campaign_advance, campaign_settle, unfinished_campaigns
from runs.service.campaigns import (
    CampaignPlan,
    campaign_cancel,
    campaign_change,
    campaign_create,
    campaign_pause,
    campaign_plan,
    campaign_resume,
    campaign_retry,
)
from runs.service.follow_ups import follow_up
from runs.service.gates import Held, guards_with_waiver, run_lock, spent_by_others
from runs.service.holds import cancel_held_runs, held_back_until, hold_lift, hold_over, hold_set
from runs.service.imports import organisation_keep, repositories_import
from runs.service.people import run_direct, run_note
from runs.service.policies import effective_policies, policy_change
from runs.service.pull_requests import (
    campaigns_full,
    history_looked,
    is_any_campaign_paced,
    outgoing_of,
    pull_request_nudge,
    pull_request_report,
    pull_request_rest,
    pull_request_reverted,
)
from runs.service.refusals import refusal_record
from runs.service.runs import Outcome, apply_batch, apply_event
from runs.service.tasks import (
    access_renewed,
    instruction_add,
    run_again,
    task_archive,
    task_archive_after,
    task_cancel,
    task_create,
    task_delete,
    task_edit,
    task_retry,
    task_submit,
)
from runs.service.tokens import OVERLAP, token_create, token_renew, tokens_revoke

__all__ = [
    "COMMAND_LINE",
    "OVERLAP",
    "CampaignPlan",
    "Held",
    "Outcome",
    "access_renewed",
    "access_settle",
    "apply_batch",
    "apply_event",
    "audit_record",
    "campaign_advance",
    "campaign_cancel",
    "campaign_change",
    "campaign_create",
    "campaign_pause",
    "campaign_plan",
    "campaign_resume",
    "campaign_retry",
    "campaign_settle",
    "campaigns_full",
    "cancel_held_runs",
    "effective_policies",
    "follow_up",
    "guards_with_waiver",
    "held_back_until",
    "history_looked",
    "hold_lift",
    "hold_over",
    "hold_set",
    "instruction_add",
    "is_any_campaign_paced",
    "organisation_keep",
    "outgoing_of",
    "parts_cancel",
    "person_create",
    "person_leave",
    "policy_change",
    "pull_request_nudge",
    "pull_request_report",
    "pull_request_rest",
    "pull_request_reverted",
    "refusal_record",
    "repositories_import",
    "repository_create",
    "run_again",
    "run_direct",
    "run_lock",
    "run_note",
    "sessions_end",
    "snapshot",
    "spent_by_others",
    "task_archive",
    "task_archive_after",
    "task_cancel",
    "task_create",
    "task_delete",
    "task_edit",
    "task_retry",
    "task_submit",
    "token_create",
    "token_renew",
    "tokens_revoke",
    "trip_breakers",
    "unfinished_campaigns",
    "worker_create",
]
