"""Lines of text as markup: escaped, coloured, changed words marked, and nothing hidden in them.

A character that a reader would not see is named in its place. The character itself stays behind its name,
isolated, so that the text copies as it is and the page around it keeps its order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from django.utils.safestring import SafeString, mark_safe
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_for_filename  # type: ignore[import-untyped]
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from runs.domain.patch.compare import Span
from runs.domain.patch.invisible import codepoint, hidden_at

#: What is longer is shown without colour: highlighting takes longer than reading then.
COLOURED_LINES: Final = 3_000
COLOURED_WIDTH: Final = 1_000
#: Of a longer line a page shows the beginning, and how much more there is, unless it was asked for the file.
WIDEST: Final = 4_000

#: (class, start, end) of a piece of a line that has a colour.
Ink = tuple[str, int, int]

_SIGNS: Final = {"\r": "␍", "\x0c": "␌"}
#: In a line a tab is seen by its width; in a name it would pass for a space.
_NAME_SIGNS: Final = {**_SIGNS, "\t": "␉"}
_BYTE: Final = re.compile("[\udc80-\udcff]")
#: A page cannot hold these: a browser drops or replaces them.
_UNWRITABLE: Final = re.compile("[\x00\ud800-\udfff]")


def visible(text: str) -> SafeString:
    """Text as it is, escaped, with every hidden character named."""
    return mark_safe("".join(_pieces(text, (), (), starts_file=False)))  # noqa: S308  escaped piece by piece


def visible_name(path: str) -> SafeString:
    """As ``visible``, for the name of a file: a tab in it is named, too."""
    return mark_safe("".join(_pieces(path, (), (), starts_file=False, signs=_NAME_SIGNS)))  # noqa: S308  escaped


def line_markup(
    text: str,
    *,
    ink: Sequence[Ink] = (),
    marks: Sequence[Span] = (),
    starts_file: bool = False,
    widest: int = WIDEST,
) -> SafeString:
    """One line of a file with its colours, and ``marks`` around the words that changed; ``widest`` characters
    of it."""
    shown = text[:widest]
    found = "".join(_pieces(shown, ink, marks, starts_file=starts_file))
    if more := len(text) - len(shown):
        found += f'<span class="more">… {more:,} more characters</span>'
    return mark_safe(found)  # noqa: S308  escaped piece by piece


def _pieces(
    text: str,
    ink: Sequence[Ink],
    marks: Sequence[Span],
    *,
    starts_file: bool,
    signs: Mapping[str, str] = _SIGNS,
) -> Iterator[str]:
    named = {at: codepoint(text[at]) for at in hidden_at(text, starts_file=starts_file)}
    named |= {at: signs[sign] for sign in signs if sign in text for at in _places(text, sign)}
    named |= {found.start(): f"\\x{ord(found[0]) - 0xDC00:02X}" for found in _BYTE.finditer(text)}
    cuts = {0, len(text), *(at for start, end in marks for at in (start, end))}
    cuts |= {at for _, start, end in ink for at in (start, end)} | {a for at in named for a in (at, at + 1)}
    places = sorted(at for at in cuts if at <= len(text))
    colours = {start: (name, end) for name, start, end in ink}
    colour, until = "", 0
    for start, end in pairwise(places):
        if start in colours:
            colour, until = colours[start]
        piece = _named(text[start], named[start]) if start in named else escape(text[start:end])
        if colour and start < until:
            piece = f'<span class="{colour}">{piece}</span>'
        yield f"<mark>{piece}</mark>" if any(a <= start < b for a, b in marks) else piece


def _places(text: str, sign: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(sign), text)]


def _named(character: str, name: str) -> str:
    kind = "mark-char faint" if character in _NAME_SIGNS else "mark-char"
    if _UNWRITABLE.match(character):
        return f'<span class="{kind}"><i>{name}</i></span>'
    # A browser reads a bare carriage return as the end of a line.
    itself = "&#13;" if character == "\r" else escape(character)
    return f'<span class="{kind}"><i>{name}</i><bdi>{itself}</bdi></span>'


# --- colour ---------------------------------------------------------------------------------------


def coloured(texts: Sequence[str], path: str) -> list[list[Ink]]:
    """The ink of each line, read together as one piece of the file at ``path``; none where it is too much."""
    blank: list[list[Ink]] = [[] for _ in texts]
    lexer = lexer_of(path)
    if lexer is None or len(texts) > COLOURED_LINES or max(map(len, texts), default=0) > COLOURED_WIDTH:
        return blank
    whole = "\n".join(texts) + "\n"
    line, start = 0, 0
    for _, token, value in lexer.get_tokens_unprocessed(whole):
        name = _class_of(token)
        for number, part in enumerate(value.split("\n")):
            if number:
                line, start = line + 1, 0
            if part and name and line < len(blank):
                blank[line].append((name, start, start + len(part)))
            start += len(part)
    return blank


def lexer_of(path: str) -> Lexer | None:
    """Who reads this language, by the name of the file."""
    name = PurePosixPath(path)
    return _lexer_for(name.name if name.suffix in ("", ".txt") else f"x{name.suffix}")


@lru_cache(maxsize=512)
def _lexer_for(name: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(name)
    except ClassNotFound:
        return None


def _class_of(token: object) -> str:
    """The stylesheet's name of a kind of token, or of the nearest kind above it that has one."""
    while token not in STANDARD_TYPES:
        token = token.parent  # type: ignore[attr-defined]
    return str(STANDARD_TYPES[token])
