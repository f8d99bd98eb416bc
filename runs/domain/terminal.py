"""Output of programs as text that does nothing: colours are kept as names, all else becomes visible.

A terminal obeys its input; a page must not. Of the escape sequences only colour and weight are taken over.
Cursor moves, erasures, titles and links are marks, so that nothing hides what stood there before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

#: CSI sequences, OSC strings up to their end, any other escape, carriage returns within a line, controls.
_CONTROL: Final = re.compile(
    r"\x1b\[(?P<args>[0-9;:]*)(?P<final>[@-~])"
    r"|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\|$)"
    r"|\x1b\[?[0-?]*[ -/]*[@-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_PICTURES: Final = 0x2400  #: Unicode's pictures of the control characters


@dataclass(frozen=True, slots=True)
class Piece:
    """Text in one style, or the mark of a control that was not obeyed. ``style``: names, "" for none."""

    text: str
    style: str = ""
    is_mark: bool = False


def pieces(line: str) -> Iterator[Piece]:
    """One line, without its line feed, in pieces."""
    colour, bold, at = "", False, 0
    for found in _CONTROL.finditer(line):
        if found.start() > at:
            yield Piece(line[at : found.start()], _style(colour, bold=bold))
        at = found.end()
        if found["final"] == "m":
            colour, bold = _obeyed(found["args"], colour, bold=bold)
        elif found[0] != "\r" or at < len(line):  # the one before a line feed is how some lines end
            yield Piece(_mark(found[0]), is_mark=True)
    if at < len(line):
        yield Piece(line[at:], _style(colour, bold=bold))


def _style(colour: str, *, bold: bool) -> str:
    return " ".join(filter(None, (colour, "bold" if bold else "")))


def _obeyed(args: str, colour: str, *, bold: bool) -> tuple[str, bool]:
    """Colour and weight after an SGR sequence; palettes and true colours are left as they were."""
    for code in args.replace(":", ";").split(";"):
        if code in _OTHER_COLOURS:
            break  # what follows are its arguments
        if code in ("", "0", "00"):
            colour, bold = "", False
        elif code in ("1", "01", "22"):
            bold = code != "22"
        elif code in _INKS:
            colour = _INKS[code]
    return colour, bold


_OTHER_COLOURS: Final = ("38", "48")
_INKS: Final = {
    "39": "",
    **{f"3{number}": name for number, name in enumerate(_COLOURS)},
    **{f"9{number}": name for number, name in enumerate(_COLOURS)},
}


def _mark(control: str) -> str:
    """A control character as its picture; of a sequence that of Escape, and how it begins."""
    first = ord(control[0])
    picture = chr(_PICTURES + first) if first < _PRINTED else f"U+{first:04X}"
    return picture + (control[1:4].strip("\x07\x1b") + ("…" if len(control) > _SHOWN else ""))


_PRINTED: Final = 0x20
_SHOWN: Final = 4


def plain(line: str) -> str:
    """The line without any control: what a search looks at."""
    return "".join(piece.text for piece in pieces(line) if not piece.is_mark)
