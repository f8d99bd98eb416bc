"""The hard cases: what is done to a worker, and what it must or must not have done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from worker.client.protocol import Json
from worker.conformance.stand_in import TERMINAL, StandIn, State

Broken = list[str]
FINISHED = "SUCCEEDED"
SLOW = "sleep 60"
EDIT = "sed -i s/two/three/ notes.txt"
# A beat may come late on a busy machine; one that waits for its own constant comes later than this.
LATENESS = 4.0
_STOPS = frozenset({"tool_completed", "checkpoint_saved", "run_cancelled"})


@dataclass(frozen=True)
class Case:
    """`prepare` sets the stand-in up, `ends` tells that no more is to come, `broken` looks at what was."""

    name: str
    promise: str
    broken: Callable[[StandIn], Broken]
    prepare: Callable[[StandIn], None] = lambda plane: None
    command: str = EDIT
    ends: Callable[[StandIn], bool] = lambda plane: plane.state.status in TERMINAL
    terminate_when: Callable[[StandIn], bool] | None = None


def contract(command: str) -> Json:
    return {
        "title": "Rename two",
        "instruction": "Replace two by three in notes.txt",
        "completion_mode": "pr_created",
        "allowed_paths": ["*.txt"],
        "forbidden_paths": [],
        "setup": [],
        "verifiers": [{"name": "no-two", "command": "! grep -q two notes.txt", "timeout_seconds": 30}],
        "agent": {"kind": "script", "command": command},
    }


def state_of(case: Case, url: str) -> State:
    return State(contract=contract(case.command), url=url, heartbeat_interval_seconds=0.5)


# --- what was seen ---------------------------------------------------------------------------------


def _succeeded(plane: StandIn) -> Broken:
    if plane.state.status == FINISHED:
        return _no_strange_refusals(plane)
    seen = plane.types()
    return [f"the run ended as {plane.state.status}, after {', '.join(seen[-3:]) or 'no event'}"]


def _no_strange_refusals(plane: StandIn) -> Broken:
    return [f"{call} was refused: {code}" for code, call in plane.refusals if code != "lease_lost"]


def _full_line(plane: StandIn) -> Broken:
    broken = _succeeded(plane)
    patches = plane.stored("patch")
    if not any(b"+three" in patch and b"-two" in patch for patch in patches):
        broken.append("no patch holds the change that the script made")
    if not plane.heartbeats:
        broken.append("no heartbeat was sent")
    return broken


def _same_claim(plane: StandIn) -> Broken:
    if len(set(plane.claim_keys[:2])) > 1:
        return ["it claimed anew under another key, although the first claim only lost its answer"]
    return _succeeded(plane)


def _once_each(plane: StandIn) -> Broken:
    seen = plane.types()
    once = ("worker_started", "context_ready", "plan_created", "patch_created", "verification_started")
    return [
        f"{name} was recorded {seen.count(name)} times" for name in once if seen.count(name) > 1
    ] or _succeeded(plane)


def _silent_after_loss(plane: StandIn) -> Broken:
    lost = [call for code, call in plane.refusals if code == "lease_lost"]
    told = next((index for index, call in enumerate(lost) if call), 0)
    # Calls already under way when the first refusal was answered cannot be taken back: one of each kind.
    late = [call for call in lost[told + 1 :] if "heartbeat" not in call and "logs" not in call]
    return [f"{call}: posted after lease_lost" for call in late[1:]]


def _cancelled(plane: StandIn) -> Broken:
    seen = plane.types()
    if "run_cancelled" not in seen:
        return ["it was asked to cancel and never posted run_cancelled"]
    asked = seen.index("tool_requested")
    return [f"{name} was posted after the cancel" for name in seen[asked + 1 :] if name not in _STOPS]


def _paused(plane: StandIn) -> Broken:
    if "run_interrupted" not in plane.types():
        return ["it was asked to pause and never posted run_interrupted"]
    refused = [call for code, call in plane.refusals if code == "directive_pending"]
    return [f"{call}: asked for something new more than once under a pause" for call in refused[1:]]


def _wound_down(plane: StandIn) -> Broken:
    if "tool_requested" in plane.types():
        return ["it began new work under a wind-down"]
    return (
        []
        if plane.state.status == "CANCELLED"
        else [f"nothing was in hand, yet the run is {plane.state.status}"]
    )


def _same_operation(plane: StandIn) -> Broken:
    requested = [payload["operation_id"] for payload in plane.payloads("tool_requested")]
    completed = [payload["operation_id"] for payload in plane.payloads("tool_completed")]
    broken = [f"{name} was never reported" for name in ("left-behind",) if name not in completed]
    if requested:
        broken.append("it announced the pending call again under another operation id")
    return broken or _succeeded(plane)


def _given_back(plane: StandIn) -> Broken:
    if plane.released or plane.state.status in TERMINAL:
        return []
    return ["SIGTERM ended it without giving the lease back"]


def _in_rhythm(plane: StandIn) -> Broken:
    limit = plane.state.heartbeat_interval_seconds * LATENESS
    late = [later - earlier for earlier, later in pairwise(plane.beaten_at) if later - earlier > limit]
    if len(plane.beaten_at) < 3:  # noqa: PLR2004 - fewer make no rhythm
        return [f"only {len(plane.beaten_at)} heartbeats in a call of several seconds"]
    return (
        [f"{late[0]:.1f} s between two heartbeats, although the server asked for {limit / LATENESS}"]
        if late
        else []
    )


# --- what is done ----------------------------------------------------------------------------------


def _lose_first(wanted: str) -> Callable[[StandIn], None]:
    """The first call of this path is carried out, and its answer lost."""

    def prepare(plane: StandIn) -> None:
        left = [1]

        def break_call(method: str, path: str) -> str | None:
            if path.endswith(wanted) and method == "POST" and left:
                left.pop()
                return "lose"
            return None

        plane.break_call = break_call

    return prepare


def _lose_every_third(plane: StandIn) -> None:
    count = [0]

    def break_call(method: str, path: str) -> str | None:
        if not path.endswith(("events", "batch", "artifacts")) or method != "POST":
            return None
        count[0] += 1
        return ("lose", "away", None)[count[0] % 3]

    plane.break_call = break_call


def _when(event: str, act: Callable[[StandIn], None]) -> Callable[[StandIn], None]:
    def prepare(plane: StandIn) -> None:
        plane.after_event = lambda posted: act(plane) if posted == event else None

    return prepare


def _direct(directive: str) -> Callable[[StandIn], None]:
    return lambda plane: setattr(plane.state, "directive", directive)


def _lose_lease_at_work(plane: StandIn) -> None:
    """Withdrawn while the agent runs: the next heartbeat hears of it."""

    def break_call(method: str, path: str) -> str | None:
        if path.endswith("heartbeat") and "tool_requested" in plane.types():
            plane.lease_token = None
        return None

    plane.break_call = break_call


def _leave_pending(plane: StandIn) -> None:
    state = plane.state
    state.status, state.base_commit = "EXECUTING", plane.base_commit
    plan: Json = {name: [] for name in ("files", "verifiers", "risks", "must_not_change")}
    document = {**plan, "files": ["*.txt"], "stop_condition": "done", "summary": "as before"}
    state.cited["plan"] = plane.store_json("plan", document)
    call: Json = {
        "operation_id": "left-behind",
        "tool": "script",
        "label": "Editing",
        "arguments": {},
    }
    state.pending = [{**call, "arguments": {"command": EDIT}, "effect": "workspace"}]


CASES: Sequence[Case] = (
    Case("full line", "takes a run from its claim to its end, with evidence", _full_line),
    Case(
        "claim answer lost",
        "keeps the claim's key until it is answered",
        _same_claim,
        prepare=_lose_first("leases"),
    ),
    Case(
        "answers lost, server away",
        "repeats a call with the same key and body until it is answered",
        _once_each,
        prepare=_lose_every_third,
    ),
    Case(
        "heartbeat",
        "beats in the interval that the server names, while a command runs",
        _in_rhythm,
        command="sleep 4; " + EDIT,
    ),
    Case(
        "lease lost",
        "stops at once and posts nothing after lease_lost",
        _silent_after_loss,
        prepare=_lose_lease_at_work,
        command=SLOW,
        ends=lambda plane: any(code == "lease_lost" for code, _ in plane.refusals),
    ),
    Case(
        "cancel",
        "ends the running command on a cancel, cleans up and says so",
        _cancelled,
        prepare=_when("tool_requested", _direct("cancel")),
        command=SLOW,
    ),
    Case(
        "pause",
        "begins nothing new under a pause and posts run_interrupted",
        _paused,
        prepare=_when("context_ready", _direct("pause")),
        ends=lambda plane: "run_interrupted" in plane.types(),
    ),
    Case(
        "wind-down",
        "begins nothing new under a wind-down; with nothing in hand it cancels",
        _wound_down,
        prepare=_when("context_ready", _direct("wind_down")),
    ),
    Case(
        "takeover",
        "takes a pending call up under its own operation id",
        _same_operation,
        prepare=_leave_pending,
    ),
    Case(
        "shutdown",
        "gives the lease back when it is told to stop",
        _given_back,
        command=SLOW,
        ends=lambda plane: bool(plane.released) or plane.state.status in TERMINAL,
        terminate_when=lambda plane: "tool_requested" in plane.types(),
    ),
)
