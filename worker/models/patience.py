"""How long a model is waited for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelPatience:
    """How long one answer is waited for, how long a busy provider is asked again, and the pauses between
    (lifecycle contract, section 8: a 429 or 529 is backed off inside the step). Seconds."""

    answer: float = 600.0
    busy: float = 900.0
    first_wait: float = 2.0
    longest_wait: float = 60.0
