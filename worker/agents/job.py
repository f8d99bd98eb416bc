"""What an agent is told, and what it answers with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.client.protocol import Instruction


class AgentFailure(Exception):  # noqa: N818  named by what happened
    """The contract's agent cannot be run as it is written."""


@dataclass(frozen=True)
class Job:
    """One call of an agent. `feedback` is what the verifier, the judge or a reviewer said."""

    command: Any
    instruction: str
    instructions: Sequence[Instruction]
    feedback: Any
    hints: Any
    attempt: int
    repair: int
    preset: str = ""
    model: str = ""
    options: Sequence[str] = ()
    instruction_file: Path = Path(os.devnull)
    feedback_file: Path = Path(os.devnull)
    report_file: Path = Path(os.devnull)


#: Bytes.
MOST_IN_VARIABLE = 100_000


@dataclass(frozen=True)
class Invocation:
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""


def command_argv(command: Any) -> list[str]:
    """A shell line, or a list of program and arguments. Raises AgentFailure."""
    if isinstance(command, str) and command.strip():
        return ["/bin/sh", "-c", command]
    if isinstance(command, list) and command and all(isinstance(part, str) for part in command):
        return command
    raise AgentFailure("the contract's agent has no command")


def common_environment(job: Job) -> dict[str, str]:
    return {
        # Linux takes 128 KiB for a variable; the file has all of it.
        "AGENT_INSTRUCTION": job.instruction.encode()[:MOST_IN_VARIABLE].decode(errors="ignore"),
        "AGENT_INSTRUCTION_FILE": str(job.instruction_file),
        "AGENT_FEEDBACK_FILE": str(job.feedback_file),
        "AGENT_REPORT_FILE": str(job.report_file),
        "AGENT_ATTEMPT": str(job.attempt),
        "AGENT_REPAIR": str(job.repair),
    }


def as_text(value: Any) -> str:
    """Feedback as the agent reads it: text as it is, anything else as JSON; nothing as nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
