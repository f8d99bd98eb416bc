"""How far the judge's word was borne out, and which threshold follows from it: a proposal, never a change.

What is counted are verdicts: a person's on a patch that the judge passed, or a merge or closing of one that
went out by itself. A patch that was merged and taken back later was passed wrongly, whoever approved it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: Below so many verdicts nothing is proposed.
LEAST: Final = 30
#: The normal quantile of a two-sided interval of 95 %.
Z: Final = 1.959963984540054
#: A threshold is lowered in steps of five hundredths, and never below a half: a judge that is less sure than
#: that does not say that it is right.
STEP: Final = 5
FLOOR: Final = 50
TOP: Final = 100


@dataclass(frozen=True, slots=True)
class Rate:
    """``count`` of ``total``, with the interval in which the true share lies (95 %)."""

    count: int
    total: int

    @property
    def share(self) -> float:
        """The share that was seen; 0 of nothing is 0."""
        return self.count / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval, without correction for continuity.

        E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the
        American Statistical Association 22 (1927), 209-212; as in the NIST/SEMATECH e-Handbook of Statistical
        Methods, section 7.2.4.1. It holds for few observations and for shares near 0, where the usual one
        does not.
        """
        if not self.total:
            return 0.0, 1.0
        n, share, square = self.total, self.share, Z * Z
        middle = share + square / (2 * n)
        half = Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
        whole = 1 + square / n
        return max((middle - half) / whole, 0.0), min((middle + half) / whole, 1.0)

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.count + other.count, self.total + other.total)


#: Hundredths of the judge's confidence → how many verdicts said that it was wrong, of how many.
History = Mapping[int, Rate]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Another threshold. ``evidence``: wrong verdicts of those that speak for it; ``raises``: it gets
    stricter."""

    threshold: float
    evidence: Rate
    raises: bool


def propose(history: History, *, threshold: float, tolerated: float) -> Proposal | None:
    """The threshold that the verdicts speak for, or None.

    Raised, where it is certain (95 %) that more than ``tolerated`` of what passes today's threshold is
    wrong: to the lowest one above which no more than that was. Lowered, step by step, where it is certain
    that of what would newly go out by itself no more than that is wrong, and no step on the way shows more.
    """
    now = math.ceil(round(threshold * TOP, 6))
    above = _above(history, now)
    if _all(history.values()).total < LEAST:
        return None
    if above.total >= LEAST and above.interval[0] > tolerated:
        return _raised(history, now, tolerated)
    return _lowered(history, now, tolerated) if above.share <= tolerated else None


def _raised(history: History, now: int, tolerated: float) -> Proposal | None:
    for hundredths in range(now + 1, TOP):
        found = _above(history, hundredths)
        if found.total < LEAST:
            break
        if found.share <= tolerated:
            return Proposal(hundredths / TOP, found, raises=True)
    if now >= TOP:  # there is no higher one: auto_pr is to be switched off, which is no threshold
        return None
    return Proposal(1.0, _above(history, now), raises=True)


def _lowered(history: History, now: int, tolerated: float) -> Proposal | None:
    found, pooled = None, Rate(0, 0)
    for low in range(now - STEP, FLOOR - 1, -STEP):
        step = _all(rate for hundredths, rate in history.items() if low <= hundredths < low + STEP)
        if not step.total:
            continue
        if step.share > tolerated:
            break
        pooled += step
        if pooled.total >= LEAST and pooled.interval[1] <= tolerated:
            found = Proposal(low / TOP, pooled, raises=False)
    return found


def _above(history: History, hundredths: int) -> Rate:
    return _all(rate for sure, rate in history.items() if sure >= hundredths)


def _all(rates: Iterable[Rate]) -> Rate:
    return sum(rates, Rate(0, 0))
