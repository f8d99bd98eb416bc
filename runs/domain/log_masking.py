"""Secrets in output that arrives in pieces: replaced byte for byte, so that every offset stays right."""

from __future__ import annotations

import re
from typing import Final

from runs.domain.secrets import REDACTED, secret_spans

#: How far before new bytes a secret may have begun: a private key of 8,192 bits is shorter.
LOOK_BACK: Final = 1 << 13
_FILLER: Final = "*"
_RUNS: Final = re.compile(rb"\[redacted\]\**(?:\n\*{1,9}(?=\n))*")
# The marks of a key stay: by them its later lines are known.
_KEY: Final = re.compile(r"-----BEGIN [^-]*-----(.*?)(?:-----END [^-]*-----)?", re.DOTALL)
# What tokens are made of; dots only inside, or a row of them (a progress bar) would be held back.
_WORD: Final = re.compile(rb"[A-Za-z0-9+/=_-]+(?:\.[A-Za-z0-9+/=_-]+)*\.?\Z")


def mask_bytes(data: bytes) -> bytes:
    """``data`` with every secret replaced by as many other bytes; the same object where there is none."""
    text = data.decode("latin-1")  # one character for each byte: secrets are ASCII
    spans = secret_spans(text)
    if not spans:
        return data
    pieces, done = [], 0
    for span in spans:
        key = _KEY.fullmatch(text, *span)
        start, end = key.span(1) if key else span
        begin = max(start, done)
        if end > begin:
            pieces += [text[done:begin], "\n".join(map(_filler, text[begin:end].split("\n")))]
            done = end
    return "".join([*pieces, text[done:]]).encode("latin-1")


def is_same(stored: bytes, sent: bytes, start: int, end: int) -> bool:
    """Whether ``sent`` is what was stored from ``start`` to ``end`` of ``stored``, but for what was masked.

    ``stored`` reaches beyond both, as far as there is anything.
    """
    here = bytearray(stored[start:end])
    if len(here) != len(sent):
        return False
    for run in _RUNS.finditer(stored):
        first, last = max(run.start(), start) - start, min(run.end(), end) - start
        if first < last:
            here[first:last] = sent[first:last]
    return bytes(here) == sent


def unfinished_word(data: bytes) -> int:
    """How many bytes at the end may be the first half of a secret; 0 where ``data`` is nothing else."""
    found = _WORD.search(data, max(len(data) - LOOK_BACK, 0))
    return len(found.group()) if found and len(found.group()) < LOOK_BACK else 0


def _filler(line: str) -> str:
    return (REDACTED if len(line) >= len(REDACTED) else "").ljust(len(line), _FILLER)
