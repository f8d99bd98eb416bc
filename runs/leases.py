"""Claim, heartbeat, release (lifecycle contract, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs import service, store
from runs.auth import Principal
from runs.bell import ASK_AGAIN_SECONDS, bell
from runs.domain.commands import CONTROL_PLANE, Caller, Command
from runs.domain.contract import lease_seconds
from runs.domain.errors import ActorNotAllowed, LeaseLost
from runs.domain.facts import Json
from runs.domain.holds import Hold
from runs.domain.offers import is_isolated
from runs.domain.outgoing import full, has_limits
from runs.domain.spending import Spent, caps_of
from runs.domain.state import RunState
from runs.domain.vocabulary import CLAIMABLE, Directive, Ev, Role, RunStatus
from runs.models import Lease, Run, WorkerAccount
from runs.models.campaigns import runs_kept_in
from runs.models.holds import runs_held
from runs.models.spending import read_spending, runs_over_spend


@dataclass(frozen=True, slots=True)
class Claim:
    """A run given to a worker. ``token`` is the lease's secret, derived and never stored."""

    lease: Lease
    token: str
    run: Run
    state: RunState
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat."""

    expires_at: datetime
    directive: str
    reason: str


def lease_claim(
    *,
    principal: Principal,
    roles: Iterable[str] = (),
    labels: Iterable[str] = (),
    key: str = "",
    isolation: str = "",
    version: str = "",
) -> Claim | None:
    """Give the next run to this worker, or None. ``roles`` narrows the account's own, ``labels`` add to its.

    ``isolation`` and ``version`` are what the machine says of itself; left out, what it said last holds.
    The same key while that lease lives answers the same claim; after its end ``LeaseLost``.
    Raises ``ActorNotAllowed`` for roles that the account does not have.
    """
    worker = _worker(principal)
    wanted = _wanted_roles(worker, roles)
    offers = sorted({*worker.labels, *labels})
    _note_asking(worker, offers=offers, isolation=isolation, version=version)
    if key and (again := _earlier(worker, key)):
        return again
    lines = store.claimable_lines(
        roles=wanted, labels=offers, repositories=sorted(principal.repositories) or None
    )
    try:
        stops = _stops_now() if lines else _NONE
        for line in lines:
            if stops.close(line):
                continue
            if claim := _take(line, principal, stops, roles=wanted, labels=offers, key=key):
                return claim
    except IntegrityError as error:
        # Two claims with one key at once: the other has it by now.
        if "one_lease_per_claim_key" in str(error) and (again := _earlier(worker, key)):
            return again
        raise
    return _taken_meanwhile(worker, key) if key else None


def begin_waiting(*, principal: Principal, roles: Iterable[str] = ()) -> Callable[[float], None]:
    """Call it before asking; what it returns waits, for at most the given seconds, for a reason to ask again.

    That is a ring after this call, the end of a backoff, or that it is time to ask unasked. One query.
    """
    heard = bell.rings
    backoff = store.seconds_to_next(roles=_wanted_roles(_worker(principal), roles))
    longest = ASK_AGAIN_SECONDS if backoff is None else min(ASK_AGAIN_SECONDS, backoff)
    return lambda seconds: bell.wait(heard, min(seconds, longest))


@dataclass(frozen=True, slots=True)
class _Stops:
    """What keeps runs from being claimed: holds, and what was spent today against the caps."""

    holds: list[Hold]
    platform_cap: Decimal | None
    spent: Spent

    def close(self, line: store.Line) -> bool:
        """Whether a hold leaves nothing in this line, so that nothing of it need be locked."""
        whole = any(hold.covers_repository(line.repository_id) for hold in self.holds)
        return whole and line.role != Role.GIT_INTEGRATION

    def over(self, line: store.Line, holds: list[Hold], policy: Json) -> Q | None:
        """Runs of this line that are not to be claimed now; None where nothing stops any.

        A cancelled one is: somebody must ask the provider whether it had a pull request. And opening a pull
        request costs nothing.
        """
        held = runs_held(holds) & ~Q(directive=Directive.CANCEL.value) if holds else None
        caps = {} if line.role == Role.GIT_INTEGRATION else caps_of(policy, self.platform_cap)
        if not caps:
            return held
        over = runs_over_spend(line.repository_id, caps, self.spent)
        return over if held is None else held | over


_NONE: Final = _Stops([], None, {})


def _stops_now() -> _Stops:
    return _Stops(store.holds_in_force(), *read_spending())


def _note_asking(worker: WorkerAccount, *, offers: list[str], isolation: str, version: str) -> None:
    """Who asks for work, when, and what for: once in a while, for a waiting claim asks again and again."""
    worker.offers = offers
    worker.isolation = isolation or worker.isolation
    worker.version = version or worker.version
    store.note_asking(worker.pk, offers=offers, isolation=worker.isolation, version=worker.version)


def _taken_meanwhile(worker: WorkerAccount, key: str) -> Claim | None:
    """What another request of this key has in hand: passed over as locked, it is the answer all the same."""
    with transaction.atomic():
        store.lock_claim_key(worker.pk, key)
        return _earlier(worker, key)


def _worker(principal: Principal) -> WorkerAccount:
    if principal.worker is None:
        raise ActorNotAllowed(
            "Only worker accounts lease runs.", required_roles=[r.value for r in CLAIMABLE.values()]
        )
    return principal.worker


def _wanted_roles(worker: WorkerAccount, roles: Iterable[str]) -> list[str]:
    asked = list(dict.fromkeys(roles)) or list(worker.roles)
    if missing := [role for role in asked if role not in worker.roles]:
        raise ActorNotAllowed(f"This account does not have the role {missing[0]}.", required_roles=missing)
    return asked


def _earlier(worker: WorkerAccount, key: str) -> Claim | None:
    lease = Lease.objects.select_related("run__task").filter(worker=worker, claim_key=key).first()
    if lease is None:
        return None
    if lease.ended_at is not None or lease.expires_at <= database_now():
        raise LeaseLost("The lease of this key has ended; claim with a new key.", fence=lease.fence)
    return _claim(lease, lease.run, replayed=True)


def _claim(lease: Lease, run: Run, *, replayed: bool = False) -> Claim:
    return Claim(lease, store.lease_token(lease.pk), run, RunState.from_json(run.state), replayed)


def _take(
    line: store.Line, principal: Principal, stops: _Stops, *, roles: list[str], labels: list[str], key: str
) -> Claim | None:
    """The foremost run of a line, if policy lets this worker have it."""
    policy = store.effective_policy(line.repository_id).values
    if not _is_isolated_enough(principal, line, policy["require_isolation"]):
        return None
    with transaction.atomic():
        store.share_holds()
        # After the shared lock: whoever set a hold while we waited has committed it.
        stopped = stops.over(line, store.holds_in_force(), policy)
        if key:
            store.lock_claim_key(principal.id, key)
        if line.role == Role.GIT_INTEGRATION and (paced := _paced_out()):
            stopped = stopped | paced if stopped else paced
        if not _has_room(line.repository_id, policy["max_concurrent_runs"]):
            return None
        held_back = line.role == Role.GIT_INTEGRATION and _is_full(line.repository_id, policy)
        locked = store.lock_foremost(line, labels=labels, pr_begun=held_back, stopped=stopped)
        if locked is None:
            return None
        run_id, status = locked
        facts = {"lease_id": new_id("lease"), "roles": roles, "claim_key": key}
        owner = _as_owner(principal, RunStatus(status))
        outcome = service.apply_event(run_id, Command(Ev.LEASE_ACQUIRED, {}, owner, key="", facts=facts))
        if outcome.lease is None:
            return None
        return _claim(outcome.lease, outcome.run)


def _as_owner(principal: Principal, status: RunStatus) -> Caller:
    caller = principal.caller
    return Caller(caller.account, caller.name, frozenset({CLAIMABLE[status]}) & caller.roles, is_machine=True)


def _has_room(repository_id: str, limit: int | None) -> bool:
    """Active leases below the limit; counted under the repository's lock, so never exceeded."""
    if limit is None:
        return True
    store.lock_repository(repository_id)
    return Lease.objects.filter(repository_id=repository_id, ended_at__isnull=True).count() < limit


def _is_full(repository_id: str, policy: Json) -> bool:
    """Whether no further pull request may be begun; counted under the repository's lock."""
    if not has_limits(policy):
        return False
    store.lock_repository(repository_id)
    return full(policy, service.outgoing_of([repository_id])[repository_id]) is not None


def _paced_out() -> Q | None:
    """Runs whose campaign may begin no further pull request now; None where there is no such campaign.

    Counted under a lock of its own: the campaign's repositories are many.
    """
    if not service.is_any_campaign_paced():
        return None
    store.lock_pace()
    full_ones = service.campaigns_full()
    return runs_kept_in(full_ones) if full_ones else None


def _is_isolated_enough(principal: Principal, line: store.Line, required: str) -> bool:
    if line.role == Role.GIT_INTEGRATION:
        return True
    return is_isolated(principal.worker.isolation if principal.worker else "", required)


def lease_heartbeat(*, principal: Principal, run_id: str, token: str) -> Beat:
    """Renew the lease and hear the directive. Raises ``LeaseLost``; an expired lease is never revived."""
    with transaction.atomic():
        taken = store.take_run(run_id)
        lease, now = taken.lease, taken.now
        if lease is None or not store.holds(lease, principal.id, token, now):
            raise LeaseLost(fence=taken.run.fence)
        state = RunState.from_json(taken.run.state)
        if state.directive_info and not state.directive_info["seen_at"]:
            service.apply_event(run_id, Command(Ev.DIRECTIVE_SEEN, {}, CONTROL_PLANE, key=""))
        around = taken.around
        seconds = lease_seconds(state.status, around.contract, around.policy.values)
        expires_at = store.extend_lease(lease, now=now, seconds=seconds)
        reason = (state.directive_info or {}).get("reason", "")
        return Beat(expires_at, state.directive, reason)


def lease_release(*, principal: Principal, run_id: str, token: str, reason: str, key: str) -> service.Outcome:
    """Give the lease up at a boundary."""
    payload = {"reason": reason} if reason else {}
    command = Command(Ev.LEASE_RELEASED, payload, principal.caller, key, lease_token=token)
    return service.apply_event(run_id, command)
