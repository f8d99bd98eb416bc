"""Policies in force, for many repositories at once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from django.db import connection

from runs.domain.facts import Json
from runs.domain.policy import DEFAULTS, Effective, Level, effective
from runs.models import Policy, PolicyRule
from runs.models.chains import POLICY_CHAIN

#: Repositories whose changes are shown one by one.
MOST_SHOWN: Final = 20

_CHAINS: Final = f"""
WITH RECURSIVE {POLICY_CHAIN.format(repositories="= ANY(%(ids)s)")}
SELECT repository_id, name, number, values::text, via, pattern FROM levels
ORDER BY repository_id, position, rule_id, depth DESC
"""  # noqa: S608  our own words


def effective_policies(*, repository_ids: Iterable[str]) -> dict[str, Effective]:
    """Repository id → the policy in force there. One query."""
    chains = _chains(repository_ids)
    return {repository_id: effective(chain) for repository_id, chain in chains.items()}


def _chains(repository_ids: Iterable[str]) -> dict[str, list[Level]]:
    levels: dict[str, list[Level]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_CHAINS, {"ids": sorted(set(repository_ids))})
        for repository_id, name, number, values, via, pattern in cursor.fetchall():
            levels[repository_id].append(Level(name, number, json.loads(values), via, pattern))
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
    names = _names_below(policy)
    shown: list[Json] = []
    for repository_id, chain in _chains(names).items():
        new = [replace(one, values=values) if one.name == policy.name else one for one in chain]
        if changes := policy_difference(values=effective(chain).values, others=effective(new).values):
            shown.append({"name": names[repository_id], "changes": changes})
    shown.sort(key=lambda one: one["name"])
    return {"repositories": len(names), "changed": len(shown), "shown": shown[:MOST_SHOWN]}


_BELOW: Final = """
SELECT r.id, r.name FROM repositories r WHERE r.policy_id = ANY(%(policies)s) OR EXISTS (
    SELECT FROM policy_rules rule WHERE rule.policy_id = ANY(%(policies)s) AND r.name LIKE rule.name_like
) ORDER BY r.name
"""


def _names_below(policy: Policy) -> dict[str, str]:
    """Repository id → name, of those that the policy holds for: by name, by inheritance or by a rule."""
    below, level = [policy.pk], [policy.pk]
    while level := list(
        Policy.objects.filter(inherits__in=level).exclude(pk__in=below).values_list("pk", flat=True)
    ):
        below += level
    with connection.cursor() as cursor:
        cursor.execute(_BELOW, {"policies": below})
        return dict(cursor.fetchall())


def names_fitting(*, rule: PolicyRule) -> list[str]:
    """Names of the repositories that a rule fits, in order. One query."""
    statement = "SELECT r.name FROM repositories r WHERE r.name LIKE %s ORDER BY r.name"
    with connection.cursor() as cursor:
        cursor.execute(statement, [rule.name_like])
        return [name for (name,) in cursor.fetchall()]
