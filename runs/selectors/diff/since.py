"""What changed between two patches: a difference of differences, file by file."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from runs.domain.facts import Json
from runs.domain.patch import PatchFile, shown
from runs.domain.patch.compare import Step, compare_patches
from runs.domain.secrets import mask_lines
from runs.models import Artifact
from runs.selectors.diff.markup import line_markup, visible_name
from runs.selectors.diff.patch import Head, patch_heads, read_file

#: Files whose difference is told line by line; of the others only that they differ.
MOST_FILES: Final = 40
#: Lines of one file's difference.
MOST_LINES: Final = 400
#: Lines that stayed, around those that did not.
KEPT: Final = 2
_SIGN: Final = {"added": "+", "deleted": "−"}
_KIND: Final = {"older": "del", "newer": "add", "both": "ctx"}


def patch_since(older: Artifact, newer: Artifact) -> Json:
    """``{files: [{path, said, rows, cut}], same, more}`` for runs/_since.html; ``same``: files as they were.

    No query. Raises ``OSError`` or ``PatchRefused`` where the bytes cannot be read.
    """
    before = {head.path: head for head in patch_heads(older)}
    after = {head.path: head for head in patch_heads(newer)}
    paths = [*after, *(path for path in before if path not in after)]
    changed = [path for path in paths if _digest(before.get(path)) != _digest(after.get(path))]
    files = [_file(older, before.get(path), newer, after.get(path)) for path in changed[:MOST_FILES]]
    more = [visible_name(path) for path in changed[MOST_FILES:]]
    return {"files": files, "same": len(paths) - len(changed), "more": more}


def _digest(head: Head | None) -> str:
    return head.digest if head else ""


def _file(older: Artifact, before: Head | None, newer: Artifact, after: Head | None) -> Json:
    head = after or before
    assert head  # noqa: S101  a path comes from one of the two
    # What only one of the two changes is read in that one, whole.
    both = before and after
    steps = compare_patches(_read(older, before), _read(newer, after)) if both else []
    rows = _rows(_masked(steps)) if steps else []
    return {
        "path": visible_name(head.path),
        "anchor": f"f{after.index + 1}" if after else "",
        "said": _said(before, after, steps),
        "rows": rows[:MOST_LINES],
        "cut": len(rows) > MOST_LINES,
    }


def _said(before: Head | None, after: Head | None, steps: list[Step] | None) -> str:
    if before is None:
        return "was not changed before"
    if after is None:
        return "is not changed any more"
    if steps is None:
        return "differs; it is too long to compare here"
    if all(step.where == "both" for step in steps):
        return "has the same changed lines; something around them is new"
    return "changes in another way"


def _read(artifact: Artifact, head: Head | None) -> PatchFile | None:
    if head is None:
        return None
    return read_file(artifact, shown(head.path))


def _masked(steps: list[Step]) -> list[Step]:
    texts = mask_lines([step.line.text for step in steps])
    return [
        step._replace(line=step.line._replace(text=text)) for step, text in zip(steps, texts, strict=True)
    ]


def _rows(steps: list[Step]) -> list[Json]:
    rows: list[Json] = []
    groups = [(both, list(group)) for both, group in groupby(steps, key=lambda step: step.where == "both")]
    for place, (both, group) in enumerate(groups):
        if not both:
            rows += [_row(step) for step in group]
            continue
        head = group[: KEPT if place else 0]
        tail = group[len(head) :][-KEPT if place + 1 < len(groups) else len(group) :]
        left = len(group) - len(head) - len(tail)
        rows += [_row(step) for step in head]
        rows += [{"kind": "note", "html": f"{left:,} changed lines as before"}] if left else []
        rows += [_row(step) for step in tail]
    return rows


def _row(step: Step) -> Json:
    line = step.line
    return {
        "kind": _KIND[step.where],
        "no": line.number if step.where != "older" else None,
        "inner": _SIGN[line.kind],
        "html": line_markup(line.text),
    }
