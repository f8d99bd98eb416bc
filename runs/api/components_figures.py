"""The shapes of figures as JSON Schema: what ``runs.selectors.outcome_page`` counts."""

from __future__ import annotations

from typing import Final

from runs.api.words import MONEY, TEXT, WHOLE, many, one_of, or_null, shape
from runs.domain.facts import Json
from runs.selectors.outcomes import DIMENSIONS

_COUNTS: Final[Json] = {
    "runs": WHOLE,
    "opened": WHOLE,
    "open": WHOLE,
    "merged": WHOLE,
    "closed": WHOLE,
    "reverted": WHOLE,
    "red_checks": WHOLE,
    "median_seconds_to_merge": or_null(WHOLE),
    "cost_usd": MONEY,
    "cost_usd_per_merged": or_null(MONEY),
}
FIGURES: Final[dict[str, Json]] = {
    "Outcomes": shape(
        by=one_of(DIMENSIONS),
        since={"type": "string", "format": "date"},
        results=many(shape(name=TEXT, title=TEXT, **_COUNTS)),
        total=shape(**_COUNTS),
    ),
}
