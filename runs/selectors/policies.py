"""Policies in force, for many repositories at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from django.db import connection

from runs.domain.facts import Json
from runs.domain.policy import DEFAULTS, Effective, Level, effective
from runs.models import Policy, PolicyRule, Repository
from runs.service.policies import chains_of, effective_policies

__all__ = [
    "effective_policies",
    "effective_with",
    "names_fitting",
    "policy_difference",
    "policy_effects",
    "repositories_below",
]

#: Repositories whose changes are shown one by one.
MOST_SHOWN: Final = 20


def policy_difference(*, values: Json, others: Json) -> list[Json]:
    """``{name, before, after}`` for each field that differs; None where one does not set it."""
    names = [name for name in DEFAULTS if values.get(name) != others.get(name)]
    return [{"name": name, "before": values.get(name), "after": others.get(name)} for name in names]


def policy_effects(*, policy: Policy, values: Json) -> Json:
    """What ``values`` as the policy's next version would change in force.

    ``{repositories: how many are below it, shown: [{name, changes: [{name, before, after}]}]}``; of those
    that change, the first ``MOST_SHOWN``. Three queries, and one for each level of policies below.
    """
    names = repositories_below(policy)
    shown: list[Json] = []
    for repository_id, chain in chains_of(names).items():
        then = effective(_with(chain, policy, values)).values
        if changes := policy_difference(values=effective(chain).values, others=then):
            shown.append({"name": names[repository_id], "changes": changes})
    shown.sort(key=lambda one: one["name"])
    return {"repositories": len(names), "changed": len(shown), "shown": shown[:MOST_SHOWN]}


_BELOW: Final = """
SELECT r.id, r.name FROM repositories r WHERE r.policy_id = ANY(%(policies)s) OR EXISTS (
    SELECT FROM policy_rules rule WHERE rule.policy_id = ANY(%(policies)s) AND r.name LIKE rule.name_like
) ORDER BY r.name
"""


def effective_with(*, repository_ids: Iterable[str], policy: Policy, values: Json) -> dict[str, Effective]:
    """Repository id → the policy that would be in force there with ``values`` as the policy's next version.
    One query."""
    return {
        repository_id: effective(_with(chain, policy, values))
        for repository_id, chain in chains_of(repository_ids).items()
    }


def _with(chain: list[Level], policy: Policy, values: Json) -> list[Level]:
    return [replace(one, values=values) if one.name == policy.name else one for one in chain]


def repositories_below(policy: Policy) -> dict[str, str]:
    """Repository id → name, of those that the policy holds for: by name, by inheritance or by a rule; all of
    them where ``platform`` is it, or inherits from it."""
    below, level = [policy.pk], [policy.pk]
    while level := list(
        Policy.objects.filter(inherits__in=level).exclude(pk__in=below).values_list("pk", flat=True)
    ):
        below += level
    if Policy.objects.filter(pk__in=below, name=Policy.PLATFORM).exists():
        return dict(Repository.objects.order_by("name").values_list("pk", "name"))
    with connection.cursor() as cursor:
        cursor.execute(_BELOW, {"policies": below})
        return dict(cursor.fetchall())


def names_fitting(*, rule: PolicyRule) -> list[str]:
    """Names of the repositories that a rule fits, in order. One query."""
    statement = "SELECT r.name FROM repositories r WHERE r.name LIKE %s ORDER BY r.name"
    with connection.cursor() as cursor:
        cursor.execute(statement, [rule.name_like])
        return [name for (name,) in cursor.fetchall()]
