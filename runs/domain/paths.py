"""Globs over the paths of a change, in the style of .gitignore.

Two ways to compare. Lists that forbid or warn use `fold=True`: every spelling that some
file system would open as the same file counts (letter case, decomposed accents, trailing
dots and blanks, backslashes, repeated slashes). Lists that allow use `fold=False`: there a
looser comparison would let more through.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pathspec import GitIgnoreSpec

from runs.domain.patch.names import fold_segment, path_problem

__all__ = ["first_match", "matches", "path_problem", "pattern_problem"]

# Stands for "anything below": a name that no pattern spells out.
_BELOW = "/\ue000"


def matches(patterns: Sequence[str], path: str, *, fold: bool = True) -> str | None:
    """The pattern that decides that `path` is in the list, or None.

    As in .gitignore the last matching pattern wins and `!pattern` takes paths out again.
    With `fold`, a path that would take the place of a listed folder ('.github' where
    '.github/**' is listed) is in the list too. Raises ValueError for a bad pattern.
    """
    spec = _compiled(tuple(patterns), fold=fold)
    for candidate in _spellings(path) if fold else (_joined(path),):
        result = spec.check_file(candidate)
        if result.include and result.index is not None:
            return patterns[result.index]
    return None


def first_match(patterns: Sequence[str], paths: Iterable[str]) -> tuple[str, str] | None:
    """The first (path, pattern) of `paths` that a folding list holds, or None."""
    for path in paths:
        if pattern := matches(patterns, path):
            return path, pattern
    return None


def pattern_problem(pattern: str) -> str | None:
    """Why a policy or a contract may not hold this pattern, or None."""
    if not pattern.strip() or pattern.startswith("#"):
        return "matches nothing"
    if "\\" in pattern and re.search(r"\\[\w.]", pattern):
        return "use / between folders"
    if ".." in pattern.split("/"):
        return "'..' never matches"
    try:
        _compiled((pattern,), fold=False)
    except ValueError as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...], *, fold: bool) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(_prepared(pattern, fold=fold) for pattern in patterns)


def _prepared(pattern: str, *, fold: bool) -> str:
    text = _joined(pattern)
    return text.casefold() if fold else text


def _joined(path: str) -> str:
    return re.sub(r"/{2,}", "/", unicodedata.normalize("NFC", path))


def _spellings(path: str) -> tuple[str, ...]:
    as_it_is = _folded(path)
    with_slashes = _folded(path.replace("\\", "/"))
    return tuple(
        spelling + below for spelling in dict.fromkeys((as_it_is, with_slashes)) for below in ("", _BELOW)
    )


def _folded(path: str) -> str:
    return "/".join(fold_segment(segment) for segment in path.split("/") if segment)
