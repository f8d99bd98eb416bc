"""The words of campaigns: their statuses and events, the states of their parts, and why one stops."""

from __future__ import annotations

from typing import Final

from runs.domain.vocabulary import Word


class CampaignStatus(Word):
    """Where a campaign as a whole stands."""

    RUNNING = "RUNNING", "Running", "Repositories are begun wave by wave."
    HALTED = "HALTED", "Stopped", "Nothing more is begun until a person decides; what is under way goes on."
    PAUSED = "PAUSED", "Paused", "Nothing is begun, claimed or brought out until somebody resumes it."
    CANCELLING = "CANCELLING", "Cancelling", "Its tasks are being cancelled."
    CANCELLED = "CANCELLED", "Cancelled", "Its tasks were cancelled; what was done before stays."
    COMPLETED = "COMPLETED", "Completed", "Its completion condition is met."


CAMPAIGN_FINAL: Final = frozenset({CampaignStatus.CANCELLED, CampaignStatus.COMPLETED})


class CampaignEv(Word):
    """Everything that can happen to a campaign. Only these change its log."""

    CAMPAIGN_CREATED = "campaign_created", "Campaign created"
    WAVE_OPENED = "wave_opened", "Wave opened", "So many more repositories may be begun."
    PART_STARTED = "part_started", "Repository begun", "Its task was made and submitted."
    PART_DELIVERED = "part_delivered", "Pull request out", "The task is done; its merge is waited for."
    PART_ENDED = "part_ended", "Repository ended", "Done, failed or cancelled, with what it cost."
    CAMPAIGN_HALTED = "campaign_halted", "Campaign stopped", "By itself, and why."
    CAMPAIGN_PAUSED = "campaign_paused", "Campaign paused"
    CAMPAIGN_RESUMED = "campaign_resumed", "Campaign resumed", "What failed before it stopped is accepted."
    CAMPAIGN_CHANGED = "campaign_changed", "Limits changed"
    PARTS_RETRIED = "parts_retried", "Failed repositories retried", "Each gets a new task."
    CANCEL_REQUESTED = "campaign_cancel_requested", "Cancellation asked"
    CAMPAIGN_CANCELLED = (
        "campaign_cancelled",
        "Campaign cancelled",
        "None of its tasks is under way any more.",
    )
    CAMPAIGN_COMPLETED = "campaign_completed", "Campaign completed"


class PartState(Word):
    """Where one repository of a campaign stands."""

    WAITING = "waiting", "Not begun", "Its turn has not come, or it is to be tried again."
    RUNNING = "running", "Under way", "Its task is unfinished."
    DELIVERED = "delivered", "Waits for its merge", "Its task is done and its pull request is open."
    DONE = "done", "Done", "It meets the completion condition."
    FAILED = "failed", "Failed", "Its task failed or was rejected, or its pull request was closed."
    CANCELLED = "cancelled", "Cancelled", "Its task was cancelled, or never begun."


class Completion(Word):
    """When a repository counts as done; the campaign is complete when every repository is."""

    TASKS_COMPLETED = "tasks_completed", "Its task is completed", "every task is completed"
    PULL_REQUESTS_MERGED = "pull_requests_merged", "Its pull request is merged", "every one is merged"


class Halt(Word):
    """Why a campaign stopped by itself."""

    FAILURE_RATE = "failure_rate", "Too many failures"
    SPEND_CAP = "spend_cap", "Spend cap"
    PARTS_FAILED = "parts_failed", "Failures at the end"
