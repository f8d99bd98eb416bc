"""A run's state as its events tell it, and what an event writes beside it. JSON only."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Final

from runs.domain.facts import Json
from runs.domain.vocabulary import TERMINAL, Directive, RunStatus


@dataclass(slots=True)
class RunState:
    """One run as its events tell it. Times are stamps (UTC), money is decimal text (USD)."""

    id: str = ""
    task_id: str = ""
    repository_id: str = ""
    attempt_no: int = 0
    completion_mode: str = ""
    risk_level: str = ""
    priority: int = 5
    status: str = ""
    sequence: int = 0
    log_bytes: int = 0  #: of all payloads and facts so far, as JSON
    fence: int = 0
    directive: str = Directive.CONTINUE.value
    directive_info: Json | None = None  #: {reason, by, at, seen_at}
    holder: Json | None = None  #: {lease_id, worker_id, worker_name, roles, since, progressed}
    worker_id: str = ""
    worker_name: str = ""
    worker_version: str = ""
    isolation: str = ""
    sandbox_id: str = ""
    base_commit: str = ""
    instruction_no: int = 1
    hints: list[str] = field(default_factory=list)
    attempt: Json | None = None  #: the open attempt with its counters
    attempts_started: int = 0
    attempts_failed: int = 0
    attempts_aborted: int = 0
    used: Json = field(
        default_factory=lambda: {
            "cost_usd": "0",
            "unknown_costs": 0,  # model decisions that nobody knows the cost of
            "steps": 0,
            "tool_calls": 0,
            "outside_writes": 0,
            "takeovers": 0,
            "repairs": 0,
            "active_seconds": 0.0,
        }
    )
    budget: Json = field(default_factory=dict)  #: the limits in force for this run
    raised: Json = field(default_factory=dict)  #: limits but money that a person raised; later runs keep them
    active_since: str = ""
    plan: Json | None = None
    rejected_plans: list[str] = field(default_factory=list)
    patch: Json | None = None
    report: Json | None = None
    verification: Json | None = None
    judgement: Json | None = None
    red_base_asked: bool = False  #: a person was asked about checks that fail on the untouched base
    checkpoint: Json | None = None
    feedback: Json | None = None  #: {source, text, artifact_id}
    pending: dict[str, Json] = field(default_factory=dict)
    operations: list[Json] = field(default_factory=list)
    unsaved: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    gate: Json | None = None
    guards: list[Json] = field(default_factory=list)
    waivers: dict[str, Json] = field(default_factory=dict)
    effective_risk: str = ""
    policy_version: str = ""
    pull_request: Json | None = None
    pr_begun: bool = False  #: the git integration has held it: an ending needs reconciling first
    pr_failures: int = 0
    not_before: str = ""
    idle_since: str = ""  #: since when nobody holds it; a remark by somebody is no reason to wait longer
    failure: Json | None = None
    expiration: Json | None = None
    cancel_reason: str = ""
    cleanup: Json | None = None
    verdict: Json | None = None
    retry: Json | None = None
    model: str = ""
    provider: str = ""
    output_summary: str = ""
    created_at: str = ""
    queued_at: str = ""
    started_at: str = ""
    updated_at: str = ""
    progress_at: str = ""  #: the last event of the holder itself; a heartbeat is not progress
    status_since: str = ""
    completed_at: str = ""

    @property
    def run_status(self) -> RunStatus:
        """The status as a word of the vocabulary."""
        return RunStatus(self.status)

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self.status in TERMINAL

    def to_json(self) -> Json:
        """All of it as JSON."""
        return {name: copied(getattr(self, name)) for name in _NAMES}

    def copy(self) -> RunState:
        """A state of its own: nothing inside is shared."""
        return RunState(**self.to_json())

    @classmethod
    def from_json(cls, data: Json) -> RunState:
        """The state that ``to_json`` wrote; fields of another version are left out or take their default."""
        return cls(**{name: value for name, value in data.items() if name in _NAMES})


_NAMES: Final = frozenset(f.name for f in fields(RunState))


def copied(value: Any) -> Any:
    """JSON copied through and through; the standard library's way takes five times as long."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


@dataclass(slots=True)
class Changes:
    """What an event writes beside the state: attempt number → columns, operation id → columns."""

    attempts: dict[int, Json] = field(default_factory=dict)
    steps: dict[str, Json] = field(default_factory=dict)

    def attempt(self, number: int, **columns: Any) -> None:
        """Set columns of an attempt."""
        self.attempts.setdefault(number, {}).update(columns)

    def step(self, operation_id: str, **columns: Any) -> None:
        """Set columns of a step."""
        self.steps.setdefault(operation_id, {}).update(columns)

    def update(self, later: Changes) -> None:
        """Lay later changes over these."""
        for number, columns in later.attempts.items():
            self.attempt(number, **columns)
        for operation_id, columns in later.steps.items():
            self.step(operation_id, **columns)


def plain(amount: Decimal) -> str:
    """Decimal text without an exponent."""
    return f"{amount:f}"
