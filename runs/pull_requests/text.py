"""Branch names and commit messages from words that nobody vouches for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

MAX_BRANCH = 100
MAX_SUBJECT = 100

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_TRAILER = re.compile(r"\s*(?:[A-Za-z0-9][\w-]*\s*[:=#]|\(cherry picked from)")
_TRAILER_KEY = re.compile(r"[A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")


def branch_name(run_id: str, title: str) -> str:
    """'agent/<run id>-<slug>': ASCII, at most 100 characters, a valid ref for every title.

    The run's id makes it unique; the slug is for people and may be empty.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no run id")
    stem = f"agent/{run_id.lower()}"
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[: MAX_BRANCH - len(stem) - 1].strip("-")
    return f"{stem}-{slug}" if slug else stem


def commit_message(title: str, body: str = "", trailers: Mapping[str, str] | None = None) -> str:
    """A subject of one line, the body as text, and only the trailers given here.

    A line of the body in the form of a trailer is quoted with '> ': a title or a summary
    must not sign anything off.
    """
    subject = one_line(title)[:MAX_SUBJECT].rstrip() or "Change by an agent"
    if _TRAILER.match(subject):
        subject = f"Change: {subject}"[:MAX_SUBJECT]
    lines = [_visible(line).rstrip() for line in body.splitlines()]
    text = "\n".join(f"> {line.lstrip()}" if _TRAILER.match(line) else line for line in lines)
    parts = [subject, text.strip("\n"), _trailers(trailers or {})]
    return "\n\n".join(part for part in parts if part) + "\n"


def _trailers(trailers: Mapping[str, str]) -> str:
    for key in trailers:
        if not _TRAILER_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no name of a trailer")
    return "\n".join(f"{key}: {one_line(value)}" for key, value in trailers.items())


def one_line(text: str) -> str:
    """The visible words of a text, on one line."""
    return " ".join(_visible(re.sub(r"\s", " ", text)).split())


def _visible(text: str) -> str:
    """Without controls, formatting marks and halves of surrogate pairs."""
    return "".join(c for c in text if c == "\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
