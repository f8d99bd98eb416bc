"""Which policies hold for a repository, in which order: one statement for all who ask.

From far to near: the platform's, which holds for all; those that rules put over the repository's name, by the
rules' position; the repository's own. Each has all that it inherits from above it. One that is reached twice
counts where it is reached first, so that nothing ever stands above what it inherits from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from runs.domain.policy import Level

#: ``{repositories}`` is a condition on a repository's id, such as ``= %s``.
POLICY_CHAIN: Final = """
roots AS (
    SELECT r.id AS repository_id, r.policy_id, 2147483647 AS position, 0::bigint AS rule_id, '' AS pattern
    FROM repositories r WHERE r.id {repositories}
    UNION ALL
    SELECT r.id, p.id, -1, 0, ''
    FROM repositories r JOIN policies p ON p.name = 'platform' WHERE r.id {repositories}
    UNION ALL
    SELECT r.id, rule.policy_id, rule.position, rule.id, rule.pattern
    FROM repositories r JOIN policy_rules rule ON r.name LIKE rule.name_like WHERE r.id {repositories}
), chain AS (
    SELECT o.repository_id, o.position, o.rule_id, o.pattern, p.id, p.name, p.inherits_id, 0 AS depth
    FROM roots o JOIN policies p ON p.id = o.policy_id
    UNION ALL
    SELECT c.repository_id, c.position, c.rule_id, c.pattern, p.id, p.name, p.inherits_id, c.depth + 1
    FROM policies p JOIN chain c ON p.id = c.inherits_id WHERE c.depth < 20
), places AS (
    SELECT DISTINCT ON (repository_id, id) *,
        CASE WHEN depth > 0 OR position < 0 THEN 'inherited'
            WHEN pattern = '' THEN 'own' ELSE 'pattern' END AS via
    FROM chain ORDER BY repository_id, id, position, rule_id, depth DESC
), levels AS (
    SELECT p.repository_id, p.position, p.rule_id, p.depth, p.name, coalesce(v.number, 0) AS number,
        coalesce(v.values, '{{}}') AS values, p.via,
        CASE p.via WHEN 'pattern' THEN p.pattern ELSE '' END AS pattern
    FROM places p LEFT JOIN LATERAL (
        SELECT number, values FROM policy_versions WHERE policy_id = p.id ORDER BY number DESC LIMIT 1
    ) v ON true
)
"""
#: The levels of one repository as a JSON list, the farthest first; null where there are none.
LEVELS: Final = """(
    SELECT jsonb_agg(to_jsonb(level) - 'repository_id' - 'position' - 'rule_id' - 'depth'
        ORDER BY position, rule_id, depth DESC) FROM levels level
)"""


def read_levels(rows: Iterable[Mapping[str, Any]]) -> list[Level]:
    """The levels that a statement gave as JSON."""
    return [Level(**row) for row in rows]
