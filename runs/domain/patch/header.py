"""The lines above the hunks of one file: which file, what kind of change, which modes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runs.domain.patch.cursor import Cursor
from runs.domain.patch.model import AmbiguousPatch, NotAPatch, Status
from runs.domain.patch.names import pairs, safe_path, whole_name, without_prefix

ADVICE = "make it with git diff --binary"
_GIT = b"diff --git "
_ABSENT = b"/dev/null"
_EXTENDED = re.compile(
    rb"(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from"
    rb"|rename to|similarity index|dissimilarity index|index) (.+)\Z",
    re.DOTALL,
)
_MODE = re.compile(rb"100644|100755|120000|160000")
_INDEX = re.compile(rb"[0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: (100644|100755|120000|160000))?")
_KINDS: dict[str, Status] = {
    "new file mode": "added",
    "deleted file mode": "deleted",
    "rename from": "renamed",
    "copy from": "copied",
}


@dataclass(frozen=True, slots=True)
class Head:
    """What the header says, agreed and judged. `old_path` as in PatchFile."""

    line: int
    path: str
    old_path: str | None
    status: Status
    old_mode: str | None
    new_mode: str | None


@dataclass(slots=True)
class _Said:
    """The header as it stands. `names` are the readings of its first line, prefixes on."""

    line: int
    names: list[tuple[bytes, bytes]]
    words: dict[str, bytes] = field(default_factory=dict)
    old: bytes | None = None
    new: bytes | None = None


def read_header(cursor: Cursor) -> Head:
    """Read up to the first hunk, binary block or next file."""
    said = _read(cursor)
    status = _status(said)
    old, new = _names(said, status)
    old_mode, new_mode = _modes(said, status)
    old_path = safe_path(old) if status in ("renamed", "copied") else None
    return Head(said.line, safe_path(new), old_path, status, old_mode, new_mode)


def _read(cursor: Cursor) -> _Said:
    first = cursor.peek() or b""
    if not first.startswith(_GIT):
        raise _not_git(cursor, first)
    said = _Said(cursor.line, pairs(first[len(_GIT) :], cursor.line))
    cursor.take()
    while found := _EXTENDED.match(cursor.peek() or b""):
        key = found[1].decode()
        if key in said.words:
            raise NotAPatch(cursor.line, f"{key!r} is said twice")
        said.words[key] = found[2]
        cursor.take()
    said.old = _side(cursor, b"--- ")
    if said.old is not None:
        said.new = _side(cursor, b"+++ ")
        if said.new is None or not (cursor.peek() or b"").startswith(b"@@ "):
            raise NotAPatch(cursor.line, "a '---' line needs its '+++' line and a hunk")
    return said


def _side(cursor: Cursor, mark: bytes) -> bytes | None:
    row = cursor.peek() or b""
    if not row.startswith(mark):
        return None
    # git ends a name that holds blanks with one tab; a tab inside a name is always quoted.
    text = row[len(mark) :].removesuffix(b"\t")
    if b"\t" in text and not text.startswith(b'"'):
        raise NotAPatch(cursor.line, f"a date behind the name; {ADVICE}")
    name = whole_name(text, cursor.line)
    cursor.take()
    return name


def _not_git(cursor: Cursor, row: bytes) -> NotAPatch:
    line = cursor.line
    if row.startswith((b"diff --cc ", b"diff --combined ")):
        return NotAPatch(line, "a combined diff of a merge cannot be applied")
    # A patch without git's header is refused anyway, but first said if it is dangerous.
    for mark in (b"--- ", b"+++ "):
        name = _side(cursor, mark)
        if name not in (None, _ABSENT):
            _judged(name, line)
    return NotAPatch(line, f"no 'diff --git' line here; {ADVICE}")


def _status(said: _Said) -> Status:
    told = [status for key, status in _KINDS.items() if key in said.words]
    if len(told) > 1:
        raise AmbiguousPatch("one file is both " + " and ".join(told))
    status: Status = told[0] if told else "modified"
    if said.old is None:
        return status
    if (said.old == _ABSENT) != (status == "added"):
        raise NotAPatch(said.line, "'--- /dev/null' belongs to new files, and only to them")
    if (said.new == _ABSENT) != (status == "deleted"):
        raise NotAPatch(said.line, "'+++ /dev/null' belongs to deleted files, and only to them")
    return status


def _names(said: _Said, status: Status) -> tuple[bytes, bytes]:
    """(old, new) without prefixes. All lines that name the file must agree."""
    sides = [_judged(side, said.line) for side in (said.old, said.new) if side not in (None, _ABSENT)]
    readings = [(without_prefix(old), without_prefix(new)) for old, new in said.names]
    if status in ("renamed", "copied"):
        old, new = _moved(said, "rename" if status == "renamed" else "copy")
    else:
        equal = {new for old, new in readings if old == new and new is not None}
        if len(equal) != 1:
            raise _unnamed(said, equal)
        old = new = equal.pop()
    if (old, new) not in readings or any(side not in (old, new) for side in sides):
        raise AmbiguousPatch(f"the header at line {said.line} names different files")
    for prefixed in said.names[readings.index((old, new))]:
        _judged(prefixed, said.line)
    if len(sides) > 1 and sides != [old, new]:
        raise AmbiguousPatch(f"the header at line {said.line} swaps its files")
    return old, new


def _moved(said: _Said, word: str) -> tuple[bytes, bytes]:
    old, new = said.words.get(f"{word} from"), said.words.get(f"{word} to")
    if old is None or new is None:
        raise NotAPatch(said.line, f"half a {word}")
    return whole_name(old, said.line), whole_name(new, said.line)


def _unnamed(said: _Said, equal: set[bytes]) -> Exception:
    if equal or len(said.names) != 1:
        return AmbiguousPatch(f"the 'diff --git' line {said.line} has more than one reading")
    for name in said.names[0]:
        _judged(name, said.line)
    return AmbiguousPatch(f"the 'diff --git' line {said.line} names two files, but no rename")


def _judged(prefixed: bytes | None, line: int) -> bytes:
    """The name without its prefix, or UnsafePath.

    git would turn '/etc/x' into 'etc/x' here; nobody writes that by accident.
    """
    name = prefixed or b""
    if name.startswith(b"/"):
        safe_path(name)
    stripped = without_prefix(name)
    if stripped is None:
        raise NotAPatch(line, "the names need git's a/ and b/ in front")
    safe_path(stripped)
    return stripped


def _modes(said: _Said, status: Status) -> tuple[str | None, str | None]:
    words = said.words
    for key in ("old mode", "new mode", "new file mode", "deleted file mode"):
        if key in words and not _MODE.fullmatch(words[key]):
            raise NotAPatch(said.line, f"{key} is none of git's modes")
    if ("old mode" in words) != ("new mode" in words):
        raise NotAPatch(said.line, "half a change of mode")
    index = _INDEX.fullmatch(words["index"]) if "index" in words else None
    if "index" in words and index is None:
        raise NotAPatch(said.line, "damaged index line")
    same = index[1] if index else None
    old = words.get("old mode") or words.get("deleted file mode") or same
    new = words.get("new mode") or words.get("new file mode") or same
    return (
        old.decode() if old and status != "added" else None,
        new.decode() if new and status != "deleted" else None,
    )
