"""Changed lines side by side: which old line became which new one, in which words, and what is only space.

Pure, and bounded: a patch is written by somebody who may want the reader's machine to stand still.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final, NamedTuple

from runs.domain.patch.model import Line, PatchFile

#: (start, end) of characters of a line.
Span = tuple[int, int]

#: Lines of one change that are aligned by likeness; in a longer one the first stands beside the first.
ALIGNED_LINES: Final = 60
#: Lines of one change in which space alone is told from the rest.
SPACE_LINES: Final = 1_000
#: Longest line whose changed words are marked.
MARKED_WIDTH: Final = 600
#: Pairs of words compared in one go; when they are used up, whole lines are shown as changed.
WORD_PAIRS: Final = 300_000
#: Two lines are one line changed when this part of their words is the same.
ALIKE: Final = 0.5
#: Changed lines of one file, of each patch, that are compared with those of another patch.
COMPARED_LINES: Final = 1_000

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class Pair(NamedTuple):
    """An old line beside a new one. One of them is None where lines were only added or deleted.

    ``changed`` is False for context. ``only_space``: they differ, in white space alone.
    """

    old: Line | None
    new: Line | None
    changed: bool = True
    only_space: bool = False
    old_words: tuple[Span, ...] = ()
    new_words: tuple[Span, ...] = ()


class Effort:
    """What may still be spent on marking words, over all changes of one answer."""

    def __init__(self, pairs: int = WORD_PAIRS) -> None:
        self.left = pairs

    def afford(self, pairs: int) -> bool:
        """Whether so many comparisons may be made; they are counted then."""
        if pairs > self.left:
            return False
        self.left -= pairs
        return True


def pair_lines(lines: Iterable[Line], *, ignore_space: bool, effort: Effort) -> Iterator[Pair]:
    """The lines of a hunk as pairs, in order; a deleted line stands beside what it became."""
    for changed, group in groupby(lines, key=lambda line: line.kind != "context"):
        if not changed:
            yield from (Pair(line, line, changed=False) for line in group)
            continue
        block = list(group)
        old = [line for line in block if line.kind == "deleted"]
        new = [line for line in block if line.kind == "added"]
        parts = _but_space(old, new) if ignore_space else [(old, new, False)]
        for before, after, same in parts:
            if same:
                yield from (Pair(a, b, only_space=True) for a, b in zip(before, after, strict=True))
            else:
                yield from _beside(before, after, effort)


Part = tuple[Sequence[Line], Sequence[Line], bool]


def _but_space(old: Sequence[Line], new: Sequence[Line]) -> Iterator[Part]:
    """The change cut into what differs in white space alone, and the rest."""
    if len(old) + len(new) > SPACE_LINES:
        yield old, new, False
        return
    matcher = _matcher([_squeezed(line) for line in old], [_squeezed(line) for line in new])
    for tag, a, b, c, d in matcher.get_opcodes():
        yield old[a:b], new[c:d], tag == "equal"


def _matcher(one: Sequence[Hashable], other: Sequence[Hashable]) -> SequenceMatcher[Hashable]:
    """Without the guess that what is frequent means nothing."""
    return SequenceMatcher(None, one, other, autojunk=False)


def _squeezed(line: Line) -> str:
    return "".join(line.text.split())


def _beside(old: Sequence[Line], new: Sequence[Line], effort: Effort) -> Iterator[Pair]:
    at = 0
    for line, partner in zip(old, _partners(old, new), strict=True):
        if partner is None:
            yield Pair(line, None)
            continue
        yield from (Pair(None, added) for added in new[at:partner])
        yield _marked(line, new[partner], effort)
        at = partner + 1
    yield from (Pair(None, added) for added in new[at:])


def _partners(old: Sequence[Line], new: Sequence[Line]) -> list[int | None]:
    """For each old line the new one that it became; they do not cross."""
    if len(old) == len(new) or len(old) + len(new) > ALIGNED_LINES:
        return [index if index < len(new) else None for index in range(len(old))]
    bags = [_bag(line) for line in new]
    found: list[int | None] = []
    at = 0
    for line in old:
        mine = _bag(line)
        likeness = [_likeness(mine, bags[index]) for index in range(at, len(new))]
        best = max(likeness, default=0.0)
        found.append(at + likeness.index(best) if best >= ALIKE else None)
        at = at if found[-1] is None else (found[-1] or 0) + 1
    return found


def _bag(line: Line) -> Counter[str]:
    return Counter(word for word in _WORDS.findall(line.text[:MARKED_WIDTH]) if not word.isspace())


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def _marked(old: Line, new: Line, effort: Effort) -> Pair:
    """The pair with the words that differ, where the lines are alike enough for that to say something."""
    if len(old.text) > MARKED_WIDTH or len(new.text) > MARKED_WIDTH:
        return Pair(old, new)
    before, after = _WORDS.findall(old.text), _WORDS.findall(new.text)
    if not effort.afford(len(before) * len(after)):
        return Pair(old, new)
    matcher = _matcher(before, after)
    if matcher.ratio() < ALIKE:
        return Pair(old, new)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return Pair(
        old,
        new,
        old_words=_spans(before, [(a, b) for _, a, b, _, _ in codes]),
        new_words=_spans(after, [(c, d) for _, _, _, c, d in codes]),
    )


def _spans(words: Sequence[str], ranges: Iterable[Span]) -> tuple[Span, ...]:
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return tuple((places[start], places[end]) for start, end in ranges if start < end)


# --- a patch against the patch before it -----------------------------------------------------------


class Step(NamedTuple):
    """One changed line of two patches: ``where`` it stands, in the older, the newer or both."""

    where: str
    line: Line


def compare_patches(before: PatchFile | None, after: PatchFile | None) -> list[Step] | None:
    """What one file's change gained (``newer``), lost (``older``) and kept (``both``); None if too long.

    Lines are compared as they are added or deleted, wherever in the file: a base that moved says nothing
    about what the author changed.
    """
    old, new = _changes(before), _changes(after)
    if old is None or new is None:
        return None
    matcher = _matcher([_key(line) for line in old], [_key(line) for line in new])
    steps: list[Step] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            steps += [Step("both", line) for line in new[c:d]]
            continue
        steps += [Step("older", line) for line in old[a:b]]
        steps += [Step("newer", line) for line in new[c:d]]
    return steps


def _changes(file: PatchFile | None) -> list[Line] | None:
    if file is None:
        return []
    if file.added + file.deleted > COMPARED_LINES:
        return None
    return [line for hunk in file.hunks for line in hunk if line.kind != "context"]


def _key(line: Line) -> tuple[str, str, bool]:
    return line.kind, line.text, line.ends
