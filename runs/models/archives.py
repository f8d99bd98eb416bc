"""Where the logs of runs are that ended long ago."""

from __future__ import annotations

from django.db import models


class EventArchive(models.Model):
    """One partition of events, written to a file, verified, and then removed."""

    name = models.CharField(primary_key=True, max_length=40, help_text="The partition's name.")
    first = models.CharField(max_length=60, blank=True, help_text="Ids of its runs are not smaller.")
    beyond = models.CharField(max_length=60, help_text="Ids of its runs are smaller.")
    file = models.CharField(max_length=200, help_text="The file's name, in the folder of archives.")
    sha256 = models.CharField(max_length=64, help_text="Of the file.")
    runs = models.BigIntegerField()
    events = models.BigIntegerField()
    written_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True, help_text="When the events left the database.")

    class Meta:
        db_table = "event_archives"
        ordering = ["beyond"]

    def __str__(self) -> str:
        return self.file

    @property
    def sentence(self) -> str:
        """What people and callers are told who ask for the log."""
        when = f" on {self.removed_at:%d %B %Y}" if self.removed_at else ""
        return f"The log of this run left the database{when}; it is in the archive {self.file}."

    @classmethod
    def of(cls, run_id: str) -> EventArchive | None:
        """Where the log of this run is, if it is not in the database any more. One query."""
        if not run_id.startswith("run_"):
            return None
        gone = cls.objects.filter(removed_at__isnull=False)
        return gone.filter(first__lte=run_id, beyond__gt=run_id).first()
