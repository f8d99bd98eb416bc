"""What events cost goes to the daily ledger, in their own transaction."""

from __future__ import annotations

import zlib
from decimal import Decimal
from typing import Any, Final

from psycopg import Cursor

from runs.domain.facts import moment
from runs.domain.spending import keys_of
from runs.domain.state import RunState
from runs.models import Run
from runs.models.holds import covered_of
from runs.models.spending import SHARDS

# Always in the order of the scopes: two runs of one shard never wait for each other crosswise.
_ADD: Final = """
INSERT INTO day_spend (day, scope, key, shard, amount)
SELECT %s, scope, key, %s, %s FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS one (scope, key, place)
ORDER BY place
ON CONFLICT (day, scope, key, shard) DO UPDATE SET amount = day_spend.amount + excluded.amount
"""


def record_spending(cursor: Cursor[Any], run: Run, before: RunState, after: RunState) -> None:
    """Add what a run's events cost, in US dollars, to the ledger of their day."""
    amount = Decimal(after.used["cost_usd"]) - Decimal(before.used["cost_usd"])
    if not amount:
        return
    keys = keys_of(covered_of(run.task))
    shard = zlib.crc32(run.pk.encode()) % SHARDS
    day = moment(after.updated_at).date()
    cursor.execute(_ADD, [day, shard, amount, [scope.value for scope in keys], list(keys.values())])
