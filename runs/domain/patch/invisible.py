"""Characters that a reader does not see, or that change the order in which he reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runs.domain.patch.model import PatchFile

# Controls but tab, CR and form feed; soft hyphen; zero-width and bidirectional controls;
# line separators; letters without a glyph; tags and the variation selectors beyond emoji.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_JOINER, _BYTE_ORDER_MARK = "\u200d", "\ufeff"
_EMOJI_BEFORE = re.compile("[\u2190-\u2bff\ufe0f\U0001f300-\U0001faff]")
_EMOJI_AFTER = re.compile("[\u2190-\u2bff\U0001f300-\U0001faff]")


class Invisible(NamedTuple):
    """One hidden character: `line` is the new file's, 0 when it stands in the path."""

    path: str
    line: int
    codepoint: str


def invisible_characters(files: Iterable[PatchFile]) -> list[Invisible]:
    """Hidden characters in added lines and in new names. Letters of any script are fine."""
    return [found for file in files for found in _in_file(file)]


def _in_file(file: PatchFile) -> Iterator[Invisible]:
    for codepoint in hidden_in(file.path):
        yield Invisible(file.path, 0, codepoint)
    for line in file.lines("added"):
        for codepoint in hidden_in(line.text, starts_file=line.new_no == 1):
            yield Invisible(file.path, line.number, codepoint)


def hidden_in(text: str, *, starts_file: bool = False) -> list[str]:
    """'U+202E' for each hidden character of one line, in order."""
    return [codepoint(text[at]) for at in hidden_at(text, starts_file=starts_file)]


def hidden_at(text: str, *, starts_file: bool = False) -> list[int]:
    """Where hidden characters stand in one line, in order."""
    places = (found.start() for found in _HIDDEN.finditer(text))
    return [at for at in places if not _is_plain(text, at, starts_file=starts_file)]


def codepoint(character: str) -> str:
    """``U+202E``: a character by its number, as it is shown in its place."""
    return f"U+{ord(character):04X}"


def _is_plain(text: str, at: int, *, starts_file: bool) -> bool:
    if text[at] == _BYTE_ORDER_MARK:
        return starts_file and at == 0
    # A joiner between two pictures makes one picture of them; between letters it hides.
    return (
        text[at] == _JOINER
        and _EMOJI_BEFORE.match(text[at - 1 : at]) is not None
        and _EMOJI_AFTER.match(text[at + 1 : at + 2]) is not None
    )
