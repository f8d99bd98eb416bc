"""Policies in force, for many repositories at once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from django.db import connection

from runs.domain.policy import Effective, Level, effective

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
    levels: dict[str, list[Level]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_CHAINS, [sorted(set(repository_ids))])
        for repository_id, name, number, values in cursor.fetchall():
            levels[repository_id].append(Level(name, number, json.loads(values)))
    return {repository_id: effective(chain) for repository_id, chain in levels.items()}
