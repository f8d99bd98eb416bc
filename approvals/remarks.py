"""Remarks on single lines of a patch. They become part of the comment, and so of the next instruction.

Each names its file and line and quotes the line as the reviewer read it, so that the agent, and whoever
reads the instruction later, knows what is meant without the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from runs.domain.errors import Invalid
from runs.domain.patch import PatchFile, PatchRefused, shown
from runs.domain.secrets import masked_hunk
from runs.models import Artifact
from runs.selectors.diff import read_file

MOST_REMARKS: Final = 50
QUOTED: Final = 200
SIDES: Final = ("new", "old")
_NUMBER: Final = re.compile(r"[0-9]{1,8}")


@dataclass(frozen=True, slots=True)
class Remark:
    """What somebody says of one line. ``side``: the line's number is the new file's or the old one's."""

    path: str
    side: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A remark as it stands in a form: its line may be no number, its file none of the patch."""

    path: str
    side: str
    line: str
    text: str

    @property
    def number(self) -> int:
        """The line's number, 0 where there is none."""
        return int(self.line) if _NUMBER.fullmatch(self.line.strip()) else 0


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
    text = dict(_lines(file, remark.side)).get(remark.line)
    return [] if text is None else [f"> {text[:QUOTED]}{' …' if len(text) > QUOTED else ''}"]


def _lines(file: PatchFile, side: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line of that side that the patch shows."""
    for hunk in file.hunks:
        for line in masked_hunk(hunk):
            number = line.new_no if side == "new" else line.old_no
            if number is not None:
                yield number, shown(line.text)


# --- when the patch was replaced while somebody wrote ------------------------------------------------


def place_again(
    drafts: Sequence[Draft], before: Artifact | None, now: Artifact | None
) -> tuple[list[Draft], list[Draft]]:
    """Drafts that have a line in the patch shown now, each at its number there, and those that have none.

    ``before``: the patch that they were written on. A line is the same where the same file shows the same
    text; of several the nearest.
    """
    found = [(draft, _again(draft, before, now)) for draft in drafts]
    placed = [there for _, there in found if there is not None]
    return placed, [draft for draft, there in found if there is None]


def _again(draft: Draft, before: Artifact | None, now: Artifact | None) -> Draft | None:
    try:
        if before is None or now is None:
            return None
        if before.sha256 == now.sha256:
            read_file(now, draft.path)
            return draft
        text = dict(_lines(read_file(before, draft.path), draft.side)).get(draft.number)
        same = [number for number, there in _lines(read_file(now, draft.path), draft.side) if there == text]
    except (LookupError, OSError, PatchRefused):
        return None
    nearest = min(same, key=lambda number: abs(number - draft.number), default=None)
    return None if nearest is None else replace(draft, line=str(nearest))
