"""What an operator decides about one worker process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROLES = ("worker", "agent_runtime", "verifier", "judge")


@dataclass(frozen=True)
class WorkerConfig:
    """`roles` narrows those that the account has, none given means all that this worker can act in.

    `setup_env` and `agent_env` name variables of this process that a phase may see.

    The control plane never learns their values, verification sees none of them, and output is
    masked with all of them.
    """

    work_dir: Path
    roles: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    wait_seconds: int = 20
    setup_env: tuple[str, ...] = ()
    agent_env: tuple[str, ...] = ()
    drain_seconds: float = 30.0
    kill_after_seconds: float = 10.0
    setup_seconds: float = 900.0

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """The named variables that are set."""
        return {name: os.environ[name] for name in names if name in os.environ}

    def secrets(self) -> list[str]:
        return list(self.variables((*self.setup_env, *self.agent_env)).values())
