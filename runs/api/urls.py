"""Every endpoint of version 1 that runs and tasks have, on one screen."""

from __future__ import annotations

from django.urls import path

from runs.api import (  # noqa: F401  ids in addresses
    artifacts,
    campaigns,
    converters,
    events,
    holds,
    leases,
    logs,
    outcomes,
    records,
    runs,
    tasks,
)

app_name = "api"


TASK, RUN = "tasks/<ulid:task_id>", "runs/<ulid:run_id>"
CAMPAIGN = "campaigns/<ulid:campaign_id>"

urlpatterns = [
    path("tasks", tasks.Tasks.as_view(), name="tasks"),
    path(TASK, tasks.OneTask.as_view(), name="task"),
    path(f"{TASK}/submit", tasks.Submit.as_view(), name="task-submit"),
    path(f"{TASK}/cancel", tasks.Cancel.as_view(), name="task-cancel"),
    path(f"{TASK}/retry", tasks.Retry.as_view(), name="task-retry"),
    path(f"{TASK}/run-again", tasks.RunAgain.as_view(), name="task-run-again"),
    path(f"{TASK}/access-renewed", tasks.AccessRenewed.as_view(), name="task-access-renewed"),
    path(f"{TASK}/archive-after", tasks.ArchiveAfter.as_view(), name="task-archive-after"),
    path(f"{TASK}/archive", tasks.Archive.as_view(), name="task-archive"),
    path(f"{TASK}/restore", tasks.Restore.as_view(), name="task-restore"),
    path(f"{TASK}/instructions", tasks.Instructions.as_view(), name="task-instructions"),
    path("campaigns", campaigns.Campaigns.as_view(), name="campaigns"),
    path(CAMPAIGN, campaigns.OneCampaign.as_view(), name="campaign"),
    path(f"{CAMPAIGN}/parts", campaigns.CampaignParts.as_view(), name="campaign-parts"),
    path(f"{CAMPAIGN}/events", campaigns.CampaignEvents.as_view(), name="campaign-events"),
    path(f"{CAMPAIGN}/pause", campaigns.PauseCampaign.as_view(), name="campaign-pause"),
    path(f"{CAMPAIGN}/resume", campaigns.ResumeCampaign.as_view(), name="campaign-resume"),
    path(f"{CAMPAIGN}/retry", campaigns.RetryCampaign.as_view(), name="campaign-retry"),
    path(f"{CAMPAIGN}/cancel", campaigns.CancelCampaign.as_view(), name="campaign-cancel"),
    path("leases", leases.Leases.as_view(), name="leases"),
    path("runs", runs.Runs.as_view(), name="runs"),
    path(RUN, runs.OneRun.as_view(), name="run"),
    path(f"{RUN}/heartbeat", leases.Heartbeat.as_view(), name="heartbeat"),
    path(f"{RUN}/release", leases.Release.as_view(), name="release"),
    path(f"{RUN}/events", events.Events.as_view(), name="events"),
    path(f"{RUN}/events/batch", events.Batch.as_view(), name="events-batch"),
    path(f"{RUN}/artifacts", artifacts.RunArtifacts.as_view(), name="run-artifacts"),
    path(f"{RUN}/logs", logs.Logs.as_view(), name="logs"),
    path(f"{RUN}/logs/<path:operation_id>", logs.OneLog.as_view(), name="log"),
    path(f"{RUN}/resume", runs.Resume.as_view(), name="resume"),
    path(f"{RUN}/steps", runs.Steps.as_view(), name="steps"),
    path(f"{RUN}/attempts", runs.Attempts.as_view(), name="attempts"),
    path(f"{RUN}/timeline", runs.Timeline.as_view(), name="timeline"),
    path(f"{RUN}/receipt", runs.Receipt.as_view(), name="receipt"),
    path(f"{RUN}/cancel", runs.Cancel.as_view(), name="run-cancel"),
    path(f"{RUN}/pause", runs.Pause.as_view(), name="run-pause"),
    path(f"{RUN}/wind-down", runs.WindDown.as_view(), name="run-wind-down"),
    path(f"{RUN}/note", runs.Note.as_view(), name="run-note"),
    path("artifacts/<ulid:artifact_id>", artifacts.Download.as_view(), name="artifact"),
    path("pull-requests", records.PullRequests.as_view(), name="pull-requests"),
    path("pull-requests/<ulid:pull_request_id>", records.OnePullRequest.as_view(), name="pull-request"),
    path(
        "pull-requests/<ulid:pull_request_id>/state",
        records.PullRequestReport.as_view(),
        name="pull-request-state",
    ),
    path("holds", holds.Holds.as_view(), name="holds"),
    path("holds/<ulid:hold_id>", holds.OneHold.as_view(), name="hold"),
    path("outcomes", outcomes.Outcomes.as_view(), name="outcomes"),
    path("repositories", records.Repositories.as_view(), name="repositories"),
    path("repositories/<path:repository>", records.OneRepository.as_view(), name="repository"),
    path("workers", records.Workers.as_view(), name="workers"),
]
