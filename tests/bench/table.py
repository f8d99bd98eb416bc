"""The table of figures, and the goals that each is held against."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = f"{'figure':<44} {'measured':>10} {'':<9} {'beside':>10} {'ratio':>7}  {'reach / never':<14}"


@dataclass(frozen=True)
class Line:
    """A figure, what was measured beside it in the same run, and the goals for the ratio of the two."""

    name: str
    value: float
    unit: str
    beside: float
    reach: float
    never: float
    at_most: bool = False  #: less is better

    @property
    def ratio(self) -> float:
        """The figure, of what was measured beside it."""
        return self.value / self.beside

    @property
    def verdict(self) -> str:
        """``reached``, ``held`` (not below what must never be), or ``MISSED``."""
        for goal, word in ((self.reach, "reached"), (self.never, "held")):
            if self.ratio <= goal if self.at_most else self.ratio >= goal:
                return word
        return "MISSED"

    def __str__(self) -> str:
        measured = f"{self.value:>10.1f} {self.unit:<9} {self.beside:>10.1f} {self.ratio:>7.3f}"
        goals = f"{self.reach:g} / {self.never:g}"
        return f"{self.name:<44} {measured}  {goals:<14} {self.verdict}"
