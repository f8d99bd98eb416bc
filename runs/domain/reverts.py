"""Which commit of a base branch took a change back: one that names it, or one whose difference is its exact
inverse. Pure; what git says of each commit is given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

#: `git revert` writes "This reverts commit <id>."; people shorten both. Seven digits are git's own shortest.
_NAMED: Final = re.compile(r"\brevert(?:s|ed|ing)?\b[^\n]{0,80}?\b([0-9a-f]{7,64})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a base branch. ``changes`` and ``undoes`` are git's ids of its difference, as it is and
    turned round; "" where nobody had to ask."""

    sha: str
    parents: tuple[str, ...]
    at: datetime
    message: str
    paths: frozenset[str] = frozenset()
    changes: str = ""
    undoes: str = ""


@dataclass(frozen=True, slots=True)
class Landed:
    """A change that was merged: ids of its own commits, the paths it touches, and git's id of its
    difference."""

    commits: frozenset[str]
    paths: frozenset[str]
    difference: str = ""


def may_concern(commit: Commit, landed: Landed) -> bool:
    """Whether the difference of ``commit`` is worth asking git for."""
    return bool(landed.paths) and commit.paths == landed.paths


def find_revert(landed: Landed, history: Sequence[Commit]) -> Commit | None:
    """The first commit of ``history`` (parents first) that took the change back, or None.

    A change that was squashed or rebased on its way in has other commits than its own: those that bring the
    same difference, and merges of its own, are known by it as well.
    """
    known, has_landed = set(landed.commits), False
    for commit in history:
        same = bool(landed.difference) and commit.changes == landed.difference
        if commit.sha in known or same or known.intersection(commit.parents[1:]):
            known.add(commit.sha)
            has_landed = True
        elif is_named(commit, known):
            return commit
        elif has_landed and landed.difference and commit.undoes == landed.difference:
            return commit  # before it landed, the same difference was no revert of it
    return None


def is_named(commit: Commit, known: Iterable[str]) -> bool:
    """Whether the commit's words say that it reverts one of these."""
    found = [name.lower() for name in _NAMED.findall(commit.message)]
    return any(sha.startswith(name) for name in found for sha in known)
