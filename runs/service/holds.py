"""Set and lift holds, and cancel what runs under one (lifecycle contract, section 9).

Authorised by the caller: a hold over one repository needs the permission there, every other everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from agentplatform.clock import database_now
from runs import store
from runs.domain.commands import Caller
from runs.domain.errors import Invalid, NotAllowedNow, NotFound, Refusal
from runs.domain.facts import POLICY, Json, stamp
from runs.domain.holds import Covered, HoldScope, longest, problems
from runs.domain.holds import Hold as HoldFacts
from runs.domain.outgoing import is_kept_in
from runs.domain.payloads import reason_within
from runs.domain.spending import caps_of, keys_of, reached
from runs.domain.state import RunState
from runs.domain.vocabulary import Directive, Ev, Role
from runs.models import Campaign, Hold, Lease, Repository, Run
from runs.models.holds import covered_of, runs_held
from runs.models.spending import read_spending
from runs.service.people import run_direct

log = structlog.get_logger(__name__)
_POLICY = Caller(POLICY.id, POLICY.name, frozenset({Role.POLICY}))


def find_repository(name: str) -> Repository | None:
    """The repository of this name or id."""
    return Repository.objects.filter(Q(name=name) | Q(pk=name)).first()


@transaction.atomic
def hold_set(
    *,
    scope: str,
    value: str = "",
    reason: str,
    by: str,
    by_id: str = "",
    expires_at: datetime | None = None,
    cancel_running: bool = False,
) -> HoldFacts:
    """Stop claims and pull requests of all that ``scope`` and ``value`` name, from its commit on.

    ``value``: name or id of a repository, an agent kind, a label; "" for the platform. The same hold again,
    by the same person and for the same reason, is the one that stands. Raises ``Invalid``.
    """
    value, reason = value.strip(), reason.strip()
    wrong = problems(scope=scope, target=value, reason=reason)
    where = find_repository(value) if scope == HoldScope.REPOSITORY and value else None
    if scope == HoldScope.REPOSITORY and value and where is None:
        wrong["value"] = [f"there is no repository {value[:100]}"]
    if expires_at is not None and expires_at <= database_now():
        wrong["expires_at"] = ["must lie in the future"]
    if wrong:
        raise Invalid(wrong)
    store.lock_holds()
    hold = Hold(
        scope=scope,
        repository=where,
        value="" if where else value,
        reason=reason,
        cancels_running=cancel_running,
        set_by=by,
        set_by_id=by_id,
        created_at=database_now(),
        expires_at=expires_at,
    )
    return _same(hold) or store.insert_hold(hold)


def _same(wanted: Hold) -> HoldFacts | None:
    """A double click is one hold."""
    names = ("scope", "repository", "value", "reason", "cancels_running", "set_by", "set_by_id")
    found = Hold.objects.in_force().filter(**{name: getattr(wanted, name) for name in names}).first()
    return found.as_fact() if found else None


@transaction.atomic
def hold_lift(*, hold_id: str, by: str) -> HoldFacts:
    """End a hold now; what it covered is claimed again. Lifting it twice changes nothing.

    Raises ``NotFound``, and ``NotAllowedNow`` for one that ended by itself.
    """
    store.lock_holds()
    hold = Hold.objects.select_related("repository", "campaign").filter(pk=hold_id).first()
    if hold is None:
        raise NotFound
    if hold.scope == HoldScope.CAMPAIGN:
        raise NotAllowedNow("The campaign is paused; resume it instead.", campaign_id=hold.campaign_id)
    now = database_now()
    if hold.lifted_at is not None:
        return hold.as_fact()
    if hold.expires_at is not None and hold.expires_at <= now:
        raise NotAllowedNow(f"This hold ended by itself at {hold.expires_at:%Y-%m-%d %H:%M} UTC.")
    return store.end_hold(hold, by=by, now=now)


def hold_over(run: Run) -> HoldFacts | None:
    """The hold that keeps this run from moving, if one is in force; its task is loaded."""
    return longest(store.holds_in_force(), covered_of(run.task))


def held_back_until(run: Run, policy: Json, *, now: datetime, within: timedelta) -> str:
    """Stamp up to which a hold, a spend cap or its campaign's pace kept this run from being claimed: now's
    while one does, "" where none did.

    What ended longer ago than ``within`` is not looked at. The run's task is loaded. Five queries at most.
    """
    covered = covered_of(run.task)
    ended = [stamp(now)] if longest(store.holds_in_force(), covered) else []
    over = Q(lifted_at__gt=now - within) | Q(lifted_at__isnull=True, expires_at__gt=now - within)
    rows = Hold.objects.select_related("repository", "campaign").filter(over)
    covering = [row for row in rows if row.as_fact().covers(covered)]
    ended += [stamp(min(row.lifted_at or row.expires_at or now, now)) for row in covering]
    if _is_paced(run):
        ended.append(stamp(now))
    if run.claim_role != Role.GIT_INTEGRATION:
        ended += _capped_until(covered, policy, now)
    return max(ended, default="")


def _is_paced(run: Run) -> bool:
    """Whether it stands in line for its campaign's next pull request, however long that is."""
    if not run.task.campaign_id or not is_kept_in(RunState.from_json(run.state)):
        return False
    return Campaign.objects.filter(pk=run.task.campaign_id, pull_requests_per_hour__isnull=False).exists()


def _capped_until(covered: Covered, policy: Json, now: datetime) -> Iterator[str]:
    """A cap holds to the end of its day."""
    for days_ago, at in ((0, now), (1, now.replace(hour=0, minute=0, second=0, microsecond=0))):
        cap, spent = read_spending([*keys_of(covered).values()], days_ago=days_ago)
        if reached(covered, caps_of(policy, cap), spent):
            yield stamp(at)


def cancel_held_runs() -> list[str]:
    """Ask every run to stop that a worker holds although a hold wants what it covers cancelled.

    Each in a transaction of its own. Returns their ids; calling it again asks nobody twice.
    """
    asked: list[str] = []
    for hold in [hold for hold in store.holds_in_force() if hold.cancels]:
        leased = Exists(Lease.objects.filter(run=OuterRef("pk"), ended_at__isnull=True))
        running = Run.objects.filter(leased, runs_held([hold])).exclude(directive=Directive.CANCEL.value)
        asked += [run_id for run_id in list(running.values_list("pk", flat=True)) if _cancel(run_id, hold)]
    return asked


def _cancel(run_id: str, hold: HoldFacts) -> bool:
    reason = reason_within(f"{hold.subject} is held by {hold.by}", hold.reason)
    try:
        run_direct(run_id=run_id, event=Ev.CANCEL_REQUESTED, reason=reason, by=_POLICY)
    except Refusal as refusal:  # it ended, or is past stopping, by now
        log.info("hold_cancels_nothing", run_id=run_id, code=refusal.code)
        return False
    return True
