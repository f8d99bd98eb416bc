"""Policies in force, for many repositories at once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from django.db import connection

from runs.domain.facts import Json
from runs.domain.policy import DEFAULTS, Effective, Level, effective
from runs.models import Policy, Repository

#: Repositories whose changes are shown one by one.
MOST_SHOWN: Final = 20

_CHAINS = """
WITH RECURSIVE chain AS (
    SELECT r.id AS repository_id, p.id, p.name, p.inherits_id, 0 AS depth
    FROM repositories r JOIN policies p ON r.policy_id = p.id WHERE r.id = ANY(%s)
    UNION ALL
    SELECT c.repository_id, p.id, p.name, p.inherits_id, c.depth + 1
    FROM policies p JOIN chain c ON p.id = c.inherits_id WHERE c.depth < 20
)
SELECT c.repository_id, c.name, coalesce(v.number, 0), coalesce(v.values::text, '{}') FROM chain c
LEFT JOIN LATERAL (
    SELECT number, values FROM policy_versions WHERE policy_id = c.id ORDER BY number DESC LIMIT 1
) v ON true
ORDER BY c.repository_id, c.depth DESC
"""


def effective_policies(*, repository_ids: Iterable[str]) -> dict[str, Effective]:
    """Repository id → the policy in force there. One query."""
    chains = _chains(repository_ids)
    return {repository_id: effective(chain) for repository_id, chain in chains.items()}


def _chains(repository_ids: Iterable[str]) -> dict[str, list[Level]]:
    levels: dict[str, list[Level]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_CHAINS, [sorted(set(repository_ids))])
        for repository_id, name, number, values in cursor.fetchall():
            levels[repository_id].append(Level(name, number, json.loads(values)))
    return levels


def policy_difference(*, values: Json, others: Json) -> list[Json]:
    """``{name, before, after}`` for each field that differs; None where one does not set it."""
    names = [name for name in DEFAULTS if values.get(name) != others.get(name)]
    return [{"name": name, "before": values.get(name), "after": others.get(name)} for name in names]


def policy_effects(*, policy: Policy, values: Json) -> Json:
    """What ``values`` as the policy's next version would change in force.

    ``{repositories: how many are below it, shown: [{name, changes: [{name, before, after}]}]}``; of those
    that change, the first ``MOST_SHOWN``. Two queries, and one for each level of policies below.
    """
    below, level = [policy.pk], [policy.pk]
    while level := list(
        Policy.objects.filter(inherits__in=level).exclude(pk__in=below).values_list("pk", flat=True)
    ):
        below += level
    names = dict(Repository.objects.filter(policy__in=below).order_by("name").values_list("pk", "name"))
    shown: list[Json] = []
    for repository_id, chain in _chains(names).items():
        new = [Level(one.name, one.number, values) if one.name == policy.name else one for one in chain]
        if changes := policy_difference(values=effective(chain).values, others=effective(new).values):
            shown.append({"name": names[repository_id], "changes": changes})
    shown.sort(key=lambda one: one["name"])
    return {"repositories": len(names), "changed": len(shown), "shown": shown[:MOST_SHOWN]}
