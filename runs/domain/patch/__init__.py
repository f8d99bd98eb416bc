"""Patches: what `git diff --binary` prints, read without git and without trust."""

from runs.domain.patch.model import (
    AmbiguousPatch,
    Hunk,
    Line,
    NotAPatch,
    PatchFile,
    PatchRefused,
    UnsafePath,
    shown,
)
from runs.domain.patch.scan import Section, read_patch, read_sections

__all__ = [
    "AmbiguousPatch",
    "Hunk",
    "Line",
    "NotAPatch",
    "PatchFile",
    "PatchRefused",
    "Section",
    "UnsafePath",
    "read_patch",
    "read_sections",
    "shown",
]
