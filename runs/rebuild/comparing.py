"""Where rows and a fold of their log differ, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Model

from runs.domain.facts import Json

#: Columns that move with policy and clock; only whether there is such a moment is compared.
_CLOCKED: Final = frozenset({"expires_at"})
_MISSING: Final = "(missing)"
SHOWN: Final = 200  #: characters of a value in a sentence


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that its log does not account for: what is stored, and what the log says."""

    stream: str
    where: str
    field: str
    stored: Any
    folded: Any

    def __str__(self) -> str:
        place = f"{self.stream} {self.where}.{self.field}"
        return f"{place}: stored {_short(self.stored)}, by its log {_short(self.folded)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def compare(stream: str, where: str, row: Model, columns: Json) -> Iterator[Difference]:
    for name, folded in columns.items():
        stored = getattr(row, name)
        if isinstance(folded, dict) and name == "state":
            yield from _compare_state(stream, where, stored, folded)
        elif (bool(stored) != bool(folded)) if name in _CLOCKED else stored != folded:
            yield Difference(stream, where, name, stored, folded)


def _compare_state(stream: str, where: str, stored: Json, folded: Json) -> Iterator[Difference]:
    for name in sorted({*stored, *folded}):
        before, after = stored.get(name, _MISSING), folded.get(name, _MISSING)
        if before != after:
            yield Difference(stream, f"{where}.state", name, before, after)


def compare_rows(
    stream: str, kind: str, rows: Mapping[str, Any], folded: Mapping[str, Json]
) -> Iterator[Difference]:
    for key in sorted({*rows, *folded}):
        where = f"{kind} {key}"
        if key not in rows or key not in folded:
            yield Difference(stream, where, "exists", key in rows, key in folded)
        else:
            yield from compare(stream, where, rows[key], folded[key])
