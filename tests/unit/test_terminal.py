"""Output of programs: colours at most; whatever would hide, move, link or run is a mark."""

from __future__ import annotations

import pytest

from runs.domain.terminal import Piece, pieces, plain


def mark(text: str) -> Piece:
    return Piece(text, is_mark=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("plain", [Piece("plain")]),
        ("\x1b[31mred\x1b[0m not", [Piece("red", "red"), Piece(" not")]),
        ("\x1b[1;92mgood\x1b[22m", [Piece("good", "green bold")]),
        ("\x1b[38;5;31mpalette\x1b[48;2;1;2;3m", [Piece("palette")]),
        ("windows\r", [Piece("windows")]),
        (
            "rm -rf /srv\rall tests passed",
            [Piece("rm -rf /srv"), Piece("␍", "", True), Piece("all tests passed")],
        ),
        (
            "\x1b[2J\x1b[1A\x1b[2Kgone",
            [mark("␛[2J"), mark("␛[1A"), mark("␛[2K"), Piece("gone")],
        ),
        ("a\x08b\x00", [Piece("a"), Piece("␈", "", True), Piece("b"), Piece("␀", "", True)]),
        ("\x1b", [Piece("␛", "", True)]),
        ("\x9bx", [Piece("U+009B", "", True), Piece("x")]),
        ("\tkept\x0c", [Piece("\tkept"), Piece("␌", "", True)]),
    ],
)
def test_a_line_in_pieces(line: str, told: list[Piece]) -> None:
    assert list(pieces(line)) == told


def test_a_link_leaves_its_words_and_not_its_address() -> None:
    line = "\x1b]8;;javascript:alert(2)\x07click\x1b]8;;\x07"
    shown = "".join(piece.text for piece in pieces(line))
    assert "click" in shown
    assert "javascript" not in shown
    assert plain(line) == "click"


@pytest.mark.parametrize("line", ["\x1b[" * 50_000, "\x1b]" + "8" * 100_000, "\x1b[" + "1;" * 100_000 + "m"])
def test_no_line_takes_long(line: str) -> None:
    assert sum(1 for _ in pieces(line)) < 100_001
