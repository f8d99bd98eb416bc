"""When the sweep would next act on a run, and why (lifecycle contract, section 10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from runs.domain.contract import timeout_seconds
from runs.domain.facts import moment
from runs.domain.outgoing import has_limits, is_kept_in
from runs.domain.state import RunState
from runs.domain.table import cell
from runs.domain.vocabulary import CLAIMABLE, Directive, Ev, RunStatus


@dataclass(frozen=True, slots=True)
class Deadline:
    """A clock that runs: its scope, when it runs out, since when it runs, how long (seconds)."""

    scope: str
    at: datetime
    since: datetime
    limit_seconds: int
    operation_id: str = ""


def deadlines(
    state: RunState, contract: Mapping[str, Any], policy: Mapping[str, Any], *, held_until: str = ""
) -> list[Deadline]:
    """Every clock of this run but its lease's, the earliest first.

    ``held_until``: stamp up to which a hold or a spend cap kept it from being claimed.
    """
    if state.is_terminal or state.status == RunStatus.CREATED:
        return []
    found = [*_waiting(state, contract, policy, held_until), *_working(state, contract, policy)]
    return sorted(found, key=lambda deadline: deadline.at)


def _deadline(scope: str, since: datetime, seconds: int, operation_id: str = "") -> Deadline:
    return Deadline(scope, since + timedelta(seconds=seconds), since, seconds, operation_id)


def _waiting(
    state: RunState, contract: Mapping[str, Any], policy: Mapping[str, Any], held_until: str
) -> Iterator[Deadline]:
    if state.status == RunStatus.WAITING_FOR_APPROVAL and state.gate and state.gate["due_at"]:
        due, since = moment(state.gate["due_at"]), moment(state.gate["opened_at"])
        yield Deadline("approval", due, since, int((due - since).total_seconds()))
    paused = state.directive == Directive.PAUSE
    # An approved patch that policy itself keeps waiting does not expire of it, and where a pull request may
    # exist already only the provider's answer ends the run (section 9).
    kept_in = state.pr_begun or (has_limits(policy) and is_kept_in(state))
    if state.holder is None and state.run_status in CLAIMABLE and not paused and not kept_in:
        since = moment(max(state.idle_since, state.not_before, held_until))
        yield _deadline("queue", since, timeout_seconds("queue", contract, policy))


def _working(state: RunState, contract: Mapping[str, Any], policy: Mapping[str, Any]) -> Iterator[Deadline]:
    if state.holder is None:
        return
    if scope := _grace(state):
        since = moment((state.directive_info or {})["at"])
        yield _deadline(scope, since, timeout_seconds(scope, contract, policy))
    if scope == "cancel":
        return  # nothing else decides how a run ends that somebody cancelled
    limit = int(state.budget.get("max_duration_seconds", 0))
    if limit and state.active_since and not state.pr_begun:
        since = moment(state.active_since)
        yield Deadline("run", since + timedelta(seconds=limit - state.used["active_seconds"]), since, limit)
    for call in state.pending.values() if cell(Ev.TOOL_COMPLETED, state.run_status) else ():
        seconds = timeout_seconds("step", contract, policy)
        # A call that waited for a person, or for a taker, has run only since this lease began.
        since = moment(max(call["requested_at"], state.active_since))
        yield _deadline("step", since, seconds, call["operation_id"])
    if state.attempt:
        seconds = timeout_seconds("attempt", contract, policy)
        since = moment(max(state.attempt["started_at"], state.active_since))
        left = timedelta(seconds=seconds - state.attempt["active_seconds"])
        yield Deadline("attempt", since + left, since, seconds)
    else:  # it lives and does nothing: a heartbeat is not progress
        since = moment(max(state.progress_at, state.holder["since"]))
        yield _deadline("attempt", since, timeout_seconds("attempt", contract, policy))


def _grace(state: RunState) -> str:
    """Which directive the worker must answer within its time; a wind-down has none.

    After its first lease in PR_CREATING nothing is forced: the holder must ask the provider first.
    """
    if state.directive == Directive.PAUSE:
        return "pause"
    forced = state.directive == Directive.CANCEL and state.status != RunStatus.PR_CREATING
    return "cancel" if forced else ""
