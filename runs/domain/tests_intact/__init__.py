"""Whether a change takes away from what the tests prove, read from the patch alone.

A test that moved, was renamed, or was rewritten with as many assertions is intact. What
cannot be told from the lines (an assertion made weaker in its own words) is for the people
who review; what is told here must be asked for, or looked at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from runs.domain.patch.model import PatchFile
from runs.domain.tests_intact.languages import language_of
from runs.domain.tests_intact.ledger import Assertion, Ledger, read_ledger
from runs.domain.tests_intact.settings import setting_change

__all__ = ["Weakening", "is_test", "weakenings"]

Kind = Literal["test_deleted", "test_skipped", "assertion_lost", "verifier_config_changed"]


@dataclass(frozen=True, slots=True)
class Weakening:
    """One thing the tests lose. `line` is of the new file, of the old one where it is gone."""

    path: str
    line: int
    kind: Kind
    detail: str


@lru_cache(maxsize=8_192)
def is_test(path: str) -> bool:
    """Whether tests, or what they stand on, live at this path."""
    return language_of(path) is not None


def weakenings(files: Iterable[PatchFile]) -> list[Weakening]:
    """Every weakening of a change, by file and line."""
    files = list(files)
    ledgers = [ledger for file in files if (ledger := _ledger(file)) is not None]
    _match_moved_assertions(ledgers)
    found = [weakening for file in files for weakening in _of_settings(file)]
    for ledger in ledgers:
        elsewhere = {n: other for other in ledgers if other is not ledger for n in other.fresh}
        found += _deleted(ledger, elsewhere)
        found += _skipped(ledger)
        found += _lost(ledger, elsewhere)
    return sorted(found, key=lambda w: (w.path, w.line, w.kind))


def _ledger(file: PatchFile) -> Ledger | None:
    paths = reversed(file.names)
    language = next((found for path in paths if (found := language_of(path))), None)
    return read_ledger(file, language) if language else None


def _of_settings(file: PatchFile) -> Iterator[Weakening]:
    if change := setting_change(file):
        path, line, what = change
        yield Weakening(path, line, "verifier_config_changed", f"changes {what}")


def _match_moved_assertions(ledgers: Sequence[Ledger]) -> None:
    """Pair each lost assertion with the same words gained elsewhere, nearest place first."""
    gained: dict[str, list[tuple[Ledger, Assertion]]] = defaultdict(list)
    for ledger in ledgers:
        for assertion in ledger.gained:
            gained[assertion.text].append((ledger, assertion))
    for ledger in ledgers:
        for lost in ledger.lost:
            places = [place for place in gained[lost.text] if not place[1].matched]
            if not places:
                continue
            _, best = max(places, key=lambda p: (p[0] is ledger, p[1].scope == lost.scope))
            lost.matched = best.matched = True


def _deleted(ledger: Ledger, elsewhere: Mapping[str, Ledger]) -> Iterator[Weakening]:
    file, gone = ledger.file, _gone_for_good(ledger, elsewhere)
    replaced = len(ledger.fresh)
    for name in gone[replaced:]:
        yield Weakening(file.path, ledger.removed[name], "test_deleted", f"{name} is deleted")
    unmarked = ledger.markers_lost[len(gone) + ledger.markers_gained :]
    for line in unmarked:
        yield Weakening(file.path, line, "test_deleted", "no longer marked as a test")
    old_path = file.old_path or file.path
    if language_of(old_path, collected=True) is None:
        return
    if file.status == "deleted" and not ledger.removed:
        yield Weakening(file.path, 0, "test_deleted", "a test file is deleted")
    if file.status == "renamed" and language_of(file.path, collected=True) is None:
        yield Weakening(file.path, 0, "test_deleted", f"{old_path} gets a name that no test runner collects")


def _gone_for_good(ledger: Ledger, elsewhere: Mapping[str, Ledger]) -> list[str]:
    return [name for name in ledger.gone if name not in elsewhere]


def _skipped(ledger: Ledger) -> Iterator[Weakening]:
    """New skips of tests that ran before. A new test may be born skipped."""
    if ledger.file.status in ("added", "copied"):
        return
    moved = Counter(ledger.skips_removed)
    fresh = set(ledger.fresh)
    for skip in ledger.skips:
        if moved[skip.text] > 0:
            moved[skip.text] -= 1
        elif skip.scope is None or skip.scope not in fresh:
            detail = f"{skip.scope or 'tests of this file'} may no longer run"
            yield Weakening(ledger.file.path, skip.line, "test_skipped", detail)


def _lost(ledger: Ledger, elsewhere: Mapping[str, Ledger]) -> Iterator[Weakening]:
    """Tests left with fewer assertions than before, after all that moved is paired."""
    gone = set(_gone_for_good(ledger, elsewhere))
    if len(gone) <= len(ledger.fresh):
        yield from _rewritten(ledger, gone)
    lost = _by_scope(a for a in ledger.lost if a.scope not in gone)
    gained = _by_scope(ledger.gained)
    spare = {scope: len(found) - len(lost.get(scope, ())) for scope, found in gained.items()}
    for scope, assertions in lost.items():
        target = elsewhere.get(scope) if scope and scope in ledger.gone else None
        if target is not None:
            paid = len(_by_scope(target.gained).get(scope, ()))
        else:
            paid = len(gained.get(scope, ())) + _from_others(scope, spare, ledger)
        if paid < len(assertions):
            yield _loss(ledger, assertions, len(assertions) - paid, scope)


def _from_others(scope: str | None, spare: Mapping[str | None, int], ledger: Ledger) -> int:
    """What helpers gained pays for their callers, and the other way round.

    A new test never pays: else a real check could be swapped for an empty one beside it.
    """
    if scope is not None:
        return max(0, spare.get(None, 0))
    return sum(max(0, n) for other, n in spare.items() if other and other not in ledger.fresh)


def _rewritten(ledger: Ledger, gone: set[str]) -> Iterator[Weakening]:
    lost = [a for a in ledger.lost if a.scope in gone and not a.matched]
    gained = [a for a in ledger.gained if a.scope in set(ledger.fresh) and not a.matched]
    if len(lost) > len(gained):
        yield _loss(ledger, lost, len(lost) - len(gained), lost[0].scope)


def _by_scope(assertions: Iterable[Assertion]) -> dict[str | None, list[Assertion]]:
    scopes: dict[str | None, list[Assertion]] = defaultdict(list)
    for assertion in assertions:
        if not assertion.matched:
            scopes[assertion.scope].append(assertion)
    return dict(scopes)


def _loss(ledger: Ledger, lost: Sequence[Assertion], count: int, scope: str | None) -> Weakening:
    detail = f"{scope or 'a test or its helper'} loses {count} of its assertions"
    return Weakening(ledger.file.path, lost[0].line, "assertion_lost", detail)
