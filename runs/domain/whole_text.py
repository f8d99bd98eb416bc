"""Where UTF-8 may be cut: a character that lies on the border belongs to one side."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 4  #: bytes of a character
_CONTINUES, _CONTINUED = 0b1100_0000, 0b1000_0000


def rest_of_character(before: bytes, data: bytes) -> int:
    """How many bytes at the start of ``data`` end a character that began in ``before``."""
    begun = begun_character(before)
    if not begun:
        return 0
    missing = _length(before[-begun]) - begun
    rest = data[:missing]
    return missing if len(rest) == missing and all(_continues(byte) for byte in rest) else 0


def begun_character(data: bytes) -> int:
    """How many bytes at the end of ``data`` begin a character that does not end there."""
    for count in range(1, min(_LONGEST - 1, len(data)) + 1):
        byte = data[-count]
        if not _continues(byte):
            return count if _length(byte) > count else 0
    return 0


def _continues(byte: int) -> bool:
    return byte & _CONTINUES == _CONTINUED


def _length(first: int) -> int:
    """Bytes of the character that begins so; 1 for ASCII and for what begins none."""
    if first >= 0xF8:  # noqa: PLR2004  not in UTF-8
        return 1
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC2 else 1  # noqa: PLR2004  RFC 3629
