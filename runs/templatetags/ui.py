"""What the templates need beyond ready strings: icons, times, amounts, the current section.

Lists get their strings from a selector; these serve pages that show one thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from runs.domain.facts import Json
from runs.selectors import attention
from runs.selectors.diff.table import rows_markup

register = template.Library()

KIB = 1024
COUNT_SHOWN_UP_TO = 99
WHOLE_NUMBERS_FROM = 10


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """One drawing of components/icons.html; silent to screen readers unless it has a label."""
    if label:
        return format_html(
            '<svg class="icon" role="img" aria-label="{}"><use href="#i-{}"/></svg>', label, name
        )
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def diff_rows(rows: Iterable[Json], anchor: str) -> SafeString:
    """Lines of a difference as rows of its table."""
    return rows_markup(rows, anchor)


@register.simple_tag(takes_context=True)
def nav_link(context: Mapping[str, Any], url_name: str, label: str, count: int = 0) -> SafeString:
    """A link of the top navigation, marked as current on its page and on all below it."""
    href = reverse(url_name)
    path = getattr(context.get("request"), "path", "")
    here = path == href if url_name == "home" else path.startswith(href)
    return format_html(
        '<a href="{}"{}>{}{}</a>',
        href,
        SafeString(' aria-current="page"') if here else "",
        label,
        count_badge(count) if count else "",
    )


@register.simple_tag
def count_badge(count: int) -> SafeString:
    """A number beside a word; above 99 it only says so, and keeps its width."""
    return format_html(
        ' <span class="count">{}</span>', count if count <= COUNT_SHOWN_UP_TO else f"{COUNT_SHOWN_UP_TO}+"
    )


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """A time, exact in UTC; the script shows it relative and keeps the exact one as its title."""
    if value is None:
        return "never"
    return format_html('<time datetime="{}" data-relative>{}</time>', iso(value), exact(value))


@register.filter
def iso(value: datetime) -> str:
    """``2026-07-03T10:20:30Z``."""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@register.filter
def exact(value: datetime) -> str:
    """``2026-07-03 10:20:30 UTC``."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def duration(value: timedelta | float | None) -> str:
    """A length of time in at most two units: ``48 s``, ``3 min 12 s``, ``2 h``, ``4 d 6 h``."""
    if value is None:
        return "–"
    seconds = int(value.total_seconds() if isinstance(value, timedelta) else value)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


@register.filter
def size(value: int | None) -> str:
    """Bytes for people: ``512 B``, ``4.2 KiB``, ``64 MiB``."""
    if value is None:
        return "–"
    if value < KIB:
        return f"{value} B"
    amount = float(value)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= KIB
        if amount < KIB or unit == "GiB":
            break
    return f"{amount:.0f} {unit}" if amount >= WHOLE_NUMBERS_FROM else f"{amount:.1f} {unit}"


@register.filter
def money(value: Decimal | float | str | None) -> str:
    """US dollars, to the cent; an amount below one is not rounded to nothing; unknown is a dash."""
    if value is None:
        return "–"
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return "–"
    if 0 < amount < Decimal("0.01"):
        return "< $0.01"
    return f"${amount.quantize(Decimal('0.01'), ROUND_HALF_UP):,}"


@register.filter
def failing(guards: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Guards that did not pass: the failed first, then the unknown."""
    rest = [guard for guard in guards if guard["passed"] is not True]
    return sorted(rest, key=lambda guard: guard["passed"] is None)


@register.filter
def passing(guards: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Guards that passed, in their order."""
    return [guard for guard in guards if guard["passed"] is True]


@register.simple_tag
def needs_attention() -> dict[str, Any]:
    """``{items, checked}`` for the first page of the admin."""
    return {"items": attention.attention(), "checked": attention.last_check()}
