"""What the display of runs depends on beside the runs: who asks for work, which limits are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Final

from django.db.models import Count, Q

from agentplatform.clock import database_now
from agentplatform.rows import ask
from runs.domain.clocks import Deadline, deadlines
from runs.domain.display import Around, Stop
from runs.domain.facts import Json, stamp
from runs.domain.holds import Covered, Hold, longest
from runs.domain.offers import Asker, Needs, lacking
from runs.domain.outgoing import Full, Outgoing, full, has_limits, is_kept_in
from runs.domain.policy import Effective
from runs.domain.spending import SpendScope, Spent, caps_of, next_day, reached
from runs.domain.state import RunState
from runs.domain.vocabulary import CLAIMABLE, RunStatus
from runs.models import Lease, Run
from runs.models.holds import holds_in_force
from runs.models.spending import read_spending, runs_over_spend
from runs.selectors.policies import effective_policies
from runs.selectors.reviews import stuck_in
from runs.service import campaigns_full, outgoing_of

#: A worker that asked within this time is there; a waiting one asks again after 30 s at most.
FRESH: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One reading for any number of runs; ``around`` gives each run its part."""

    now: datetime
    policies: dict[str, Effective] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)  #: repository id → active leases
    outgoing: dict[str, Outgoing] = field(default_factory=dict)  #: of repositories with a limit on it
    askers: tuple[Asker, ...] = ()
    holds: tuple[Hold, ...] = ()
    platform_cap: Decimal | None = None
    spent: Spent = field(default_factory=dict)
    #: Campaign id → why it may begin no further pull request; read only where a run waits for that.
    paced: Callable[[], dict[str, Full]] = dict
    #: Ids of runs whose open request nobody is left to decide; read only where a run stands at a gate.
    stuck: Callable[[], frozenset[str]] = frozenset

    def for_rows(self, runs: Iterable[Run]) -> Surroundings:
        """The same, quicker for these few: who is left to decide is looked for at their gates alone."""
        gates = [run.pk for run in runs if run.status == RunStatus.WAITING_FOR_APPROVAL]
        return replace(self, stuck=cache(partial(stuck_in, self.policies.keys(), run_ids=gates)))

    def around(self, state: RunState, covered: Covered, labels: Iterable[str]) -> Around:
        """What this run's wait depends on; ``covered`` is what of its task holds and caps look at, ``labels``
        what it needs of a worker."""
        needs = Needs(frozenset(labels), self.isolation_in(state.repository_id))
        asked, lacks = self._workers_for(state, needs)
        cap = self._cap_reached(state.repository_id)
        return Around(
            stamp(self.now),
            asked,
            lacks,
            self.fresh_after,
            hold=self._hold(covered),
            spend=self._spend_cap(covered),
            cap=cap,
            full=self._full(state.repository_id) or self._pace(state, covered),
            undecidable=state.status == RunStatus.WAITING_FOR_APPROVAL and state.id in self.stuck(),
        )

    def _workers_for(self, state: RunState, needs: Needs) -> tuple[dict[str, str], dict[str, str]]:
        """For the role that it waits for: when somebody last asked who could take it, else what lacks."""
        role = CLAIMABLE.get(RunStatus(state.status)) if state.status else None
        if role is None:
            return {}, {}
        known = [asker for asker in self.askers if asker.is_for(role, state.repository_id)]
        fit = [asker.at for asker in known if asker.offers(role, needs)]
        return ({role: max(fit)}, {}) if fit else ({}, {role: lacking(known, needs)})

    def isolation_in(self, repository_id: str) -> str:
        """The least isolation that the repository's policy asks for."""
        policy = self.policies.get(repository_id)
        return str(policy.values["require_isolation"]) if policy else "none"

    def _hold(self, covered: Covered) -> Stop | None:
        hold = longest(self.holds, covered)
        return Stop(hold.sentence(now=stamp(self.now)), hold.since, hold.until) if hold else None

    def _spend_cap(self, covered: Covered) -> Stop | None:
        cap = reached(covered, self._caps(covered.repository_id), self.spent)
        return Stop(cap.sentence, "", next_day(self.now)) if cap else None

    def _caps(self, repository_id: str) -> dict[SpendScope, Decimal]:
        policy = self.policies.get(repository_id)
        return caps_of(policy.values, self.platform_cap) if policy else {}

    def runs_over_spend(self) -> Q:
        """Runs that a spend cap stops, as a condition on runs; ``_spend_cap`` as SQL."""
        found = Q(pk__in=[])
        for repository_id in self.policies:
            found |= runs_over_spend(repository_id, self._caps(repository_id), self.spent)
        return found

    @property
    def fresh_after(self) -> str:
        """Who asked for work since this stamp is there."""
        return stamp(self.now - FRESH)

    def full_repositories(self) -> list[str]:
        """Ids of the repositories whose limit of runs at once is reached."""
        return sorted(pk for pk in self.policies if self._cap_reached(pk) is not None)

    def kept_in_repositories(self) -> list[str]:
        """Ids of the repositories in which no further pull request may be begun."""
        return sorted(pk for pk in self.policies if self._full(pk) is not None)

    def _full(self, repository_id: str) -> Full | None:
        outgoing = self.outgoing.get(repository_id)
        return full(self.policies[repository_id].values, outgoing) if outgoing else None

    def _pace(self, state: RunState, covered: Covered) -> Full | None:
        kept_in = covered.campaign_id and is_kept_in(state)
        return self.paced().get(covered.campaign_id) if kept_in else None

    def _cap_reached(self, repository_id: str) -> int | None:
        policy = self.policies.get(repository_id)
        limit = policy.values["max_concurrent_runs"] if policy else None
        reached = limit is not None and self.held.get(repository_id, 0) >= limit
        return int(limit) if limit is not None and reached else None

    def due(self, state: RunState, contract: Json) -> str:
        """Stamp of the next clock that runs out on this run, or ""."""
        found = self.deadline(state, contract)
        return stamp(found.at) if found else ""

    def deadline(self, state: RunState, contract: Json) -> Deadline | None:
        """The clock of this run that runs out next."""
        policy = self.policies.get(state.repository_id)
        clocks = deadlines(state, contract, policy.values) if policy else []
        return clocks[0] if clocks else None


def read_surroundings(*, repository_ids: Iterable[str]) -> Surroundings:
    """The surroundings of runs in these repositories. Six queries, however many there are; two more where
    one of the repositories limits its pull requests, and one more when a run stands at a gate."""
    ids = set(repository_ids)
    held = Lease.objects.filter(repository_id__in=ids, ended_at__isnull=True)
    counted = held.values_list("repository_id").annotate(n=Count("pk"))
    policies = effective_policies(repository_ids=ids)
    limited = [pk for pk, policy in policies.items() if has_limits(policy.values)]
    platform_cap, spent = read_spending()
    return Surroundings(
        now=database_now(),
        policies=policies,
        outgoing=outgoing_of(limited) if limited else {},
        holds=tuple(holds_in_force()),
        platform_cap=platform_cap,
        spent=spent,
        paced=cache(campaigns_full),
        stuck=cache(partial(stuck_in, ids)),
        held=dict(counted),
        askers=tuple(_askers()),
    )


_ASKERS: Final = """
    SELECT roles,
        ARRAY(SELECT repository_id FROM worker_accounts_repositories WHERE workeraccount_id = account.id),
        last_asked_at, offers, isolation
    FROM worker_accounts account WHERE disabled_at IS NULL AND last_asked_at IS NOT NULL ORDER BY id
"""


def _askers() -> Iterator[Asker]:
    for roles, repositories, at, offers, isolation in ask(_ASKERS):
        yield Asker(
            roles=frozenset(roles),
            repositories=frozenset(repositories),
            at=stamp(at),
            labels=frozenset(offers),
            isolation=isolation or "none",
        )
