"""Every clock: over what it runs, since when, for how long (lifecycle contract, section 10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runs.domain import clocks
from runs.domain.contract import (
    check_contract,
    heartbeat_seconds,
    lease_seconds,
    normalise,
    rejection_reasons,
    timeout_seconds,
)
from runs.domain.facts import stamp
from runs.domain.policy import DEFAULTS, TIMEOUTS
from runs.domain.state import RunState
from runs.domain.vocabulary import RunStatus

S = RunStatus
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return stamp(START + timedelta(seconds=seconds))


def held(status: RunStatus, **more: Any) -> RunState:
    """Held since the start, and silent since."""
    holder = {"lease_id": "lease_1", "worker_id": "wrk_1", "roles": [], "since": at(0)}
    budget = {"max_duration_seconds": 7_200}
    return RunState(status=status, holder=holder, active_since=at(0), budget=budget, **more)


ATTEMPT = {"number": 1, "started_at": at(0), "active_seconds": 0.0}
CALL = {"operation_id": "op", "requested_at": at(100)}
GATE = {"gate": "patch", "opened_at": at(0), "due_at": at(259_200)}


def asked(directive: str) -> dict[str, Any]:
    return {"directive": directive, "directive_info": {"at": at(50), "reason": "", "by": "", "seen_at": ""}}


#: scope → a state in which that clock runs out first, and when, in seconds since the start.
FIRST: dict[str, tuple[RunState, float]] = {
    "queue": (RunState(status=S.QUEUED, idle_since=at(0), not_before=at(60)), 86_460),
    "queue of a later status": (RunState(status=S.VERIFYING, idle_since=at(0)), 86_400),
    "step": (held(S.EXECUTING, attempt=ATTEMPT, pending={"op": CALL}), 1_000),
    "attempt": (held(S.EXECUTING, attempt=ATTEMPT), 3_600),
    "attempt of a silent worker": (held(S.PREPARING, progress_at=at(10)), 3_610),
    "run": (held(S.EXECUTING, attempt={**ATTEMPT, "started_at": at(6_000)}), 7_200),
    "approval": (RunState(status=S.WAITING_FOR_APPROVAL, gate=GATE), 259_200),
    "cancel": (held(S.EXECUTING, attempt=ATTEMPT, **asked("cancel")), 110),
    "pause": (held(S.EXECUTING, attempt=ATTEMPT, **asked("pause")), 650),
}


@pytest.mark.parametrize("name", list(FIRST))
def test_each_clock_runs_out_when_it_should(name):
    state, seconds = FIRST[name]
    first = clocks.deadlines(state, normalise({}), DEFAULTS)[0]
    assert (first.scope, first.at) == (name.split()[0], START + timedelta(seconds=seconds))


def test_every_scope_is_walked():
    assert set(TIMEOUTS) | {"run"} == {name.split()[0] for name in FIRST}


@pytest.mark.parametrize(
    "state",
    [
        RunState(status=S.CREATED),
        RunState(status=S.SUCCEEDED),
        RunState(status=S.EXECUTING, idle_since=at(0), **asked("pause")),
        RunState(status=S.PR_CREATING, idle_since=at(0), pr_begun=True),
        RunState(status=S.WAITING_FOR_APPROVAL, gate={**GATE, "due_at": ""}),
    ],
    ids=["created", "ended", "paused", "begun pull request", "escalated"],
)
def test_where_nothing_runs_out(state):
    assert clocks.deadlines(state, normalise({}), DEFAULTS) == []


def test_a_begun_pull_request_has_no_clock_that_could_end_it():
    scopes = {
        one.scope for one in clocks.deadlines(held(S.PR_CREATING, pr_begun=True), normalise({}), DEFAULTS)
    }
    assert scopes == {"attempt"}, "which withdraws the lease alone"


def test_a_cancelled_run_ends_by_its_worker_or_by_the_time_it_has_for_that():
    spent = held(
        S.EXECUTING, attempt={**ATTEMPT, "started_at": at(-9_000)}, pending={"op": CALL}, **asked("cancel")
    )
    assert [one.scope for one in clocks.deadlines(spent, normalise({}), DEFAULTS)] == ["cancel"]
    asking = held(S.PR_CREATING, pr_begun=True, **asked("cancel"))
    assert [one.scope for one in clocks.deadlines(asking, normalise({}), DEFAULTS)] == ["attempt"]


def test_a_call_that_nobody_reported_keeps_no_later_clock_from_running_out():
    left = held(S.PR_CREATING, pr_begun=True, pending={"op": CALL})
    assert [one.scope for one in clocks.deadlines(left, normalise({}), DEFAULTS)] == ["attempt"]


@pytest.mark.parametrize("scope", [*TIMEOUTS, "lease", "heartbeat"])
def test_each_is_a_setting_of_policy_and_contract_and_a_contract_only_shortens(scope):
    default = timeout_seconds(scope, normalise({}), DEFAULTS)
    policy = {**DEFAULTS, "timeouts": {**TIMEOUTS, scope: default - 10}}
    assert timeout_seconds(scope, normalise({}), policy) == default - 10
    assert timeout_seconds(scope, normalise({"timeouts": {scope: default - 20}}), policy) == default - 20
    longer = normalise({"timeouts": {scope: default}})
    assert timeout_seconds(scope, longer, policy) == default - 10
    assert any(f"{scope} timeout" in reason for reason in rejection_reasons(longer, policy))


def test_a_lease_has_one_length_before_work_began_and_one_after():
    contract = normalise({"timeouts": {"lease": 30, "heartbeat": 12}})
    assert lease_seconds(S.LEASED, contract, DEFAULTS) == 30
    assert lease_seconds(S.EXECUTING, contract, DEFAULTS) == 12
    assert heartbeat_seconds(contract, DEFAULTS) == 4, "three beats in the shortest lease"
    assert heartbeat_seconds(normalise({}), DEFAULTS) == 15
    assert "timeouts" in check_contract(normalise({"timeouts": {"lease": 2}}))
