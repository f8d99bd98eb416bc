"""Rows of a difference as markup, one below the other or side by side.

A page may hold thousands of them: written here and not by a template, they take a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from runs.domain.facts import Json

_SIGNS = {"add": "+", "del": "−"}
_NOBODY = '<td class="n none"></td><td class="t none"></td>'


def rows_markup(rows: Iterable[Json], anchor: str) -> SafeString:
    """The ``rows`` of runs/_diff.html; ``anchor``: of their file, for links to a line."""
    return mark_safe("\n".join(_row(row, anchor) for row in rows))  # noqa: S308  escaped piece by piece


def _row(row: Json, anchor: str) -> str:
    if row.get("kind") == "note":
        return _note(row)
    return _single(row, anchor) if "html" in row else _beside(row, anchor)


def _note(row: Json) -> str:
    if "left_note" in row:
        said = escape(row["left_note"]), escape(row["right_note"])
        cells = f'<td class="t">{said[0]}</td><td class="n"></td><td class="t">{said[1]}</td>'
    else:
        cells = f'<td class="n"></td><td class="sign"></td><td class="t">{_safe(row["html"])}</td>'
    return f'<tr class="say"><td class="n"></td>{cells}</tr>'


def _single(row: Json, anchor: str) -> str:
    kind, old, new = row["kind"], row.get("old"), row.get("new")
    shade = "" if kind == "ctx" else f' class="{kind}"'
    before = "" if not old else str(old) if new else _number(f"{anchor}L{old}", old)
    after = _number(f"{anchor}R{new}", new) if new else ""
    place = f"{anchor}R{new}" if new else f"{anchor}L{old}"
    return (
        f'<tr{shade} id="{place}"><td class="n">{before}</td><td class="n">{after}</td>'
        f'<td class="sign">{_SIGNS.get(kind, "")}</td><td class="t">{_safe(row["html"])}</td></tr>'
    )


def _beside(row: Json, anchor: str) -> str:
    left, right = _cell(row.get("left"), f"{anchor}L"), _cell(row.get("right"), f"{anchor}R")
    return f"<tr>{left}{right}</tr>"


def _cell(cell: Json | None, below: str) -> str:
    if not cell:
        return _NOBODY
    kind, place = cell["kind"], f"{below}{cell['no']}"
    number = _number(place, cell["no"])
    return f'<td class="n {kind}" id="{place}">{number}</td><td class="t {kind}">{_safe(cell["html"])}</td>'


def _number(place: str, number: int) -> str:
    return f'<a tabindex="-1" href="#{place}">{number}</a>'


def _safe(text: Any) -> str:
    """Markup as it is, and text escaped."""
    return text if isinstance(text, SafeString) else escape(str(text))
