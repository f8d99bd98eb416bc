"""Every endpoint of version 1 that runs and tasks have, on one screen."""

from __future__ import annotations

from django.urls import path, register_converter

from runs.api import artifacts, events, leases, runs

app_name = "api"


class IdConverter:
    """A prefixed ULID; what cannot be an id is not found."""

    regex = r"[a-z]{2,10}_[0-9A-HJKMNP-TV-Z]{26}"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


register_converter(IdConverter, "ulid")

urlpatterns = [
    path("leases", leases.Leases.as_view(), name="leases"),
    path("runs/<ulid:run_id>/heartbeat", leases.Heartbeat.as_view(), name="heartbeat"),
    path("runs/<ulid:run_id>/release", leases.Release.as_view(), name="release"),
    path("runs/<ulid:run_id>/events", events.Events.as_view(), name="events"),
    path("runs/<ulid:run_id>/events/batch", events.Batch.as_view(), name="events-batch"),
    path("runs/<ulid:run_id>/artifacts", artifacts.RunArtifacts.as_view(), name="run-artifacts"),
    path("artifacts/<ulid:artifact_id>", artifacts.Download.as_view(), name="artifact"),
    path("runs/<ulid:run_id>/resume", runs.Resume.as_view(), name="resume"),
]
