"""From the bytes of `git diff --binary` to its files, by git's own rules and no looser.

Everything that git would skip as prose is refused here: what two readers skip differently
is how a patch shows one change and makes another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from runs.domain.patch.binary import Sizes, read_binary
from runs.domain.patch.cursor import Cursor
from runs.domain.patch.header import ADVICE, Head, read_header
from runs.domain.patch.model import AmbiguousPatch, Hunk, NotAPatch, PatchFile

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_SPACE, _PLUS, _MINUS, _BACKSLASH, _LF = b" +-\\\n"


class Section(NamedTuple):
    """One file of a patch, and where it stands in the bytes."""

    file: PatchFile
    start: int
    end: int


def read_patch(data: bytes) -> tuple[PatchFile, ...]:
    """The files of a patch, in order.

    Raises NotAPatch, UnsafePath or AmbiguousPatch. A path that appears twice is
    ambiguous, but for git's own pair of deletion and creation: a change of type.
    """
    return tuple(section.file for section in read_sections(data))


def read_sections(data: bytes) -> list[Section]:
    """The files with their places in the bytes; `read_patch(data[start:end])` reads one alone."""
    found: list[Section] = []
    seen: set[str] = set()
    for section in _each_section(Cursor(data)):
        path = section.file.path
        if path not in seen:
            found.append(section)
        elif merged := _type_change(found[-1], section):
            found[-1] = merged
        else:
            raise AmbiguousPatch(f"{path!r} is changed twice")
        seen.add(path)
    if not found:
        raise NotAPatch(None, f"no change in it; {ADVICE}")
    return found


def _type_change(before: Section, after: Section) -> Section | None:
    old, new = before.file, after.file
    if old.path != new.path or (old.status, new.status) != ("deleted", "added"):
        return None
    sizes = (
        old.binary_sizes[0] if old.binary_sizes else None,
        new.binary_sizes[1] if new.binary_sizes else None,
    )
    file = replace(
        new,
        status="type_changed",
        old_mode=old.old_mode,
        added=old.added + new.added,
        deleted=old.deleted + new.deleted,
        binary=old.binary or new.binary,
        binary_sizes=sizes if old.binary or new.binary else None,
        hunks=old.hunks + new.hunks,
    )
    return Section(file, before.start, after.end)


def _each_section(cursor: Cursor) -> Iterator[Section]:
    while not cursor.only_blank_left():
        start = cursor.pos
        head = read_header(cursor)
        hunks = tuple(_read_hunks(cursor))
        sizes = None if hunks else _read_binary(cursor)
        yield Section(_file(head, hunks, sizes), start, cursor.pos)


def _read_hunks(cursor: Cursor) -> Iterator[tuple[Hunk, int, int]]:
    while (row := cursor.peek() or b"").startswith(b"@@"):
        found = _HUNK.fullmatch(row)
        if found is None:
            raise NotAPatch(cursor.line, "damaged hunk header")
        cursor.take()
        start = cursor.pos
        added, deleted = _skip_hunk(cursor, int(found[2] or b"1"), int(found[4] or b"1"))
        heading = found[5].decode("utf-8", "surrogateescape")
        body = cursor.data[start : cursor.pos]
        yield Hunk(int(found[1]), int(found[3]), heading, body), added, deleted


def _skip_hunk(cursor: Cursor, old: int, new: int) -> tuple[int, int]:
    """Go past the lines that the header counts. (added, deleted).

    Counting, not looking for the next header: a deleted line '-- x' reads '--- x'.
    """
    data, pos, line = cursor.data, cursor.pos, cursor.line
    added = deleted = 0
    while old > 0 or new > 0 or data[pos : pos + 2] == b"\\ ":
        end = data.find(b"\n", pos)
        if end < 0:
            raise NotAPatch(line, "ends in the middle of a hunk")
        mark = data[pos]
        if mark in (_SPACE, _LF):
            old, new = old - 1, new - 1
        elif mark == _PLUS:
            new, added = new - 1, added + 1
        elif mark == _MINUS:
            old, deleted = old - 1, deleted + 1
        elif mark != _BACKSLASH or pos == cursor.pos:
            raise NotAPatch(line, "the hunk is shorter than its header says")
        if old < 0 or new < 0:
            raise NotAPatch(line, "the hunk does not add up to its header")
        pos, line = end + 1, line + 1
    if not added and not deleted:
        raise NotAPatch(cursor.line, "a hunk that changes nothing")
    cursor.pos, cursor.line = pos, line
    return added, deleted


def _read_binary(cursor: Cursor) -> Sizes | None:
    row = cursor.peek() or b""
    if row.startswith(b"Binary files ") and row.endswith(b" differ"):
        raise NotAPatch(cursor.line, f"binary change without its data; {ADVICE}")
    if row != b"GIT binary patch":
        return None
    cursor.take()
    return read_binary(cursor)


def _file(head: Head, hunks: tuple[tuple[Hunk, int, int], ...], sizes: Sizes | None) -> PatchFile:
    plain = head.status == "modified" and head.old_mode == head.new_mode
    if plain and not hunks and sizes is None:
        raise NotAPatch(head.line, "a file without any change")
    return PatchFile(
        path=head.path,
        old_path=head.old_path,
        status=head.status,
        old_mode=head.old_mode,
        new_mode=head.new_mode,
        added=sum(added for _, added, _ in hunks),
        deleted=sum(deleted for _, _, deleted in hunks),
        binary=sizes is not None,
        binary_sizes=sizes,
        hunks=tuple(hunk for hunk, _, _ in hunks),
    )
