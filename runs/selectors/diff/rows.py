"""The lines of a file as rows of a table: one below the other, or side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode

from runs.domain.facts import Json
from runs.domain.patch import Hunk, Line, PatchFile, shown
from runs.domain.patch.compare import Effort, Pair, Span, pair_lines
from runs.domain.secrets import mask, masked_hunk
from runs.selectors.diff.markup import WIDEST, Ink, coloured, line_markup

#: Lines around a hunk that one press shows.
STEP: Final = 20
#: Characters of one answer: lines may be long.
MOST_CHARACTERS: Final = 400_000


@dataclass(frozen=True, slots=True)
class Look:
    """How somebody wants to see differences; it stands in the address, so that a view can be shared."""

    split: bool = False  #: side by side
    ignore_space: bool = False  #: what differs in white space alone counts as unchanged
    whole: bool = False  #: long lines to their end; not in the address: it was asked for this file alone

    @classmethod
    def of(cls, asked: Any, kept: Any = ()) -> Look:
        """From the address, else as it was chosen before (``kept``: cookies)."""
        kept = dict(kept)
        view = asked.get("view") or kept.get("view")
        return cls(split=view == "split", ignore_space=asked.get("space") == "ignore")

    @property
    def query(self) -> str:
        """``view=split&space=ignore``; "" for the usual look."""
        chosen = {"view": "split" if self.split else "", "space": "ignore" if self.ignore_space else ""}
        return urlencode({name: value for name, value in chosen.items() if value})


USUAL: Final = Look()


@dataclass(slots=True)
class Cut:
    """The hunks of a file from one line on. ``next``: where to go on, None at the end.

    ``after``: (old, new) numbers of the line that follows the last hunk; ``spaces``: changed lines that
    are shown as unchanged.
    """

    hunks: list[Json] = field(default_factory=list)
    next: int | None = None
    after: tuple[int, int] = (1, 1)
    spaces: int = 0
    shown: int = 0


def cut_rows(file: PatchFile, look: Look, *, start: int, limit: int) -> Cut:
    """At most ``limit`` lines of the file's hunks, from the line ``start`` on (counted from 0)."""
    cut, position, effort, left = Cut(), 0, Effort(), MOST_CHARACTERS
    for hunk in file.hunks:
        lines = masked_hunk(hunk, max(start - position, 0), max(start + limit - position, 0))
        kept = _within(lines, left)
        left -= sum(len(line.text) for line in kept)
        if kept:
            first = position >= start
            gap = _gap(file, cut.after, hunk) if first else None
            pairs = list(pair_lines(kept, ignore_space=look.ignore_space, effort=effort))
            cut.spaces += sum(pair.only_space for pair in pairs)
            header = _header(hunk) if first else "…"
            cut.hunks.append({"header": header, "gap": gap, "rows": list(_rows(pairs, file.path, look))})
            cut.shown += len(kept)
        cut.after = hunk.ends
        position += len(hunk)
        end = start + cut.shown
        if position > end and position > start:
            cut.next = end
            return cut
    return cut


def _within(lines: list[Line], characters: int) -> list[Line]:
    """As many of the lines as fit, but always one: an answer without a line would never end."""
    for index, line in enumerate(lines):
        characters -= len(line.text)
        if characters < 0:
            return lines[: max(index, 1)]
    return lines


def _header(hunk: Hunk) -> str:
    return f"@@ -{hunk.old_start} +{hunk.new_start} @@ {shown(mask(hunk.header))}".rstrip()


# --- what stands between hunks ---------------------------------------------------------------------


def _gap(file: PatchFile, after: tuple[int, int], hunk: Hunk) -> Json | None:
    """The unchanged lines between what was shown last and this hunk: ``{first, last, shift, count}``."""
    if file.status == "added":
        return None
    old, _ = hunk.begins
    count = old - after[0]
    shift = after[1] - after[0]
    return {"first": after[0], "last": old - 1, "shift": shift} if count > 0 else None


def gap_ways(around: str, gap: Json | None, look: Look) -> Json | None:
    """``{said, ways: [{text, href}]}``: how many lines a gap holds, and the addresses that show them.

    ``gap``: {first, last (None: to the end of the file), shift}, in numbers of the old file.
    """
    if gap is None:
        return None
    first, last, shift = gap["first"], gap["last"], gap["shift"]
    count = None if last is None else last - first + 1
    steps = [(f"Show {STEP} more", False)]
    if count is not None:
        far = [(f"{STEP} more above", False), (f"{STEP} more below", True)]
        steps = [("Show", False)] if count <= STEP else far
    said = "" if count is None else f"{count:,} unchanged line{'s' if count > 1 else ''}"
    ways = []
    for text, from_end in steps:
        asked = {"first": first, "last": last or "", "shift": shift or "", "end": "1" if from_end else ""}
        query = urlencode({name: value for name, value in asked.items() if value})
        ways.append({"text": text, "href": f"{around}?{'&'.join(filter(None, (query, look.query)))}"})
    return {"said": said, "ways": ways}


# --- rows ------------------------------------------------------------------------------------------

_KIND: Final = {"context": "ctx", "added": "add", "deleted": "del"}
_NO_NEWLINE: Final = "No newline at end of file"


def _rows(pairs: list[Pair], path: str, look: Look) -> Iterator[Json]:
    widest = MOST_CHARACTERS if look.whole else WIDEST
    old = _inked((pair.old for pair in pairs), path, widest)
    new = _inked((pair.new for pair in pairs), path, widest)
    for changed, group in groupby(pairs, key=lambda pair: pair.changed and not pair.only_space):
        block = list(group)
        if look.split:
            yield from (row for pair in block for row in _beside(pair, old, new))
        elif changed:
            yield from (row for pair in block if pair.old for row in _single(pair.old, old, pair.old_words))
            yield from (row for pair in block if pair.new for row in _single(pair.new, new, pair.new_words))
        else:
            yield from (row for pair in block for row in _context(pair, new))


@dataclass(frozen=True, slots=True)
class Inked:
    """The lines of one side: the colours of each by its identity, and how many characters are shown."""

    inks: dict[int, list[Ink]]
    widest: int


def _inked(lines: Iterable[Line | None], path: str, widest: int) -> Inked:
    side = [line for line in lines if line is not None]
    inks = zip(side, coloured([line.text for line in side], path), strict=True)
    return Inked({id(line): ink for line, ink in inks}, widest)


def _html(line: Line, inked: Inked, words: tuple[Span, ...] = ()) -> str:
    starts_file = line.new_no == 1
    return line_markup(
        line.text, ink=inked.inks[id(line)], marks=words, starts_file=starts_file, widest=inked.widest
    )


def _single(line: Line, inked: Inked, words: tuple[Span, ...]) -> Iterator[Json]:
    html = _html(line, inked, words)
    yield {"kind": _KIND[line.kind], "old": line.old_no, "new": line.new_no, "html": html}
    if not line.ends:
        yield {"kind": "note", "html": _NO_NEWLINE}


def _context(pair: Pair, inked: Inked) -> Iterator[Json]:
    """An unchanged line, or one that only its white space makes another: the new one is shown."""
    if pair.old and pair.new:
        kind = "space" if pair.only_space else "ctx"
        html = _html(pair.new, inked)
        yield {"kind": kind, "old": pair.old.old_no, "new": pair.new.new_no, "html": html}
        if not pair.new.ends:
            yield {"kind": "note", "html": _NO_NEWLINE}


def _beside(pair: Pair, old: Inked, new: Inked) -> Iterator[Json]:
    kinds = ("del", "add") if pair.changed and not pair.only_space else ("ctx", "ctx")
    yield {
        "left": _cell(pair.old, pair.old and pair.old.old_no, kinds[0], old, pair.old_words),
        "right": _cell(pair.new, pair.new and pair.new.new_no, kinds[1], new, pair.new_words),
    }
    notes = [_NO_NEWLINE if line and not line.ends else "" for line in (pair.old, pair.new)]
    if any(notes):
        yield {"kind": "note", "left_note": notes[0], "right_note": notes[1]}


def _cell(
    line: Line | None, number: int | None, kind: str, inked: Inked, words: tuple[Span, ...]
) -> Json | None:
    return {"kind": kind, "no": number, "html": _html(line, inked, words)} if line else None
