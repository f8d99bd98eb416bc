"""What one file's hunks do to its tests: names, assertions and skips, lost and gained."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from runs.domain.patch.model import Line, PatchFile
from runs.domain.tests_intact.languages import TRIVIAL, Language


@dataclass(slots=True, eq=False)
class Assertion:
    """One assertion on a changed line. `scope` is its test, None for helpers and unknown."""

    text: str
    scope: str | None
    line: int
    matched: bool = False


@dataclass(slots=True, eq=False)
class Skip:
    text: str
    scope: str | None
    line: int


@dataclass(slots=True, eq=False)
class Ledger:
    file: PatchFile
    language: Language
    removed: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    lost: list[Assertion] = field(default_factory=list)
    gained: list[Assertion] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    skips_removed: Counter[str] = field(default_factory=Counter)
    markers_lost: list[int] = field(default_factory=list)
    markers_gained: int = 0

    @property
    def gone(self) -> list[str]:
        """Tests that this file no longer has under their name."""
        return [name for name in self.removed if name not in self.added]

    @property
    def fresh(self) -> list[str]:
        """Tests that this file did not have before."""
        return [name for name in self.added if name not in self.removed]


def read_ledger(file: PatchFile, language: Language) -> Ledger:
    """Go through the hunks once, with one running scope for each side of the change."""
    ledger = Ledger(file, language)
    for hunk in file.hunks:
        start = _scope(language, hunk.header, None)
        scopes: dict[str, str | None] = {"deleted": start, "added": start}
        decorators: list[Skip] = []
        for line in hunk.lines:
            _read_line(ledger, line, scopes, decorators)
    return ledger


def _read_line(ledger: Ledger, line: Line, scopes: dict[str, str | None], decorators: list[Skip]) -> None:
    language, text = ledger.language, line.text
    sides = ("deleted", "added") if line.kind == "context" else (line.kind,)
    opens = language.scope.match(text) is not None
    for side in sides:
        scopes[side] = _scope(language, text, scopes[side])
    if opens and line.kind != "deleted":
        for skip in decorators:
            skip.scope = scopes["added"]
        decorators.clear()
    stripped = text.strip()
    if line.kind == "context" or stripped.startswith(language.comment):
        return
    scope = scopes[line.kind]
    if line.kind == "added":
        _gain(ledger, line, stripped, scope, decorators)
    else:
        _lose(ledger, line, stripped, scope)


def _gain(ledger: Ledger, line: Line, text: str, scope: str | None, decorators: list[Skip]) -> None:
    language = ledger.language
    if name := _test_name(language, line.text):
        ledger.added.setdefault(name, line.number)
    if language.marker and language.marker.match(line.text):
        ledger.markers_gained += 1
    if language.assertion.search(line.text) and not TRIVIAL.search(line.text):
        ledger.gained.append(Assertion(text, scope, line.number))
    if language.skip.search(line.text):
        skip = Skip(text, scope, line.number)
        ledger.skips.append(skip)
        if text.startswith("@"):
            decorators.append(skip)


def _lose(ledger: Ledger, line: Line, text: str, scope: str | None) -> None:
    language = ledger.language
    if name := _test_name(language, line.text):
        ledger.removed.setdefault(name, line.number)
    if language.marker and language.marker.match(line.text):
        ledger.markers_lost.append(line.number)
    if language.assertion.search(line.text) and not TRIVIAL.search(line.text):
        ledger.lost.append(Assertion(text, scope, line.number))
    if language.skip.search(line.text):
        ledger.skips_removed[text] += 1


def _test_name(language: Language, text: str) -> str | None:
    found = language.scope.match(text)
    if found is None:
        return None
    name = found["name"] or found.groupdict().get("method") or ""
    return name if language.test.match(name) else None


def _scope(language: Language, text: str, before: str | None) -> str | None:
    """The test that a line belongs to. Classes and helpers open a scope without a name."""
    if language.scope.match(text) is None:
        return before
    return None if text.lstrip().startswith("class ") else _test_name(language, text)
