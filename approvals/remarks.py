"""Remarks on single lines of a patch. They become part of the comment, and so of the next instruction.

Each names its file and line and quotes the line as the reviewer read it, so that the agent, and whoever
reads the instruction later, knows what is meant without the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runs.domain.errors import Invalid
from runs.domain.patch import PatchFile, PatchRefused, shown
from runs.models import Artifact
from runs.selectors.diff import read_file

MOST_REMARKS: Final = 50
QUOTED: Final = 200
SIDES: Final = ("new", "old")


@dataclass(frozen=True, slots=True)
class Remark:
    """What somebody says of one line. ``side``: the line's number is the new file's or the old one's."""

    path: str
    side: str
    line: int
    text: str


def comment_with_remarks(comment: str, remarks: Sequence[Remark], patch: Artifact | None) -> str:
    """The comment with every remark below it; ``Invalid`` for a file that the patch does not change."""
    if not remarks:
        return comment
    if patch is None:
        raise Invalid({"remarks": ["only lines of a patch can be remarked on"]})
    if len(remarks) > MOST_REMARKS:
        raise Invalid({"remarks": [f"at most {MOST_REMARKS} at once"]})
    return "\n\n".join(filter(None, [comment.strip(), *(_told(remark, patch) for remark in remarks)]))


def _told(remark: Remark, patch: Artifact) -> str:
    place = f"{remark.path}:{remark.line}" + ("" if remark.side == "new" else " (as it was)")
    return "\n".join([place, *_quote(remark, _file(remark, patch)), remark.text.strip()])


def _file(remark: Remark, patch: Artifact) -> PatchFile:
    try:
        return read_file(patch, remark.path)
    except (LookupError, OSError, PatchRefused):
        raise Invalid({"remarks": [f"{remark.path} is no file of this patch"]}) from None


def _quote(remark: Remark, file: PatchFile) -> list[str]:
    """The line as the patch shows it; nothing where it stands outside of what the patch shows."""
    for hunk in file.hunks:
        for line in hunk:
            if (line.new_no if remark.side == "new" else line.old_no) == remark.line:
                text = shown(line.text)
                return [f"> {text[:QUOTED]}{' …' if len(text) > QUOTED else ''}"]
    return []
