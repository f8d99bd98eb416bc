"""Ready strings: times, amounts, sizes. Templates print them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from runs.domain.display import Display
from runs.domain.facts import Json, moment
from runs.domain.times import spell
from runs.domain.vocabulary import Risk

KIB: Final = 1024


def when(at: datetime | str | None) -> Json | None:
    """``{iso, exact}`` of a moment or stamp; None for none."""
    if not at:
        return None
    value = (moment(at) if isinstance(at, str) else at).astimezone(UTC)
    return {"iso": f"{value:%Y-%m-%dT%H:%M:%SZ}", "exact": f"{value:%Y-%m-%d %H:%M:%S} UTC"}


def money(value: Any) -> str:
    """US dollars to the cent; a fraction of a cent is not nothing."""
    amount = Decimal(str(value or 0))
    return "< $0.01" if 0 < amount < Decimal("0.01") else f"${amount:,.2f}"


def worked(seconds: float) -> str:
    """A length of work beside its limit: ``12 s``, ``14 min``, ``2 h``, ``2 h 5 min``."""
    return spell(timedelta(seconds=seconds))


def size(count: int) -> str:
    """Bytes for people."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < KIB:
            break
        amount, unit = amount / KIB, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"  # noqa: PLR2004


def risk_badge(risk: str) -> Json:
    """``{text, tone}`` of a risk level."""
    level = Risk(risk or Risk.LOW)
    return {
        "text": f"{level.label.lower()} risk",
        "tone": "warn" if level.rank >= Risk.HIGH.rank else "quiet",
    }


def told_risk(contract: Mapping[str, Any], effective: str) -> Json:
    """``{level, why}``: the risk in force; ``effective`` is the latest run's, "" before the first one."""
    asked, risk = Risk(contract["risk_level"]), Risk(effective or contract["risk_level"])
    if risk.rank > asked.rank:
        why = f"raised from {asked.label.lower()}: the patch touches risky paths of the policy"
    elif risk.rank >= Risk.HIGH.rank:
        why = "as asked for: plan and patch are approved by a person"
    else:
        why = "as asked for; high as soon as a patch touches risky paths of the policy"
    return {"level": risk.value, "why": why}


def lowered(display: Json) -> Json:
    """The display as pages show it: the step follows the title, in lower case, unless it repeats it."""
    step = "" if display["state"] == Display.NEEDS_REVIEW else display.get("step") or ""
    return {**display, "step": step[:1].lower() + step[1:]}


def joined(*parts: str) -> str:
    """The parts that are not empty, with a middle dot between."""
    return " · ".join(part for part in parts if part)


def named(names: Sequence[str], limit: int = 3) -> str:
    """The first of the names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def brief_id(row_id: str) -> str:
    """``run_01JZ8…X4K4``: enough to tell two apart."""
    return f"{row_id[:9]}…{row_id[-4:]}" if len(row_id) > 16 else row_id  # noqa: PLR2004
