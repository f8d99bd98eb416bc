"""A control plane small enough to read, over real HTTP on 127.0.0.1, to try workers against.

It keeps one run, moves it by a table of its own, refuses what the contract refuses (lease, key,
directive, digest), writes down what a worker did that it must not, and can be told to lose answers
or to be away.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from worker.conformance.stand_in_http import Problem, Server

Json = dict[str, Any]

MOVES = {
    ("worker_started", "LEASED"): "PREPARING",
    ("sandbox_ready", "PREPARING"): "CONTEXT_BUILDING",
    ("context_ready", "CONTEXT_BUILDING"): "PLANNING",
    ("plan_created", "PLANNING"): "EXECUTING",
    ("patch_created", "EXECUTING"): "PATCH_READY",
    ("report_created", "EXECUTING"): "JUDGING",
    ("verification_started", "PATCH_READY"): "VERIFYING",
    ("verification_failed_retryable", "VERIFYING"): "EXECUTING",
    ("verification_passed", "VERIFYING"): "JUDGING",
    ("judge_passed", "JUDGING"): "SUCCEEDED",
    ("judge_requires_fix", "JUDGING"): "EXECUTING",
}
ENDS = {"run_cancelled": "CANCELLED", "non_retryable_failure": "FAILED"}
STAYS = {
    "sandbox_ready",
    "tool_requested",
    "tool_completed",
    "checkpoint_saved",
    "run_interrupted",
    "attempt_finished",
    "model_decision",
}
TERMINAL = {"SUCCEEDED", "CANCELLED", "FAILED"}
REFUSED_UNDER = {
    "pause": {"tool_requested", "verification_started"},
    "wind_down": {"tool_requested"},
    "cancel": set(MOVES_EVENTS := {event for event, _ in MOVES})
    | {"tool_requested", "non_retryable_failure", "attempt_finished", "run_interrupted"},
}
CITES = {
    "plan_created": "plan",
    "patch_created": "patch",
    "verification_passed": "verification_report",
    "verification_failed_retryable": "verification_report",
    "checkpoint_saved": "checkpoint",
    # What is handed in counts as a checkpoint.
    "report_created": "checkpoint",
}


@dataclass
class State:
    """The one run, as a test wants it."""

    contract: Json
    url: str
    base_branch: str = "main"
    status: str = "QUEUED"
    directive: str = "continue"
    base_commit: str | None = None
    policy: Json = field(default_factory=dict)
    instructions: list[Json] = field(default_factory=list)
    attempt: int = 1
    repairs: int = 0
    max_attempts: int = 2
    plan_gate: bool = False
    pending: list[Json] = field(default_factory=list)
    lost: list[Json] = field(default_factory=list)
    steps: list[Json] = field(default_factory=list)
    cited: dict[str, Json] = field(default_factory=dict)
    feedback: Any = None
    heartbeat_interval_seconds: float = 0.1
    lease_seconds: float = 60.0


class StandIn:
    """`with StandIn(state) as plane:`, then `plane.url` and what it has recorded."""

    token = "agp_test_0123456789abcdef"  # noqa: S105 - opens nothing but this stand-in

    def __init__(self, state: State, *, base_commit: str = "") -> None:
        self.state = state
        self.base_commit = base_commit
        self.events: list[tuple[str, Json]] = []
        self.artifacts: dict[str, tuple[str, bytes]] = {}
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self.logs: dict[str, bytes] = {}
        self.fence = 0
        self.roles = {"worker", "agent_runtime", "verifier", "judge", "git_integration"}
        self.lease_token: str | None = None
        self.heartbeats = 0
        self.claim_keys: list[str] = []
        self.beaten_at: list[float] = []
        # (code, what was called) of every refusal, in order.
        self.refusals: list[tuple[str, str]] = []
        self.released: list[str] = []
        # Called with (method, path) before a call is handled; "away" or "lose" break the call.
        self.break_call: Callable[[str, str], str | None] = lambda method, path: None
        # Called under the lock after an event was applied.
        self.after_event: Callable[[str], None] = lambda event: None
        self.changed = threading.Condition()
        self._keys: dict[str, Json] = {}
        self._bodies: dict[str, list[Any]] = {}
        self._claims: dict[str, Json] = {}
        self._server = Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def types(self) -> list[str]:
        with self.changed:
            return [type_ for type_, _ in self.events]

    def payloads(self, type_: str) -> list[Json]:
        with self.changed:
            return [payload for name, payload in self.events if name == type_]

    def stored(self, kind: str) -> list[bytes]:
        with self.changed:
            return [data for stored_kind, data in self.artifacts.values() if stored_kind == kind]

    def store(self, kind: str, data: bytes) -> Json:
        """Keep bytes as a worker before this one would have left them."""
        artifact_id = f"art_{len(self.artifacts) + 1:026d}"
        self.artifacts[artifact_id] = (kind, data)
        return {"id": artifact_id, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}

    def store_json(self, kind: str, document: Json) -> Json:
        return self.store(kind, json.dumps(document).encode())

    def take_lease_away(self) -> None:
        with self.changed:
            self.lease_token = None

    def wait_for(self, condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, timeout=seconds):
                raise TimeoutError(f"not within {seconds} s; so far: {self.events}")

    # --- calls ---------------------------------------------------------------------------------

    def claim(self, key: str) -> Json | None:
        self.claim_keys.append(key)
        if key in self._claims:
            return self._claims[key]
        if self.state.status in TERMINAL | {"WAITING_FOR_APPROVAL"} or self.lease_token:
            return None
        self.fence += 1
        self.lease_token = f"lease-secret-{self.fence:012d}"
        if self.state.status == "QUEUED":
            self.state.status = "LEASED"
        now = datetime.now(UTC)
        lease = {
            "id": f"lease_{self.fence}",
            "token": self.lease_token,
            "fence": self.fence,
            "run_id": "run_1",
            "acquired_at": now.isoformat(),
            "expires_at": (now + timedelta(seconds=self.state.lease_seconds)).isoformat(),
            "heartbeat_interval_seconds": self.state.heartbeat_interval_seconds,
        }
        self._claims[key] = {"lease": lease, "run": self.run(), "resume": self.resume()}
        return self._claims[key]

    def run(self) -> Json:
        state = self.state
        return {
            "id": "run_1",
            "status": state.status,
            "directive": state.directive,
            "base_commit": state.base_commit,
        }

    def resume(self) -> Json:
        state = self.state
        return {
            "task": {"title": "A task", "contract": state.contract},
            "repository": {"name": "repo", "url": state.url, "base_branch": state.base_branch},
            "policy": state.policy,
            "attempt": {"number": state.attempt, "used": {"repairs": state.repairs}},
            "instruction": 1,
            "instructions": state.instructions or [{"number": 1, "text": state.contract["instruction"]}],
            "pending": state.pending,
            "operations": [],
            "lost": state.lost,
            "feedback": state.feedback,
            "hints": [],
            **{
                kind: state.cited.get(kind) for kind in ("checkpoint", "plan", "patch", "verification_report")
            },
        }

    def check_lease(self, token: str | None) -> None:
        if self.lease_token is None or token != self.lease_token:
            raise Problem(409, "lease_lost", fence=self.fence)

    def is_known(self, key: str) -> bool:
        """Whether an event was taken under this key."""
        return key in self._keys

    def apply(self, key: str, type_: str, payload: Json) -> Json:
        """One event; its answer is remembered under the key."""
        if key in self._keys:
            if self._bodies[key] != [type_, payload]:
                raise Problem(422, "idempotency_key_reused", event=type_)
            return {**self._keys[key], "replayed": True}
        state = self.state
        if type_ in REFUSED_UNDER.get(state.directive, ()):
            raise Problem(409, "directive_pending", directive=state.directive)
        target = MOVES.get((type_, state.status)) or ENDS.get(type_)
        if target is None and type_ not in STAYS:
            raise Problem(409, "illegal_transition", event=type_, **{"from": state.status})
        self._follow(type_, payload)
        if target == "EXECUTING" and type_ != "plan_created":
            state.repairs += 1
        self.events.append((type_, payload))
        state.status = target or state.status
        if type_ == "plan_created" and state.plan_gate:
            state.status = "WAITING_FOR_APPROVAL"
        if state.status in TERMINAL | {"WAITING_FOR_APPROVAL"} or type_ == "run_interrupted":
            self.lease_token = None
        self.after_event(type_)
        self._keys[key], self._bodies[key] = self.answer(), [type_, payload]
        return self._keys[key]

    def answer(self) -> Json:
        return {"run": self.run(), "lease": {"expires_at": "later"} if self.lease_token else None}

    def _follow(self, type_: str, payload: Json) -> None:
        state = self.state
        cited = [value for name, value in payload.items() if name.endswith(("artifact_id", "report_id"))]
        artifact_id = str(cited[0]) if cited else ""
        if kind := CITES.get(type_):
            state.cited[kind] = self.reference(artifact_id)
        if type_ in ("verification_failed_retryable", "judge_requires_fix"):
            document = json.loads(self.artifacts[artifact_id][1])
            source = "judge" if type_ == "judge_requires_fix" else "verification"
            state.feedback = {"source": source, "text": document["feedback"]}
        if type_ == "sandbox_ready":
            if state.base_commit not in (None, payload["base_commit"]):
                raise Problem(409, "guard_failed")
            state.base_commit = payload["base_commit"]
        if type_ == "tool_requested":
            state.pending.append(payload)
        if type_ == "tool_completed":
            requested = [step for step in state.pending if step["operation_id"] == payload["operation_id"]]
            if not requested:
                raise Problem(409, "not_allowed_now")
            state.pending.remove(requested[0])
            state.steps.append({**payload, "state": payload["outcome"].upper()})
        if type_ == "attempt_finished":
            state.attempt, state.repairs = state.attempt + 1, 0
            state.cited.pop("checkpoint", None)
            if state.attempt > state.max_attempts:
                state.status = "FAILED"

    def reference(self, artifact_id: str) -> Json:
        data = self.artifacts[artifact_id][1]
        return {"id": artifact_id, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
