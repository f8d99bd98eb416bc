"""Times in words: the clock in UTC, and lengths of time."""

from __future__ import annotations

from datetime import timedelta

from runs.domain.facts import moment


def clock(stamp: str, *, now: str = "") -> str:
    """``10:02 UTC``, with the date where it is another day than ``now``'s."""
    at = moment(stamp)
    other_day = now and moment(now).date() != at.date()
    return f"{at:%H:%M} UTC on {at:%d %b}" if other_day else f"{at:%H:%M} UTC"


def spell(length: timedelta) -> str:
    """A length of time in one unit, or two from an hour up: ``48 s``, ``4 min``, ``2 h 5 min``, ``3 d``.

    Seconds below two minutes: "1 min" would stand for anything up to two.
    """
    seconds = max(int(length.total_seconds()), 0)
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        rest = hours - 24 * days
        return f"{days} d {rest} h" if rest and days < 7 else f"{days} d"  # noqa: PLR2004
    if hours:
        rest = minutes - 60 * hours
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{minutes} min"
