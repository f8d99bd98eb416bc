"""The reference, written by the code that it describes: what the code does not say cannot stand in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from agentplatform.documents import api, commands, errors, events, lifecycle, rules, settings
from runs.api.schema import openapi_text


def pages() -> dict[str, str]:
    """Every generated file, by its path below ``docs/``: for the same code, the same text everywhere."""
    return {
        "reference/lifecycle.md": lifecycle.page(),
        "reference/events.md": events.page(),
        "reference/guards.md": rules.guards_page(),
        "reference/policy.md": rules.policy_page(),
        "reference/api.md": api.page(),
        "reference/errors.md": errors.page(),
        "reference/settings.md": settings.page(),
        "reference/commands.md": commands.page(),
        "openapi.yaml": openapi_text(),
    }


def write(docs: Path) -> None:
    """Put every page in its place, and take away what is generated no longer."""
    for name, text in pages().items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text)
    for left_over in _left_over(docs):
        (docs / left_over).unlink()


def differences(docs: Path) -> str:
    """What is written there against what the code says, as a unified diff; empty when they agree."""
    lines: list[str] = []
    for name, text in pages().items():
        path = docs / name
        written = path.read_text() if path.exists() else ""
        lines += difflib.unified_diff(
            written.splitlines(), text.splitlines(), f"docs/{name}", f"docs/{name} (generated)", lineterm=""
        )
    lines += [f"docs/{name} is generated no longer" for name in _left_over(docs)]
    return "\n".join(lines)


def _left_over(docs: Path) -> Iterator[str]:
    known = pages()
    for path in sorted((docs / "reference").glob("**/*")):
        name = path.relative_to(docs).as_posix()
        if path.is_file() and name not in known:
            yield name
