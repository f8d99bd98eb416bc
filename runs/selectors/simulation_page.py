"""What a policy's next version would have decided of the newest runs below it, for the page that saves it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from django.urls import reverse

from runs.domain.facts import Json
from runs.domain.simulation_compare import Difference
from runs.domain.vocabulary import Ev
from runs.models import Policy
from runs.selectors.policies import effective_policies, effective_with, repositories_below
from runs.selectors.simulation import SimulatedRun, newest_runs, simulate_runs
from runs.selectors.words import when

#: What one look at the page may cost; the command asks all.
MOST_RUNS: Final = 40
MOST_EVENTS: Final = 2_000


def policy_decisions(*, policy: Policy, values: Json) -> Json:
    """``{looked, different, undecidable, already, rows: [{title, repository, href, differences: [{event,
    at, href, was, then, changes}], undecidable}]}`` with ``values`` as the policy's next version.

    Of the newest runs, at most ``MOST_RUNS`` with ``MOST_EVENTS`` events; ``already`` counts differences that
    the policy in force makes as well and that are not shown. Ten queries at most beside those for levels of
    policies.
    """
    names = repositories_below(policy)
    runs = newest_runs(list(names), runs=MOST_RUNS, events=MOST_EVENTS)
    ids = {run.repository_id for run in runs}
    in_force = effective_policies(repository_ids=ids)
    policies = effective_with(repository_ids=ids, policy=policy, values=values)
    found: Counter[str] = Counter()
    rows = []
    for one in simulate_runs(iter(runs), policies=policies, in_force=in_force):
        found["already"] += len(one.already)
        found["different"] += bool(one.new)
        found["undecidable"] += bool(one.simulated.undecidable)
        if one.new or one.simulated.undecidable:
            rows.append(_row(one, names))
    counts = {name: found[name] for name in ("different", "undecidable", "already")}
    return {"looked": len(runs), "rows": rows, **counts}


def _row(one: SimulatedRun, names: dict[str, str]) -> Json:
    href = reverse("run", args=[one.run.pk])
    return {
        "title": one.run.task.title,
        "repository": names[one.run.repository_id],
        "href": href,
        "differences": [_difference(difference, href) for difference in one.new],
        "undecidable": one.simulated.undecidable,
    }


def _difference(difference: Difference, href: str) -> Json:
    return {
        "event": Ev(difference.event).label,
        "at": when(difference.at),
        "href": f"{href}#e{difference.sequence}",
        "was": difference.recorded,
        "then": difference.simulated,
        "changes": [f"{c.what}: {c.recorded} → {c.simulated}" for c in difference.changes],
    }
