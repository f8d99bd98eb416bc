"""What a patch says, as values. Shapes only; reading is in `scan`, judging is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

Status = Literal["added", "modified", "deleted", "renamed", "copied", "type_changed"]
LineKind = Literal["context", "added", "deleted"]

SYMLINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"


class PatchRefused(Exception):  # noqa: N818  a refusal, named like the others
    """This patch cannot be taken in; `code` is the API's word for why."""

    code: ClassVar[str]


class NotAPatch(PatchRefused):
    """This is not what `git diff --binary` prints, or git would not apply it.

    `line` is the 1-based line of the patch, or None where no line is to blame.
    """

    code = "not_a_patch"

    def __init__(self, line: int | None, why: str) -> None:
        self.line, self.why = line, why
        super().__init__(f"line {line}: {why}" if line else why)


class UnsafePath(PatchRefused):
    """The patch names a path that some system would resolve to another place."""

    code = "unsafe_path"

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = shown(path), why
        super().__init__(f"{self.path!r}: {why}")


class AmbiguousPatch(PatchRefused):
    """Two readers of this patch would disagree about what it changes."""

    code = "ambiguous_patch"

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Line(NamedTuple):
    """One line of a hunk. `text` is without its LF; undecodable bytes are surrogate escapes.

    `ends` is False where the file has no newline after this line.
    """

    kind: LineKind
    old_no: int | None
    new_no: int | None
    text: str
    ends: bool = True

    @property
    def number(self) -> int:
        """The line number a reader would look for: the new file's, else the old one's."""
        return self.new_no or self.old_no or 0


_KINDS: dict[int, LineKind] = {0x20: "context", 0x2B: "added", 0x2D: "deleted"}


@dataclass(frozen=True, slots=True)
class Hunk:
    """One `@@` block. `header` is the text git prints after the second `@@`.

    The bytes are kept and `lines` is made on each request: a patch of a million lines
    costs its own size in memory, not a million objects.
    """

    old_start: int
    new_start: int
    header: str
    body: bytes

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(self)

    def __iter__(self) -> Iterator[Line]:
        return self.part(0, None)

    def __len__(self) -> int:
        """Lines of the hunk; a remark on a missing newline is none."""
        return self.body.count(b"\n") - self._count(b"\\")

    @property
    def begins(self) -> tuple[int, int]:
        """(old, new) numbers of its first line; git names the line before where a side is empty."""
        added, deleted = self._count(b"+"), self._count(b"-")
        empty = (added == len(self), deleted == len(self))
        return self.old_start + empty[0], self.new_start + empty[1]

    @property
    def ends(self) -> tuple[int, int]:
        """(old, new) numbers of the line after its last."""
        old, new = self.begins
        return old + len(self) - self._count(b"+"), new + len(self) - self._count(b"-")

    def part(self, start: int, stop: int | None) -> Iterator[Line]:
        """The lines from ``start`` up to ``stop``, counted from 0; the others cost no objects."""
        old, new, position = self.old_start, self.new_start, 0
        # Only LF ends a line: str.splitlines would also cut at CR, FF, U+2028 and others.
        rows = self.body.split(b"\n")[:-1]
        for index, row in enumerate(rows):
            if row[:1] == b"\\":
                continue
            if stop is not None and position >= stop:
                return
            kind = _KINDS[row[0]] if row else "context"
            if position >= start:
                ends = index + 1 >= len(rows) or rows[index + 1][:1] != b"\\"
                text = row[1:].decode("utf-8", "surrogateescape")
                old_no = None if kind == "added" else old
                new_no = None if kind == "deleted" else new
                yield Line(kind, old_no, new_no, text, ends)
            old += kind != "added"
            new += kind != "deleted"
            position += 1

    def _count(self, mark: bytes) -> int:
        """Lines that begin with ``mark``."""
        return self.body.count(b"\n" + mark) + self.body.startswith(mark)


@dataclass(frozen=True, slots=True)
class PatchFile:
    """One changed file. `old_path` is set for renames and copies only.

    Modes are git's octal strings, None where the patch does not say. `binary_sizes` is
    (bytes before, bytes after), each None where the patch does not tell.
    """

    path: str
    old_path: str | None
    status: Status
    old_mode: str | None
    new_mode: str | None
    added: int
    deleted: int
    binary: bool
    binary_sizes: tuple[int | None, int | None] | None
    hunks: tuple[Hunk, ...]

    @property
    def touched(self) -> frozenset[str]:
        """The paths whose content or existence this entry changes."""
        moved = {self.old_path} if self.status == "renamed" and self.old_path else set()
        return frozenset({self.path} | moved)

    @property
    def names(self) -> tuple[str, ...]:
        """Every path that the entry names, old and new."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)

    def lines(self, kind: LineKind) -> Iterator[Line]:
        """The lines of one kind, in order."""
        return (line for hunk in self.hunks for line in hunk.lines if line.kind == kind)

    @property
    def link_target(self) -> str | None:
        """Where the symbolic link points after the patch, if the patch says so."""
        if self.new_mode != SYMLINK:
            return None
        return next((line.text for line in self.lines("added")), None)

    @property
    def submodule(self) -> tuple[str | None, str | None] | None:
        """(commit before, commit after) when the entry is a submodule."""
        if SUBMODULE not in (self.old_mode, self.new_mode):
            return None
        before = next((_commit(line) for line in self.lines("deleted")), None)
        after = next((_commit(line) for line in self.lines("added")), None)
        return before, after


def shown(text: str) -> str:
    """The text with undecodable bytes written as `\\xNN`: safe in JSON, pages and logs."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _commit(line: Line) -> str | None:
    prefix = "Subproject commit "
    return line.text.removeprefix(prefix) if line.text.startswith(prefix) else None
