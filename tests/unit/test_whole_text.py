"""However text is cut into pieces, no character is torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.whole_text import begun_character, rest_of_character


@given(st.text(min_size=1), st.integers(min_value=0))
def test_text_cut_anywhere_is_decoded_piece_by_piece(text, place):
    data = text.encode()
    place %= len(data) + 1
    begun = begun_character(data[:place])
    first, second = data[: place - begun], data[place - begun :]
    assert first.decode() + second.decode() == text
    assert rest_of_character(data[:place], data[place:]) == (
        len(data[place - begun :].decode()[0].encode()) - begun if begun else 0
    )


@pytest.mark.parametrize(
    "data", [b"", b"abc", "né".encode(), b"\xff", b"\xf8\x80", b"\xc0", b"\x80\x80\x80\x80"]
)
def test_what_begins_no_character_is_not_waited_for(data):
    assert begun_character(data) == 0


@pytest.mark.parametrize("data", [b"a\xc3", b"\xe2\x9c", b"\xf0\x9f\x8e"])
def test_an_unfinished_character_is_held_back(data):
    assert begun_character(data) == len(data.lstrip(b"a"))


def test_bytes_that_do_not_go_on_are_not_skipped():
    assert rest_of_character(b"\xe2\x9c", b"abc") == 0
    assert rest_of_character(b"\xe2", b"\x9c") == 0  # the rest is not there yet
