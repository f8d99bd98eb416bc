"""CODEOWNERS, read as the forges document it. Pure.

GitHub ("About code owners"): patterns are those of ``.gitignore`` without ``!``, ``[ ]`` and ``\\#``; the
last pattern that matches a path decides; one without owners leaves the path without; ``docs/*`` is not
``docs/a/b``. GitLab ("Syntax of CODEOWNERS file") adds sections: the last match in *each* counts, entries
without owners have the section's, ``!pattern`` takes paths out of it, ``\\#`` and ``\\ `` are the characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

#: Where the forges look, in their order; the first file found is the only one read.
PLACES: Final = {
    "github": (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
    "gitlab": ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"),
    "git": ("CODEOWNERS", ".github/CODEOWNERS", ".gitlab/CODEOWNERS", "docs/CODEOWNERS"),
}
MAX_BYTES: Final = 512 * 1024
MAX_RULES: Final = 5_000
#: More ``**`` than this in one pattern make matching slow for no honest reason.
MAX_DEEP: Final = 4

_HEADING: Final = re.compile(r"\^?\[(?P<name>[^\]]+)\](?:\[\d+\])?(?P<owners>(?:\s+.*)?)")
_OWNER: Final = re.compile(r"@[\w][\w./-]*|[^@\s]+@[^@\s]+\.[^@\s]+")
_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+")
_SIGN: Final = re.compile(r"\*+|\?|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: paths that match ``path`` belong to ``owners``; ``number`` is the line's, from 1."""

    number: int
    pattern: str
    path: re.Pattern[str]
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owned:
    """An owner as written (``@ann``, ``@org/team``, ``ann@example.org``) and the patterns that named it."""

    handle: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeOwners:
    """The rules of one file, by section; rules outside any stand in the section ""."""

    sections: dict[str, tuple[Rule, ...]]

    def owners_of(self, paths: Iterable[str]) -> list[Owned]:
        """Everybody who owns one of these paths, in the order of the paths."""
        found: dict[str, dict[str, None]] = {}
        for path in paths:
            for rules in self.sections.values():
                rule = next((rule for rule in reversed(rules) if rule.path.fullmatch(path)), None)
                for handle in rule.owners if rule else ():
                    found.setdefault(handle, {})[rule.pattern if rule else ""] = None
        return [Owned(handle, tuple(patterns)) for handle, patterns in found.items()]


def places(provider: str) -> tuple[str, ...]:
    """Where this provider keeps the file; that of Gitea has patterns of another kind and is not read."""
    return PLACES.get(provider, ())


def parse(text: str, *, provider: str = "git") -> CodeOwners:
    """Read a file. A line that the forge would not take is skipped, as the forges do."""
    sections: dict[str, list[Rule]] = {"": []}
    name = ""
    inherited: tuple[str, ...] = ()
    with_sections = provider != "github"
    for number, line in _lines(text):
        heading = _HEADING.fullmatch(line) if with_sections else None
        if heading:
            name, inherited = heading["name"].strip().casefold(), _owners(heading["owners"].split())
            sections.setdefault(name, [])
        elif (rule := _rule(number, line, inherited, with_sections=with_sections)) and number <= MAX_RULES:
            sections[name].append(rule)
    return CodeOwners({section: tuple(rules) for section, rules in sections.items()})


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if line and not line.startswith("#"):
            yield number, line


def _rule(number: int, line: str, inherited: tuple[str, ...], *, with_sections: bool) -> Rule | None:
    pattern, *rest = _WORD.findall(line)
    taken_out = with_sections and pattern.startswith("!")
    path = _path(pattern.removeprefix("!") if taken_out else pattern, escapes=with_sections)
    if path is None:
        return None
    named = _owners(rest)
    return Rule(number, pattern, path, () if taken_out else named or inherited)


def _owners(words: Iterable[str]) -> tuple[str, ...]:
    """The owners up to an inline comment; words that name nobody are left out."""
    found = []
    for word in words:
        if word.startswith("#"):
            break
        if _OWNER.fullmatch(word):
            found.append(word)
    return tuple(dict.fromkeys(found))


def _path(pattern: str, *, escapes: bool) -> re.Pattern[str] | None:
    """A pattern as an expression over whole paths, or None where the forge would not take it."""
    if pattern.startswith("!") or "[" in pattern or (not escapes and pattern.startswith("\\#")):
        return None
    body = pattern.strip("/")
    if not body or len(pattern) > 1_000 or body.count("**") > MAX_DEEP:  # noqa: PLR2004
        return None
    anchored = pattern.startswith("/") or "/" in body
    flat = body.endswith("/*") or (anchored and body == "*")
    below = "/.*" if pattern.endswith("/") else "" if flat else "(?:/.*)?"
    start = "" if anchored else "(?:.*/)?"
    return re.compile(f"{start}{_segments(body.split('/'))}{below}", re.DOTALL)


def _segments(names: list[str]) -> str:
    found = []
    for number, name in enumerate(names):
        last = number == len(names) - 1
        if name == "**":
            found.append(".*" if last else "(?:.*/)?")
        else:
            found.append(_name(name) + ("" if last else "/"))
    return "".join(found)


def _name(name: str) -> str:
    """One name between slashes. What lies between two stars is taken where it first fits and never given
    back: that is right for globs, and keeps the expression from trying every way."""
    pieces = [""]
    for sign in _SIGN.findall(name):
        if sign.startswith("*"):
            pieces.append("")
        elif sign == "?":
            pieces[-1] += "[^/]"
        else:
            pieces[-1] += re.escape(sign[1:] if sign.startswith("\\") and len(sign) > 1 else sign)
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}"
