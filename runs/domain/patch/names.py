"""Names in patch headers: git's quoting, git's prefix rule, and what no path may be."""

from __future__ import annotations

import re
import unicodedata

from runs.domain.patch.model import NotAPatch, UnsafePath

# Longer than any path that git can check out; it also bounds the search below.
MAX_PATH = 4096

# Characters that HFS+ drops when it compares names: '.g\u200cit' opens '.git' there.
IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_GIT_FOLDER = re.compile(r"\.git|git~\d+")
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_QUOTED = re.compile(rb'"((?:[^"\\\x00-\x1f]|' + _ESCAPE.pattern + rb')*)"')
_PLAIN = {
    b"a": 7,
    b"b": 8,
    b"t": 9,
    b"n": 10,
    b"v": 11,
    b"f": 12,
    b"r": 13,
    b'"': 34,
    b"\\": 92,
}


def unquote(quoted: bytes) -> tuple[bytes, bytes] | None:
    """(name, what follows the closing quote) of git's C-style quoting, or None."""
    found = _QUOTED.match(quoted)
    if found is None:
        return None
    return _ESCAPE.sub(_unescape, found[1]), quoted[found.end() :]


def whole_name(field: bytes, line: int) -> bytes:
    """The name of a header that holds nothing but a name (`rename from`, `--- `)."""
    if not field.startswith(b'"'):
        return field
    read = unquote(field)
    if read is None or read[1]:
        raise NotAPatch(line, "a quoted name is not closed as git would close it")
    return read[0]


def without_prefix(name: bytes) -> bytes | None:
    """The name as `git apply -p1` takes it: first part dropped, repeated slashes joined."""
    _, slash, rest = name.partition(b"/")
    return re.sub(rb"/{2,}", b"/", rest) if slash and rest else None


def pairs(field: bytes, line: int) -> list[tuple[bytes, bytes]]:
    """Every (old, new) that the rest of a `diff --git ` line can mean, prefixes still on.

    Unquoted names may hold spaces, so the line alone can have several readings.
    """
    if len(field) > 8 * MAX_PATH:
        raise NotAPatch(line, "the names are too long")
    if field.startswith(b'"'):
        read = unquote(field)
        if read is None or not read[1].startswith(b" "):
            raise NotAPatch(line, "a quoted name is not closed as git would close it")
        return [(read[0], whole_name(read[1][1:], line))]
    if field.endswith(b'"') and (at := field.find(b' "')) > 0:
        return [(field[:at], whole_name(field[at + 1 :], line))]
    spaces = (found.start() for found in re.finditer(b" ", field))
    return [(field[:at], field[at + 1 :]) for at in spaces]


def safe_path(name: bytes) -> str:
    """The decoded path, or UnsafePath. Tabs are allowed; pages make them visible."""
    path = name.decode("utf-8", "surrogateescape")
    if why := path_problem(path):
        raise UnsafePath(path, why)
    return path


def path_problem(path: str) -> str | None:
    """Why no patch may name this path, or None. Judged for every system, not for this one."""
    if not path or len(path) > MAX_PATH:
        return "empty or too long"
    if _CONTROL.search(path):
        return "control character in the name"
    if path.startswith(("/", "\\")):
        return "absolute path"
    if ":" in path:
        return "a colon names a drive or a stream on some systems"
    segments = path.replace("\\", "/").split("/")
    return next((why for segment in segments if (why := _segment_problem(segment))), None)


def _segment_problem(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return f"path segment {segment!r}"
    return "inside the repository's own .git folder" if is_git_folder(segment) else None


def is_git_folder(segment: str) -> bool:
    """Whether some file system opens `.git` under this name. Whole segments only."""
    return _GIT_FOLDER.fullmatch(fold_segment(segment)) is not None


def fold_segment(segment: str) -> str:
    """One name for all spellings that a case-blind or name-trimming file system joins."""
    plain = unicodedata.normalize("NFC", IGNORABLE.sub("", segment)).casefold()
    return plain.rstrip(". ") or plain


def _unescape(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([_PLAIN[code] if code in _PLAIN else int(code, 8)])
