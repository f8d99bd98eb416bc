"""What a decision takes in and gives out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runs.domain.facts import Artifact, Event, Json
from runs.domain.log_limits import LogLimits
from runs.domain.retry import History
from runs.domain.state import Changes, RunState
from runs.domain.vocabulary import Ev, Role


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated account and the roles it may act in."""

    account: str
    name: str
    roles: frozenset[Role]
    is_machine: bool = False


CONTROL_PLANE: Caller = Caller(
    "control_plane", "Control plane", frozenset({Role.CONTROL_PLANE, Role.SCHEDULER, Role.POLICY})
)


@dataclass(frozen=True, slots=True)
class Command:
    """One event that somebody wants. ``facts`` come from our own services, never from a caller."""

    event: Ev
    payload: Json
    caller: Caller
    key: str
    lease_token: str = ""
    expected_sequence: int | None = None
    occurred_at: str = ""
    facts: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """All that a decision may look at beside the run itself; read under the run's lock."""

    now: datetime
    policy: Mapping[str, Any]
    policy_version: str
    contract: Mapping[str, Any]
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    step: Json | None = None  #: the stored step of the operation that the event names
    log_limits: LogLimits = field(default_factory=LogLimits)
    lease_is_alive: bool = False  #: the token sent is the active lease's, and it has not expired
    #: What the task went through, given the run's state; read only where the run ends.
    history: Callable[[RunState], History] | None = None
    held: Callable[[], str] = lambda: ""  #: the sentence of a hold over this run; "" where there is none
    new_id: Callable[[str], str] = lambda prefix: f"{prefix}_?"
    dice: float = 1.0  #: uniform in 0..1


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to be: what it is, where it leads, what it says, and in which role."""

    event: Ev
    to: str
    payload: Json
    role: Role
    facts: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NextRun:
    """The run that follows a failed one."""

    not_before: str
    hints: tuple[str, ...]
    rule: str
    feedback: Json | None = None


@dataclass(slots=True)
class Decision:
    """Events to append, the state after them, and what they change beside it. Empty: nothing to do."""

    events: list[Event]
    state: RunState
    changes: Changes
    next_run: NextRun | None = None
