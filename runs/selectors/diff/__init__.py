"""A patch as pages show it: its files, the lines around its hunks, and what changed since another patch."""

from runs.selectors.diff.around import lines_around
from runs.selectors.diff.markup import visible
from runs.selectors.diff.patch import (
    Concern,
    Head,
    patch_diff,
    patch_file,
    patch_heads,
    read_file,
    unread_files,
)
from runs.selectors.diff.rows import USUAL, Look
from runs.selectors.diff.since import patch_since

__all__ = [
    "USUAL",
    "Concern",
    "Head",
    "Look",
    "lines_around",
    "patch_diff",
    "patch_file",
    "patch_heads",
    "patch_since",
    "read_file",
    "unread_files",
    "visible",
]
