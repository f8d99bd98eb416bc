"""What an operator decides about one worker process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worker.models.patience import ModelPatience
from worker.sandbox.isolation import Isolation
from worker.sandbox.process import Limits

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
ROLES = ("worker", "agent_runtime", "verifier", "judge")


@dataclass(frozen=True)
class WorkerConfig:
    """`roles` narrows those that the account has, none given means all that this worker can act in.

    `setup_env` and `agent_env` name variables of this process that a phase may see.

    The control plane never learns their values, verification sees none of them, and output is
    masked with all of them. `model` is asked where a contract names none, `judge_model` by
    the judge; keys of models stay with the worker, and no phase sees them.
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
    isolation: Isolation = field(default_factory=Isolation)
    limits: Limits = field(default_factory=Limits)
    model: str = ""
    judge_model: str = ""
    model_patience: ModelPatience = field(default_factory=ModelPatience)

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """The named variables that are set."""
        return {name: os.environ[name] for name in names if name in os.environ}

    def secrets(self) -> list[str]:
        """Values that must show nowhere: of the named variables, and of all that are named like secrets."""
        named = self.variables((*self.setup_env, *self.agent_env)).values()
        alike = (value for name, value in os.environ.items() if _SECRET_NAME.search(name))
        return [*named, *alike]
