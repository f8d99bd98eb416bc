"""Unchanged lines around a hunk, from the base commit in the repository's mirror. Nothing is fetched here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from django.urls import reverse

from runs.artifacts import mirror_of
from runs.domain.facts import Json
from runs.domain.patch import Line
from runs.domain.secrets import mask_lines
from runs.mirrors import GitFailed
from runs.models import Artifact
from runs.selectors.diff.markup import coloured, line_markup, visible_name
from runs.selectors.diff.patch import patch_heads
from runs.selectors.diff.rows import STEP, Look, gap_ways

#: A larger file is read elsewhere.
MOST_BYTES: Final = 4 << 20
_SECONDS: Final = 5.0
_AWAY: Final = "The mirror does not hold this file of the base commit; these lines cannot be shown."


def lines_around(
    artifact: Artifact, index: int, *, first: int, last: int | None, shift: int, from_end: bool, look: Look
) -> Json:
    """``{before, rows, after, note}``: lines ``first`` to ``last``, ``STEP`` at most; None is the file's end.

    ``from_end``: those nearest to ``last``. ``shift``: new number less old number. ``before`` and ``after``
    are ways to what is left. ``IndexError`` where there is no such file. One query.
    """
    heads = patch_heads(artifact)
    if not 0 <= index < len(heads):
        raise IndexError(index)
    head = heads[index]
    texts = _base_lines(artifact, head.old_path or head.path)
    if texts is None:
        return {"path": visible_name(head.path), "rows": [], "note": _AWAY, "split": look.split}
    end = min(last or len(texts), len(texts))
    start = max(first, 1)
    shown = (max(start, end - STEP + 1), end) if from_end else (start, min(end, start + STEP - 1))
    lines = [Line("context", no, no + shift, texts[no - 1]) for no in range(shown[0], shown[1] + 1)]
    around = reverse("patch_around", args=[artifact.pk, index])
    return {
        "before": gap_ways(around, _gap(start, shown[0] - 1, shift), look),
        "rows": list(_rows(lines, head.path, look)),
        "after": gap_ways(around, _gap(shown[1] + 1, end, shift), look),
        "note": "" if lines else "The file ends here.",
        "path": visible_name(head.path),
        "anchor": f"f{index + 1}",
        "split": look.split,
    }


def _gap(first: int, last: int, shift: int) -> Json | None:
    return {"first": first, "last": last, "shift": shift} if last >= first else None


def _rows(lines: list[Line], path: str, look: Look) -> Iterator[Json]:
    inked = coloured([line.text for line in lines], path)
    for line, ink in zip(lines, inked, strict=True):
        html = line_markup(line.text, ink=ink)
        if look.split:
            yield {
                "left": {"kind": "ctx", "no": line.old_no, "html": html},
                "right": {"kind": "ctx", "no": line.new_no, "html": html},
            }
        else:
            yield {"kind": "ctx", "old": line.old_no, "new": line.new_no, "html": html}


def _base_lines(artifact: Artifact, path: str) -> list[str] | None:
    commit = (artifact.facts.get("base") or {}).get("commit") or ""
    with contextlib.suppress(GitFailed):
        mirror = mirror_of(artifact.run.repository)
        data = mirror.blob(commit, path, limit=MOST_BYTES, timeout=_SECONDS)
        if data is not None and b"\0" not in data:
            texts = data.decode("utf-8", "surrogateescape").split("\n")
            return mask_lines(texts[:-1] if texts[-1] == "" else texts)
    return None
