"""Claude Code and Codex: what their documented streams say, and nothing that they do not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from worker.agents import AgentFailure, Job, invoke
from worker.agents.presets import read_stream
from worker.conformance.stand_in import StandIn

CLAUDE: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "session_id": "s"},
    {"type": "assistant", "message": {"model": "claude-opus", "content": [
        {"type": "text", "text": "I edit."},
        {"type": "tool_use", "name": "Edit", "input": {"file_path": "notes.txt"}}]}},
    {"type": "result", "subtype": "success", "is_error": False, "result": "Replaced the word.",
     "total_cost_usd": 0.0421,
     "usage": {"input_tokens": 3, "cache_read_input_tokens": 40, "output_tokens": 9}},
]  # fmt: skip
CODEX: list[dict[str, Any]] = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.completed", "item": {"type": "command_execution", "command": "ls", "exit_code": 0}},
    {"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "a", "kind": "update"}]}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "Replaced the word."}},
    {"type": "turn.completed", "usage": {"input_tokens": 50, "cached_input_tokens": 40, "output_tokens": 9}},
]


def stream(events: list[dict[str, Any]]) -> bytes:
    return b"warning: no json\n" + b"".join(json.dumps(event).encode() + b"\n" for event in events)


def job(**more: Any) -> Job:
    first = {"command": None, "instruction": "Do", "instructions": (), "feedback": None, "hints": None}
    return Job(**{**first, "attempt": 1, "repair": 0, **more})


def test_claude_tells_steps_words_tokens_and_cost() -> None:
    told = read_stream("claude", stream(CLAUDE))
    assert told.steps == ["Edit notes.txt"]
    assert (told.words, told.cost_usd) == ("Replaced the word.", Decimal("0.0421"))
    assert (told.input_tokens, told.output_tokens, told.model) == (43, 9, "claude-opus")
    assert not told.failed


def test_codex_tells_no_cost_and_none_is_invented() -> None:
    told = read_stream("codex", stream(CODEX))
    assert told.steps == ["command ls", "update a"]
    assert (told.words, told.cost_usd, told.input_tokens) == ("Replaced the word.", None, 50)


@pytest.mark.parametrize(
    ("preset", "event"),
    [
        ("claude", {"type": "result", "subtype": "error_max_turns", "is_error": True}),
        ("codex", {"type": "turn.failed", "error": {"message": "out of quota"}}),
        ("codex", {"type": "error", "message": "stream broke"}),
    ],
)
def test_a_stream_that_ends_in_failure_says_so(preset: str, event: dict[str, Any]) -> None:
    assert read_stream(preset, stream([event])).failed


@pytest.mark.parametrize("preset", ["claude", "codex"])
def test_another_format_is_passed_over_and_not_guessed_at(preset: str) -> None:
    strange: list[Any] = [
        {}, {"type": None}, {"type": "assistant"}, {"type": "assistant", "message": {"content": 3}},
        {"type": "result", "total_cost_usd": "NaN", "subtype": "success"},
        {"type": "item.completed", "item": []},
        {"type": "turn.completed", "usage": {}},
    ]  # fmt: skip
    told = read_stream(preset, stream(strange) + b'{"cut": ')
    assert (told.cost_usd, told.steps) == (None, [])


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(AgentFailure, match="claude, codex"):
        invoke("command", job(preset="cursor"))


def test_a_preset_runs_with_its_flags_and_its_stream_becomes_events(
    plane: StandIn, work: Callable[..., None], contract: dict[str, Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    (tmp_path / "stream").write_bytes(stream(CLAUDE))
    edit = 'echo "$@" > args.txt; cat > prompt.txt; sed -i s/two/three/ notes.txt'
    program.write_text(f"#!/bin/sh\n{edit}\ncat {tmp_path}/stream\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    contract["agent"] = {
        "kind": "command",
        "preset": "claude",
        "model": "opus",
        "options": ["--max-turns", "9"],
    }
    work()
    assert plane.state.status == "SUCCEEDED"
    patch = plane.stored("patch")[0].decode()
    flags = (
        "-p --output-format stream-json --verbose --permission-mode acceptEdits --model opus --max-turns 9"
    )
    assert f"+{flags}\n" in patch
    decisions = plane.payloads("model_decision")
    assert [decision["decision"] for decision in decisions] == ["tool", "final"]
    assert decisions[1]["cost_usd"] == "0.0421"
    assert plane.payloads("patch_created")[0]["summary"] == "Replaced the word."
