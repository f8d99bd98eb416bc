"""Reading what `git diff --binary` printed: which files, which lines. Pure.

The control plane lets git itself say what a patch touches; this reading serves the judge alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class FileChange:
    """One file of a patch. `old` or `new` is None where it was added or deleted."""

    old: str | None
    new: str | None
    binary: bool = False
    mode_changed: bool = False
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.new or self.old or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Both names, once."""
        return tuple(dict.fromkeys(name for name in (self.old, self.new) if name))

    @property
    def deleted(self) -> bool:
        return self.new is None

    @property
    def lines(self) -> int:
        return len(self.added) + len(self.removed)


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def read_patch(text: str) -> list[FileChange]:
    """The files of a patch, in its order."""
    return [_read_file(section) for section in _sections(text.split("\n"))]


def _sections(lines: list[str]) -> Iterator[list[str]]:
    """Split at `diff --git`, but not inside a hunk, whose lengths its heading tells."""
    current: list[str] = []
    old_left = new_left = 0
    for line in lines:
        if old_left > 0 or new_left > 0:
            old_left -= line[:1] in (" ", "-", "")
            new_left -= line[:1] in (" ", "+", "")
        elif heading := _HUNK.match(line):
            old_left, new_left = (int(group or 1) for group in heading.groups())
        elif line.startswith("diff --git "):
            if current:
                yield current
            current = []
        if current or line.startswith("diff --git "):
            current.append(line)
    if current:
        yield current


def _read_file(section: list[str]) -> FileChange:
    change = FileChange(*_names_of_heading(section[0]))
    old_left = new_left = 0
    for line in section[1:]:
        if old_left > 0 or new_left > 0:
            sign, rest = line[:1], line[1:]
            if sign == "+":
                change.added.append(rest)
                new_left -= 1
            elif sign == "-":
                change.removed.append(rest)
                old_left -= 1
            elif sign != "\\":
                old_left, new_left = old_left - 1, new_left - 1
        elif heading := _HUNK.match(line):
            old_left, new_left = (int(group or 1) for group in heading.groups())
        else:
            _read_extended(change, line)
    return change


def _read_extended(change: FileChange, line: str) -> None:
    if line.startswith("--- "):
        change.old = _name(line[4:], "a/")
    elif line.startswith("+++ "):
        change.new = _name(line[4:], "b/")
    elif line.startswith(("rename from ", "copy from ")):
        change.old = _name(line.split(" from ", 1)[1], "")
    elif line.startswith(("rename to ", "copy to ")):
        change.new = _name(line.split(" to ", 1)[1], "")
    elif line.startswith("new file mode "):
        change.old = None
    elif line.startswith("deleted file mode "):
        change.new = None
    elif line.startswith("new mode "):
        change.mode_changed = True
    elif line.startswith(("GIT binary patch", "Binary files ")):
        change.binary = True


def _names_of_heading(line: str) -> tuple[str | None, str | None]:
    """`diff --git a/x b/x`: used where no other line names the file, so both names are equal."""
    rest = line[len("diff --git ") :]
    if rest.startswith('"'):
        old, _, new = rest.partition('" "')
        return _name(old + '"', "a/"), _name('"' + new, "b/")
    middle = len(rest) // 2
    return _name(rest[:middle], "a/"), _name(rest[middle + 1 :], "b/")


def _name(text: str, prefix: str) -> str | None:
    text = text.rstrip("\t\r")
    if text.startswith('"'):
        text = _unquote(text)
    if text == "/dev/null":
        return None
    return text.removeprefix(prefix)


def _unquote(text: str) -> str:
    """A name in C style, as git quotes those with unusual bytes; what is no UTF-8 becomes �."""
    out, index, end = bytearray(), 1, len(text) - 1
    while index < end:
        character = text[index]
        if character != "\\":
            out += character.encode("utf-8", "replace")
            index += 1
        elif text[index + 1] in _ESCAPES:
            out.append(_ESCAPES[text[index + 1]])
            index += 2
        else:
            out.append(int(text[index + 1 : index + 4], 8) & 0xFF)
            index += 4
    return out.decode("utf-8", "replace")
