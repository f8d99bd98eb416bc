"""Geometry of the few charts; their templates only draw it. Every mark leads to what it counts.

No text is drawn: words stand beside in the page's own type, so that a phone reads them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from runs.domain.facts import Json

WIDTH: Final = 1_000
HEIGHT: Final = 140
GAP: Final = 0.22  #: of a column's width


class Column(NamedTuple):
    """One column: its name, in full and in short, where a click leads, (tone, count) from the bottom up."""

    label: str
    short: str
    href: str
    parts: Sequence[tuple[str, int]]


def columns(data: Sequence[Column]) -> Json:
    """Stacked columns for components/chart_columns.html: ``{columns, width, height, top, first, last}``."""
    top = max((sum(count for _, count in column.parts) for column in data), default=0)
    slot = WIDTH / max(len(data), 1)
    return {
        "columns": [_column(column, index * slot, slot, top) for index, column in enumerate(data)],
        "width": WIDTH,
        "height": HEIGHT,
        "top": f"{top:,}",
        "first": data[0].short if data else "",
        "last": data[-1].short if data else "",
    }


def _column(column: Column, left: float, slot: float, top: int) -> Json:
    parts, bottom = [], float(HEIGHT)
    for tone, count in column.parts:
        height = HEIGHT * count / top if top else 0
        bottom -= height
        if count:
            parts.append({"tone": tone, "y": round(bottom, 2), "height": round(height, 2)})
    return {
        "label": column.label,
        "href": column.href,
        "left": round(left, 2),
        "slot": round(slot, 2),
        "x": round(left + slot * GAP / 2, 2),
        "width": round(slot * (1 - GAP), 2),
        "parts": parts,
    }


class Bar(NamedTuple):
    """One bar: its name, its amount and how that is said, where a click leads, a muted word, a tone."""

    label: str
    value: float
    text: str
    href: str
    note: str = ""
    tone: str = ""


def bars(data: Iterable[Bar]) -> list[Json]:
    """Rows for components/chart_bars.html, each with its ``share`` of the longest, 0 to 100."""
    data = list(data)
    longest = max((bar.value for bar in data), default=0) or 1
    return [{**bar._asdict(), "share": round(100 * bar.value / longest, 1)} for bar in data]
