"""Secrets out of everything that leaves the worker as text.

Two nets: the values of the environment variables that were handed to a command, and the shapes of
common credentials. What is found is replaced, never reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = b"[masked]"
# Shorter values are words that occur by accident; masking them would garble the output.
SHORTEST_VALUE = 6

_SHAPES = re.compile(
    rb"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \bgh[pousr]_[A-Za-z0-9]{30,}
    | \bgithub_pat_[A-Za-z0-9_]{30,}
    | \bglpat-[A-Za-z0-9_-]{20,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bsk-[A-Za-z0-9_-]{20,}
    | \bxox[abposr]-[A-Za-z0-9-]{10,}
    | \bAIza[A-Za-z0-9_-]{35}
    | \bnpm_[A-Za-z0-9]{36}
    | \bpypi-[A-Za-z0-9_-]{50,}
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_PREFIX = re.compile(
    rb"(?i)(authorization:\s*(?:bearer|basic|token)\s+)[^\s\"']+|(://[^/\s:@]+:)[^/\s@]+(?=@)"
)


class Masker:
    """Masks bytes or text; `values` are secrets known to this worker."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first, so that a secret that contains another leaves no rest behind.
        # Line by line as well: output is also masked in pieces that end at a line.
        parts = {part for value in values for part in (value, *value.splitlines())}
        self._values = sorted(
            {part.encode() for part in parts if len(part) >= SHORTEST_VALUE}, key=len, reverse=True
        )

    def mask(self, data: bytes) -> bytes:
        for value in self._values:
            data = data.replace(value, MASK)
        data = _SHAPES.sub(MASK, data)
        return _AFTER_PREFIX.sub(lambda m: (m.group(1) or m.group(2)) + MASK, data)

    def mask_text(self, text: str) -> str:
        return self.mask(text.encode("utf-8", "replace")).decode("utf-8", "replace")
