"""Sizes told by a `GIT binary patch` block, without inflating its content."""

from __future__ import annotations

import base64
import re
import zlib

from runs.domain.patch.cursor import Cursor
from runs.domain.patch.model import NotAPatch

_HEAD = re.compile(rb"(literal|delta) (\d{1,12})\Z")
_ROW = re.compile(rb"[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+\Z")

_CONTINUES = 0x80

Sizes = tuple[int | None, int | None]


def read_binary(cursor: Cursor) -> Sizes:
    """(bytes before, bytes after); the cursor ends behind the block.

    A delta says how long its instructions are; the sizes of the files stand inside it.
    """
    forward = _block(cursor)
    if forward is None:
        raise NotAPatch(cursor.line, "the binary patch has no data")
    backward = _block(cursor)
    before = backward[1] if backward else forward[0]
    return before, forward[1]


def _block(cursor: Cursor) -> Sizes | None:
    head = _HEAD.match(cursor.peek() or b"")
    if head is None:
        return None
    cursor.take()
    first = cursor.peek() or b""
    while row := cursor.peek():
        if not _ROW.match(row):
            raise NotAPatch(cursor.line, "damaged binary data")
        cursor.take()
    if cursor.peek() is None:
        raise NotAPatch(cursor.line, "ends inside binary data")
    cursor.take()
    return (None, int(head[2])) if head[1] == b"literal" else _delta_sizes(first, cursor.line)


def _delta_sizes(row: bytes, line: int) -> Sizes:
    try:
        start = zlib.decompressobj().decompress(base64.b85decode(row[1:]), 32)
        before, rest = _varint(start)
        after, _ = _varint(rest)
    except (ValueError, zlib.error, IndexError) as error:
        raise NotAPatch(line, "damaged binary data") from error
    return before, after


def _varint(data: bytes) -> tuple[int, bytes]:
    value = shift = index = 0
    while True:
        byte = data[index]
        value |= (byte & 0x7F) << shift
        index, shift = index + 1, shift + 7
        if byte < _CONTINUES:
            return value, data[index:]
