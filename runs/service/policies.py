"""Policies in force, of many repositories at once, and new versions (lifecycle contract, section 16)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from django.db import IntegrityError, connection, transaction

from runs import store
from runs.domain.commands import Caller
from runs.domain.errors import Invalid, NotAllowedNow
from runs.domain.facts import Json
from runs.domain.policy import Effective, Level, check_values, effective
from runs.models import Policy, PolicyVersion
from runs.models.audit import Act
from runs.models.chains import POLICY_CHAIN
from runs.service.audit import audit_record


def policy_change(
    *, policy: Policy, values: Json, based_on: int, by: Caller, reason: str = "", note: str = ""
) -> PolicyVersion:
    """The next version, made from version ``based_on`` (0: there was none). ``note``: what led to it, for the
    audit log.

    Raises ``Invalid`` with each field that is wrong, ``NotAllowedNow`` when another version came first.
    """
    if wrong := check_values(values):
        raise Invalid(wrong)
    late = NotAllowedNow("Another version was saved meanwhile; look at it, and change that one.")
    try:
        with transaction.atomic():
            newest = policy.versions.order_by("-number").first()
            if (newest.number if newest else 0) != based_on:
                raise late
            made = store.add_policy_version(policy, values, by=by.name)
            audit_record(
                by=by,
                act=Act.CHANGED,
                row=policy,
                before=newest.values if newest else {},
                after=values,
                note=f"Version {made.number}. {note}".strip(),
                reason=reason,
            )
    except IntegrityError:
        raise late from None
    return made


# --- in force -------------------------------------------------------------------------------------

_CHAINS: Final = f"""
WITH RECURSIVE {POLICY_CHAIN.format(repositories="= ANY(%(ids)s)")}
SELECT repository_id, name, number, values::text, via, pattern FROM levels
ORDER BY repository_id, position, rule_id, depth DESC
"""  # noqa: S608  our own words


def effective_policies(*, repository_ids: Iterable[str]) -> dict[str, Effective]:
    """Repository id → the policy in force there. One query."""
    chains = chains_of(repository_ids)
    return {repository_id: effective(chain) for repository_id, chain in chains.items()}


def chains_of(repository_ids: Iterable[str]) -> dict[str, list[Level]]:
    """Repository id → the levels that its policy is made of, from the widest down. One query."""
    levels: dict[str, list[Level]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_CHAINS, {"ids": sorted(set(repository_ids))})
        for repository_id, name, number, values, via, pattern in cursor.fetchall():
            levels[repository_id].append(Level(name, number, json.loads(values), via, pattern))
    return levels
