"""What a contract makes a worker run, as people read it before they agree to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runs.domain.agents import agent_line
from runs.domain.facts import Json
from runs.selectors.diff import visible
from runs.selectors.words import worked

#: What is shown of one command unasked; the rest stands behind "the whole command".
LINES: Final = 12
CHARACTERS: Final = 800

_GIVEN: Final = {
    "script": "a shell line, run in the checkout",
    "command": "gets the prompt on its standard input",
    "model": "the worker's own loop",
}


def contract_commands(contract: Mapping[str, Any]) -> list[Json]:
    """``[{title, note, html, whole, size}]``: setup, agent, verifiers, as they will run. No query.

    ``html`` is escaped, with invisible characters made visible; ``whole`` is "" unless ``html`` was cut.
    """
    return [_shown(title, note, command) for title, note, command in _commands(contract)]


def _commands(contract: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for command in contract["setup"]:
        yield "Setup", "before the agent, with network access", command
    agent = contract["agent"]
    yield f"Agent, {agent['kind']}", _agent_note(contract), agent_line(agent)
    for verifier in contract["verifiers"]:
        limit = f"at most {worked(verifier['timeout_seconds'])}" if "timeout_seconds" in verifier else ""
        yield f"Verifier {verifier['name']}", limit, verifier["command"]


def _agent_note(contract: Mapping[str, Any]) -> str:
    folder = contract["working_directory"]
    return ", ".join(
        filter(None, (_GIVEN.get(contract["agent"]["kind"], ""), f"in {folder}" if folder else ""))
    )


def _shown(title: str, note: str, command: str) -> Json:
    lines = command.strip().split("\n")
    head = "\n".join(lines[:LINES])[:CHARACTERS]
    is_cut = len(head) < len(command.strip())
    return {
        "title": title,
        "note": note,
        "html": visible(f"{head} …" if is_cut else head),
        "whole": visible(command) if is_cut else "",
        "size": f"{len(lines):,} lines" if len(lines) > 1 else f"{len(command):,} characters",
    }
