"""Claude Code and Codex as presets of `command`: their command lines, and what their streams say.

Formats are parsed as far as they are documented, and no further:

- Claude Code, `claude -p --output-format stream-json --verbose`: "Headless mode, streaming JSON output"
  in Anthropic's documentation, and SDKResultMessage of its Agent SDK 0.1.
- Codex, `codex exec --json`: "Non-interactive mode, JSON output mode" (docs/exec.md at 187a11a1e4a9) and
  codex-rs/exec/src/exec_events.rs at 08a1f30ca23f, in openai/codex.

A line that is none of these is left alone. Where a stream says no cost, the cost is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from worker.agents.job import AgentFailure, Invocation, Job, common_environment
from worker.client.protocol import Json

PRESETS = ("claude", "codex")
MOST_SAID = 20_000
_CLAUDE_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass
class Told:
    """What a stream told: the last word, the steps in short, and the usage as far as it is known."""

    words: str = ""
    steps: list[str] = field(default_factory=list)
    cost_usd: Decimal | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    failed: str = ""
    model: str = ""


def invoke_preset(job: Job, prompt: str) -> Invocation:
    """Raises AgentFailure for a preset that this worker does not know."""
    lines = {"claude": _claude_line, "codex": _codex_line}
    if job.preset not in lines:
        raise AgentFailure(f"this worker knows no preset {job.preset!r}, only {', '.join(sorted(lines))}")
    return Invocation(
        argv=[*lines[job.preset](job), *job.options],
        environment=common_environment(job),
        stdin=prompt.encode("utf-8", "replace"),
    )


def read_stream(preset: str, output: bytes) -> Told:
    """The stream of a finished call; lines that are cut or no JSON are passed over."""
    told = Told()
    read = {"claude": _claude_event, "codex": _codex_event}[preset]
    for event in _events(output.splitlines()):
        try:
            read(told, event)
        except (AttributeError, KeyError, TypeError, ValueError):
            # Another version than documented: what it says is not guessed at.
            continue
    return told


def _claude_line(job: Job) -> list[str]:
    """The sandbox is the wall here, so nobody has to be asked before each edit."""
    model = ["--model", job.model] if job.model else []
    flags = ["--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]
    return ["claude", "-p", *flags, *model]


def _codex_line(job: Job) -> list[str]:
    # The checkout holds no .git, which codex would ask for; `-` reads the prompt from standard input.
    model = ["--model", job.model] if job.model else []
    return ["codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", *model, "-"]


def _events(lines: Iterable[bytes]) -> Iterator[Json]:
    for line in lines:
        if line.startswith(b"{"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _claude_event(told: Told, event: Json) -> None:
    if event["type"] == "assistant":
        for block in event["message"]["content"]:
            if block["type"] == "tool_use":
                told.steps.append(_step(block["name"], block["input"]))
        told.model = str(event["message"].get("model") or told.model)
    elif event["type"] == "result":
        told.words = str(event.get("result") or told.words)[:MOST_SAID]
        told.cost_usd = _money(event.get("total_cost_usd"))
        usage = event.get("usage") or {}
        told.input_tokens = _sum(
            usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
        )
        told.output_tokens = _sum(usage, "output_tokens")
        if event.get("is_error") or event.get("subtype") != "success":
            told.failed = str(event.get("result") or event.get("subtype") or "error")[:500]


def _codex_event(told: Told, event: Json) -> None:
    kind = event["type"]
    if kind == "item.completed":
        _codex_item(told, event["item"])
    elif kind == "turn.completed":
        told.input_tokens = (told.input_tokens or 0) + int(event["usage"]["input_tokens"])
        told.output_tokens = (told.output_tokens or 0) + int(event["usage"]["output_tokens"])
    elif kind == "turn.failed":
        told.failed = str(event["error"]["message"])[:500]
    elif kind == "error":
        told.failed = str(event["message"])[:500]


def _codex_item(told: Told, item: Json) -> None:
    if item["type"] == "agent_message":
        told.words = str(item["text"])[:MOST_SAID]
    elif item["type"] == "command_execution":
        told.steps.append(_step("command", {"command": item["command"]}))
    elif item["type"] == "file_change":
        told.steps += [_step(change["kind"], {"path": change["path"]}) for change in item["changes"]]


def _step(name: str, arguments: Any) -> str:
    first = next((str(value) for value in arguments.values()), "") if isinstance(arguments, dict) else ""
    return " ".join(f"{name} {first}".split())[:200]


def _money(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        cost = Decimal(str(value))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and cost >= 0 else None


def _sum(usage: Json, *names: str) -> int | None:
    found = [usage[name] for name in names if isinstance(usage.get(name), int)]
    return sum(found) if found else None
