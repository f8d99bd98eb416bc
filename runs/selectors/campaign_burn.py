"""The burn-down of a campaign: how many of its repositories were still to be done, over time."""

from __future__ import annotations

from typing import Final

from django.db import connection

from agentplatform.clock import database_now
from runs.domain.facts import Json
from runs.models import Campaign
from runs.selectors.charts import HEIGHT, WIDTH
from runs.selectors.words import when

#: Points of the line, however long the log is.
POINTS: Final = 60

# What ends a repository takes one from what is left; a retry gives those that failed back.
_STEPS: Final = """
SELECT least(%(points)s, width_bucket(extract(epoch FROM recorded_at), %(start)s, %(end)s, %(points)s))
    AS bucket,
    sum(CASE event_type
        WHEN 'part_ended' THEN 1
        WHEN 'campaign_cancel_requested' THEN (facts ->> 'not_begun')::int
        ELSE -jsonb_array_length(facts -> 'repositories') END)
FROM campaign_events
WHERE campaign_id = %(campaign)s
    AND event_type IN ('part_ended', 'parts_retried', 'campaign_cancel_requested')
GROUP BY bucket ORDER BY bucket
"""


def burn_down(campaign: Campaign) -> Json | None:
    """``{path, width, height, total, left, since, until, sentence}``; None before anything has ended. Two
    queries."""
    until = campaign.ended_at or database_now()
    start, end = campaign.created_at.timestamp(), until.timestamp()
    words: dict[str, str | float] = {
        "start": start,
        "end": max(end, start + 1),
        "points": POINTS,
        "campaign": campaign.pk,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, words)
        ended = {int(bucket): int(count) for bucket, count in cursor.fetchall()}
    if not ended:
        return None
    total = campaign.parts_total
    left, lefts = total, [total]
    for bucket in range(1, POINTS + 1):
        left -= ended.get(bucket, 0)
        lefts.append(left)
    return {
        "path": _area(lefts, total),
        "width": WIDTH,
        "height": HEIGHT,
        "total": total,
        "left": left,
        "since": when(campaign.created_at),
        "until": when(until),
        "sentence": f"{left} of {total} repositories are still to be done",
    }


def _area(lefts: list[int], total: int) -> str:
    """The area under the line, in steps: between two readings nothing is known to have moved."""
    slot = WIDTH / (len(lefts) - 1)
    path, y = [f"M0 {HEIGHT}"], 0.0
    for place, left in enumerate(lefts):
        x, lower = round(place * slot, 1), round(HEIGHT * (1 - left / max(total, 1)), 1)
        path += [f"L{x} {y}", f"L{x} {lower}"]
        y = lower
    return " ".join([*path, f"L{WIDTH} {HEIGHT}", "Z"])
