"""What an import changes: repositories as a forge or a file lists them, laid over those that are known. Pure.

A repository is known again by the forge's own id, which outlives every rename, else by its address. A field
follows the forge as long as it holds what the forge said last; what a person changed here stays theirs.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runs.domain.facts import Json

#: The parts of a name, as addresses and pages have them: ``acme/team/clock``.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*(?:/[A-Za-z0-9._@+-]+)*")
MAX_NAME: Final = 128
#: Fields that follow the forge.
FOLLOWED: Final = ("name", "url", "base_branch", "archived")


@dataclass(frozen=True, slots=True)
class Listed:
    """A repository as it is listed. ``key`` is the forge's host and its id there, "" where none is told.

    ``place`` is its address without scheme, login and ending: the same for https and ssh. Of a file, a branch
    that is "" and an ``archived`` that is None are not said.
    """

    name: str
    url: str
    provider: str
    key: str = ""
    place: str = ""
    base_branch: str = ""
    archived: bool | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A repository as it is here, and what was said of it last ({} before its first import)."""

    id: str
    name: str
    url: str
    base_branch: str
    archived: bool
    key: str
    place: str
    said: Json


@dataclass(frozen=True, slots=True)
class Change:
    """A known repository that is brought into step. ``fields`` are those of ``FOLLOWED`` that change."""

    known: Known
    listed: Listed
    fields: Json
    said: Json

    @property
    def in_words(self) -> str:
        """What changes: ``acme/clock → acme/watch, archived``."""
        words = [f"{self.known.name} → {self.fields['name']}"] if "name" in self.fields else [self.known.name]
        if "url" in self.fields and "name" not in self.fields:
            words.append(f"now at {self.fields['url']}")
        if "base_branch" in self.fields:
            words.append(f"base branch {self.fields['base_branch']}")
        if "archived" in self.fields:
            words.append("archived" if self.fields["archived"] else "in use again")
        return ", ".join(words) if self.fields else f"{self.known.name}, which keeps what it was given here"


@dataclass(slots=True)
class Plan:
    """All that an import does: ``refused`` says of which nothing is done and why."""

    new: list[Listed] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unchanged: int = 0

    @property
    def summary(self) -> str:
        """``500 listed: 3 new, 1 changed, 0 refused, 496 as they were.``"""
        count = len(self.new) + len(self.changed) + len(self.refused) + self.unchanged
        return (
            f"{count} listed: {len(self.new)} new, {len(self.changed)} changed, {len(self.refused)} refused, "
            f"{self.unchanged} as they were."
        )


def plan_import(listed: Iterable[Listed], known: Sequence[Known]) -> Plan:
    """Lay what is listed over what is known. Nothing is ever deleted, and nothing is overwritten by guess."""
    rows = list(listed)
    plan, index = Plan(), _Index(known, {one.key for one in rows})
    for one in rows:
        try:
            _place(one, index, plan)
        except _Refused as refused:
            plan.refused.append((one.name, str(refused)))
    _refuse_names_in_use(plan, known)
    return plan


class _Refused(Exception):  # noqa: N818  a verdict, not an error
    """Nothing is done about this one."""


class _Index:
    """The known ones by key, by place and by name; each may be listed once."""

    def __init__(self, known: Sequence[Known], keys: Container[str]) -> None:
        self.by_key = {one.key: one for one in known if one.key}
        # One that is listed by its key says itself where it is now: its old place may be another's.
        self.by_place = {one.place: one for one in known if one.place and not (one.key and one.key in keys)}
        self.by_name = {one.name: one for one in known}
        self.seen: set[str] = set()

    def find(self, one: Listed) -> Known | None:
        """The same repository, or None. Raises ``_Refused`` where that cannot be told."""
        if one.key and (found := self.by_key.get(one.key)):
            return found
        found = self.by_place.get(one.place) if one.place else None
        if found is None and not one.key:
            found = self.by_name.get(one.name)
        if found and one.key and found.key:
            raise _Refused(
                f"its address is that of {found.name}, which was another repository at the forge; give that "
                "one another name and address, or archive it"
            )
        return found

    def take(self, what: str) -> None:
        """Refuse what was listed before."""
        if what in self.seen:
            raise _Refused("it is listed twice")
        self.seen.add(what)


def _place(one: Listed, index: _Index, plan: Plan) -> None:
    if wrong := wrong_name(one.name):
        raise _Refused(f"its name {wrong}")
    found = index.find(one)
    index.take(found.id if found else one.key or one.place or one.name)
    if found is None:
        plan.new.append(one)
        return
    change = _change(found, one)
    if change.fields or change.said != found.said or (one.key and not found.key):
        plan.changed.append(change)
    else:
        plan.unchanged += 1


def _change(known: Known, listed: Listed) -> Change:
    now = said_of(listed)
    said = {**known.said, **now}
    # Where nothing was said before, what a person typed is theirs, but for the archive.
    last = {"archived": False, **known.said}
    follows = {name: now[name] for name in now if name in last and getattr(known, name) == last[name]}
    return Change(known, listed, {n: v for n, v in follows.items() if getattr(known, n) != v}, said)


def said_of(listed: Listed) -> Json:
    """What the forge says of the fields that follow it; kept beside the repository."""
    told = ((name, getattr(listed, name)) for name in FOLLOWED)
    return {name: value for name, value in told if value not in ("", None)}


def _refuse_names_in_use(plan: Plan, known: Sequence[Known]) -> None:
    """A name is one repository's: those that would take another's are refused, the renamed give theirs up."""
    while taken := _first_taken(plan, known):
        item, other = taken
        why = f"the name is taken by {other}; bring it in with a prefix, or give the other one another name"
        if isinstance(item, Change):
            plan.changed.remove(item)
            plan.refused.append((item.fields["name"], why))
        else:
            plan.new.remove(item)
            plan.refused.append((item.name, why))


def _first_taken(plan: Plan, known: Sequence[Known]) -> tuple[Change | Listed, str] | None:
    renamed = {change.known.id for change in plan.changed if "name" in change.fields}
    holders = {one.name: one.url for one in known if one.id not in renamed}
    for item, name, url in _names(plan):
        if name in holders:
            return item, holders[name]
        holders[name] = url
    return None


def _names(plan: Plan) -> Iterator[tuple[Change | Listed, str, str]]:
    for change in plan.changed:
        if "name" in change.fields:
            yield change, change.fields["name"], change.listed.url
    for one in plan.new:
        yield one, one.name, one.url


def wrong_name(name: Any) -> str:
    """What is wrong with a repository's name, "" where nothing is."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        return f"must be 1 to {MAX_NAME} of A-Z a-z 0-9 . _ @ + - and single slashes, a letter or digit first"
    return "must not hold . or .. as a part" if {".", ".."} & set(name.split("/")) else ""
