"""Runs whose log is not in the database any more."""

from __future__ import annotations

from runs.domain.errors import LogArchived
from runs.models import EventArchive, Run


def archived_sentence(run: Run) -> str:
    """Where the log is, for a page; "" where it is at hand. One query for a run that ended, else none."""
    archive = None if run.is_active else EventArchive.of(run.pk)
    return archive.sentence if archive else ""


def require_log(run: Run) -> None:
    """Raises ``LogArchived`` where the log is not at hand. One query for a run that ended, else none."""
    if not run.is_active and (archive := EventArchive.of(run.pk)):
        raise LogArchived(archive.sentence, archive=archive.file)
