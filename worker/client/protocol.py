"""The shapes of the REST contract as a worker sees them.

Parsing is lenient towards fields that are added later and strict about those the worker needs:
a missing one raises `BadAnswer` with its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from worker.client.errors import BadAnswer

Json = dict[str, Any]

#: What keeps an agent apart from this machine: a process group with limits, and nothing more.
ISOLATION = "process"

CONTINUE, PAUSE, WIND_DOWN, CANCEL = "continue", "pause", "wind_down", "cancel"


@dataclass(frozen=True)
class Lease:
    """The right to move one run. The token never shows in a repr."""

    id: str
    token: str = field(repr=False)
    fence: int
    run_id: str
    acquired_at: datetime
    expires_at: datetime
    heartbeat_interval_seconds: float

    @property
    def seconds(self) -> float:
        """How long it lives without a heartbeat, by the server's clock alone."""
        return max(1.0, (self.expires_at - self.acquired_at).total_seconds())

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Lease:
        return cls(
            id=need(data, "id"),
            token=need(data, "token"),
            fence=int(need(data, "fence")),
            run_id=need(data, "run_id"),
            acquired_at=instant(need(data, "acquired_at")),
            expires_at=instant(need(data, "expires_at")),
            heartbeat_interval_seconds=float(need(data, "heartbeat_interval_seconds")),
        )


@dataclass(frozen=True)
class Artifact:
    """Bytes kept by the control plane: `{id, sha256, size}`."""

    id: str
    sha256: str
    size: int

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Artifact:
        return cls(id=need(data, "id"), sha256=need(data, "sha256"), size=int(need(data, "size")))


@dataclass(frozen=True)
class Verifier:
    name: str
    command: str
    timeout_seconds: float = 900.0


@dataclass(frozen=True)
class Contract:
    """What, where, how it is checked. Only the parts a worker acts on."""

    title: str
    instruction: str
    completion_mode: str
    working_directory: str
    setup: tuple[str, ...]
    verifiers: tuple[Verifier, ...]
    allowed_paths: tuple[str, ...]
    forbidden_paths: tuple[str, ...]
    agent: Json
    timeouts: Json

    @property
    def wants_analysis(self) -> bool:
        return self.completion_mode == "analysis_report_created"

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Contract:
        return cls(
            title=str(data.get("title") or ""),
            instruction=str(data.get("instruction") or ""),
            completion_mode=str(data.get("completion_mode") or "pr_created"),
            working_directory=str(data.get("working_directory") or ""),
            setup=tuple(_command(item) for item in data.get("setup") or ()),
            verifiers=tuple(_verifier(item) for item in data.get("verifiers") or ()),
            allowed_paths=tuple(data.get("allowed_paths") or ()),
            forbidden_paths=tuple(data.get("forbidden_paths") or ()),
            agent=dict(data.get("agent") or {}),
            timeouts=dict(data.get("timeouts") or {}),
        )


@dataclass(frozen=True)
class Repository:
    name: str
    url: str
    base_branch: str

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Repository:
        return cls(
            name=str(data.get("name") or ""),
            url=need(data, "url"),
            base_branch=str(data.get("base_branch") or "main"),
        )


@dataclass(frozen=True)
class Instruction:
    number: int
    text: str


@dataclass(frozen=True)
class Resume:
    """What is needed to begin or go on with a run, wherever it stands."""

    contract: Contract
    repository: Repository
    policy: Json
    attempt: int
    repairs: int
    instruction: int
    instructions: tuple[Instruction, ...]
    pending: tuple[Json, ...]
    operations: tuple[Json, ...]  #: outside operations that are done, with their results: never repeat one
    lost: tuple[Json, ...]
    checkpoint: Artifact | None
    plan: Artifact | None
    patch: Artifact | None
    verification_report: Artifact | None
    feedback: Any
    hints: Any
    attempt_used: Json = field(default_factory=dict)
    budget_limit: Json = field(default_factory=dict)
    budget_used: Json = field(default_factory=dict)

    def timeout(self, scope: str, default: float) -> float:
        """A limit in seconds: the contract's where it is the stricter, the policy's otherwise."""
        limits = (self.contract.timeouts.get(scope), (self.policy.get("timeouts") or {}).get(scope))
        return min((float(limit) for limit in limits if limit), default=default)

    def instruction_in_force(self) -> str:
        """The words of the instruction this run works on."""
        by_number = {item.number: item.text for item in self.instructions}
        return by_number.get(self.instruction) or self.contract.instruction

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Resume:
        task = need(data, "task")
        number, repairs = _attempt(data.get("attempt"))
        instructions = _instructions(data.get("instructions") or ())
        budget = data.get("budget") or {}
        return cls(
            contract=Contract.parse({"title": task.get("title"), **need(task, "contract")}),
            repository=Repository.parse(need(data, "repository")),
            policy=dict(data.get("policy") or {}),
            attempt=number,
            repairs=repairs,
            instruction=_number(data.get("instruction"), default=1),
            instructions=instructions,
            pending=tuple(data.get("pending") or ()),
            operations=tuple(data.get("operations") or ()),
            lost=tuple(data.get("lost") or ()),
            checkpoint=_artifact(data.get("checkpoint")),
            plan=_artifact(data.get("plan")),
            patch=_artifact(data.get("patch")),
            verification_report=_artifact(data.get("verification_report")),
            feedback=data.get("feedback") or None,
            hints=data.get("hints") or None,
            attempt_used=_used(data.get("attempt")),
            budget_limit=dict(budget.get("limit") or {}),
            budget_used=dict(budget.get("used") or {}),
        )


@dataclass(frozen=True)
class Claim:
    lease: Lease
    run: Json
    resume: Resume
    traceparent: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any], *, traceparent: str = "") -> Claim:
        return cls(
            traceparent=traceparent,
            lease=Lease.parse(need(data, "lease")),
            run=dict(need(data, "run")),
            resume=Resume.parse(need(data, "resume")),
        )


@dataclass(frozen=True)
class Beat:
    """The answer to a heartbeat; the interval only where the server changes it."""

    directive: str
    interval_seconds: float | None

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Beat:
        interval = data.get("heartbeat_interval_seconds")
        return cls(
            directive=str(data.get("directive") or CONTINUE),
            interval_seconds=float(interval) if interval else None,
        )


@dataclass(frozen=True)
class Answer:
    """The answer to an event or a batch: where the run stands, and which events the control plane added."""

    run: Json
    leased: bool
    replayed: bool = False
    followed_by: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        return str(self.run.get("status") or "")

    @property
    def directive(self) -> str:
        return str(self.run.get("directive") or CONTINUE)

    @classmethod
    def parse(cls, data: Mapping[str, Any], *, replayed: bool = False) -> Answer:
        results = data.get("results") or [data]
        events = [event for result in results for event in result.get("follow_ups") or ()]
        return cls(
            run=dict(need(data, "run")),
            leased=data.get("lease") is not None,
            replayed=replayed,
            followed_by=tuple(str(event.get("type")) for event in events),
        )


def need(data: Mapping[str, Any], name: str) -> Any:
    """The field, or `BadAnswer` with its name."""
    value = data.get(name)
    if value is None:
        raise BadAnswer(f"the answer has no {name!r}")
    return value


def instant(text: str) -> datetime:
    """An RFC 3339 time."""
    return datetime.fromisoformat(text)


def _command(item: Any) -> str:
    return str(item["command"]) if isinstance(item, Mapping) else str(item)


def _verifier(item: Mapping[str, Any]) -> Verifier:
    return Verifier(
        name=str(item.get("name") or item["command"]),
        command=str(item["command"]),
        timeout_seconds=float(item.get("timeout_seconds") or 900),
    )


def _artifact(data: Any) -> Artifact | None:
    return Artifact.parse(data) if isinstance(data, Mapping) else None


def _number(data: Any, *, default: int) -> int:
    """A number, bare or as the `number` of an object."""
    value = data.get("number") if isinstance(data, Mapping) else data
    return int(value) if value is not None else default


def _attempt(data: Any) -> tuple[int, int]:
    return _number(data, default=1), int(_used(data).get("repairs") or 0)


def _used(data: Any) -> Json:
    used = data.get("used") if isinstance(data, Mapping) else None
    return dict(used) if isinstance(used, Mapping) else {}


def _instructions(items: Sequence[Any]) -> tuple[Instruction, ...]:
    return tuple(Instruction(number=int(item["number"]), text=str(item.get("text") or "")) for item in items)
