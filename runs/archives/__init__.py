"""Logs of runs that ended long ago: written to files, verified from them, and only then removed.

A partition leaves as a whole, when nothing in it moves any more. Acts with the rights of the tables' owner.
"""

from runs.archives.files import Whole, read_archive
from runs.archives.leaving import NotComplete, Reason, archive_partition, due, waiting_for
from runs.archives.proof import verify_archive

__all__ = [
    "NotComplete",
    "Reason",
    "Whole",
    "archive_partition",
    "due",
    "read_archive",
    "verify_archive",
    "waiting_for",
]
