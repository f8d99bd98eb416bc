"""The daily ledger: what was spent today, by platform, repository and submitter."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from django.db import models
from django.db.models import Q

from agentplatform.rows import ask
from runs.domain.holds import Covered
from runs.domain.spending import SpendScope, Spent, reached

#: A total lies in as many rows, so that runs which report at once seldom wait for each other.
SHARDS: Final = 32


class DaySpend(models.Model):
    """A part of what was spent on one day under one key; a projection of the events' costs."""

    day = models.DateField(help_text="In UTC.")
    scope = models.CharField(max_length=20, choices=[(s.value, s.label) for s in SpendScope])
    key = models.CharField(max_length=40, blank=True, help_text="Id of repository or person.")
    shard = models.PositiveSmallIntegerField()
    amount = models.DecimalField(max_digits=24, decimal_places=12)

    class Meta:
        db_table = "day_spend"
        constraints = [
            models.UniqueConstraint(fields=["day", "scope", "key", "shard"], name="one_part_of_a_days_spend")
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.scope} {self.key}"


_TOTALS: Final = """
SELECT scope, key, sum(amount) FROM day_spend
WHERE day = (clock_timestamp() AT TIME ZONE 'UTC')::date - %s::int
    AND (%s::text[] IS NULL OR key = ANY(%s::text[]))
GROUP BY scope, key
UNION ALL
SELECT 'cap', '', (
    SELECT (v.values ->> 'spend_cap_usd_per_day')::numeric FROM policy_versions v
    JOIN policies p ON p.id = v.policy_id WHERE p.name = 'platform' ORDER BY v.number DESC LIMIT 1
)
"""


def read_spending(
    keys: list[str] | None = None, *, days_ago: int = 0
) -> tuple[Decimal | None, dict[tuple[str, str], Decimal]]:
    """The platform's cap, or None, and what was spent today (or days ago) by (scope, key). One query.

    ``keys`` narrows it to these; at most ``SHARDS`` rows are read for each.
    """
    found = {(scope, key): amount for scope, key, amount in ask(_TOTALS, [days_ago, keys, keys])}
    return found.pop(("cap", "")), found


def runs_over_spend(repository_id: str, caps: Mapping[SpendScope, Decimal], spent: Spent) -> Q:
    """Runs of a repository that one of its caps stops, as a condition on runs; ``reached`` as SQL."""
    if reached(Covered(repository_id), caps, spent):
        return Q(repository_id=repository_id)
    submitters = [key for scope, key in spent if scope == SpendScope.SUBMITTER]
    over = [key for key in submitters if reached(Covered(repository_id, submitter_id=key), caps, spent)]
    if not over:
        return Q(pk__in=[])
    return Q(repository_id=repository_id, task__created_by_id__in=over)
