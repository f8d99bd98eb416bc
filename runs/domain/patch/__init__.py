"""Patches: what `git diff --binary` prints, read without git and without trust."""

from runs.domain.patch.model import (
    AmbiguousPatch,
    FileSpan,
    Hunk,
    Line,
    NotAPatch,
    PatchFile,
    PatchRefused,
    UnsafePath,
    shown,
)
from runs.domain.patch.scan import file_index, read_patch

__all__ = [
    "AmbiguousPatch",
    "FileSpan",
    "Hunk",
    "Line",
    "NotAPatch",
    "PatchFile",
    "PatchRefused",
    "UnsafePath",
    "file_index",
    "read_patch",
    "shown",
]
