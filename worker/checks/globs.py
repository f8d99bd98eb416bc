"""Gitignore-style globs over repository paths: the language of allowed and forbidden paths.

The last pattern that matches decides, `!` takes back, a pattern without an inner slash matches at
any depth, and what matches a folder matches everything in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether the patterns as a whole cover this path (no leading slash)."""
    covered = False
    for pattern in patterns:
        taken_back = pattern.startswith("!")
        compiled = _compile(pattern[1:] if taken_back else pattern)
        if compiled and compiled.match(path):
            covered = not taken_back
    return covered


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str] | None:
    pattern = pattern.rstrip()
    if not pattern.strip("/") or pattern.startswith("#"):
        return None
    folder_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anchored = "/" in pattern
    body = _translate(pattern.lstrip("/"))
    prefix = "" if anchored else r"(?:.*/)?"
    below = r"/.*" if folder_only else r"(?:/.*)?"
    return re.compile(f"{prefix}{body}{below}\\Z", re.DOTALL)


def _translate(pattern: str) -> str:
    parts = pattern.split("/")
    out = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:[^/]+/)*"
        else:
            out += _segment(part) + ("" if last else "/")
    return out


def _segment(part: str) -> str:
    out, index = "", 0
    while index < len(part):
        character = part[index]
        if character == "*":
            out += "[^/]*"
        elif character == "?":
            out += "[^/]"
        elif character == "[" and (end := part.find("]", index + 2)) > 0:
            members = part[index + 1 : end].replace("\\", "\\\\")
            negated = members[0] in "!^"
            out += f"(?!/)[{'^' if negated else ''}{members[1:] if negated else members}]"
            index = end
        elif character == "\\" and index + 1 < len(part):
            index += 1
            out += re.escape(part[index])
        else:
            out += re.escape(character)
        index += 1
    return out
