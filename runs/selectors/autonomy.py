"""What the judge's word was worth, by repository and kind of task: counted over the runs that ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from agentplatform.clock import database_now
from runs.domain.autonomy import Proposal, Rate, propose
from runs.domain.policy import Effective
from runs.models import Policy, Repository
from runs.selectors.outcomes import NONE
from runs.selectors.policies import effective_with, repositories_below

#: Older verdicts speak of other models and other code.
SINCE: Final = timedelta(days=180)
#: Kinds of task: by what the people who ask sort them, or by who works on them.
KINDS: Final = {"label": "Label", "agent": "Agent"}


@dataclass(slots=True)
class Evidence:
    """One repository, or one kind of its tasks.

    ``history``: hundredths of confidence → wrong of all verdicts. ``agreed``: reviewers who took what the
    judge passed, of all who decided. ``again``: runs that had to be reviewed again, of all that were.
    ``reverted``: of all merged. Seconds from a request to its decision, median and 95 of 100; None where
    nobody was asked.
    """

    history: dict[int, Rate] = field(default_factory=dict)
    agreed: Rate = field(default_factory=lambda: Rate(0, 0))
    again: Rate = field(default_factory=lambda: Rate(0, 0))
    reverted: Rate = field(default_factory=lambda: Rate(0, 0))
    median_seconds: float | None = None
    most_seconds: float | None = None

    @property
    def wrong(self) -> Rate:
        """Verdicts that the judge had passed wrongly, of all."""
        return sum(self.history.values(), Rate(0, 0))


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal for a repository's threshold; ``obstacle`` says why it cannot be applied there, "" where it
    can. ``based_on`` is the version of the repository's policy that it was made from."""

    repository: Repository
    proposal: Proposal
    threshold: float
    based_on: int
    values: Mapping[str, object]
    obstacle: str


_KIND: Final = {
    "": ("''", ""),
    "agent": ("o.agent", ""),
    "label": (
        "coalesce(l.label, %(none)s)",
        "JOIN tasks t ON t.id = o.task_id LEFT JOIN LATERAL unnest(t.labels) AS l(label) ON true",
    ),
}
#: A verdict is a person's, or the end of a pull request that went out alone. The last patch answers for what
#: happened to it later.
_VERDICTS: Final = """
SELECT o.repository_id, {kind}, floor((e.v ->> 'confidence')::numeric * 100)::int,
    count(*) FILTER (WHERE {wrong}), count(*),
    count(*) FILTER (WHERE e.v ->> 'verdict' = 'approved'),
    count(*) FILTER (WHERE e.v ->> 'verdict' <> 'alone'),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY (e.v ->> 'seconds')::float8),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY (e.v ->> 'seconds')::float8)
FROM run_outcomes o LEFT JOIN pull_requests p ON p.run_id = o.run_id
    CROSS JOIN LATERAL jsonb_array_elements(o.verdicts) WITH ORDINALITY AS e(v, n) {joins}
WHERE o.repository_id = ANY(%(ids)s) AND o.ended_at >= %(since)s
    AND (e.v ->> 'verdict' <> 'alone' OR p.state IN ('MERGED', 'CLOSED') OR p.reverted_at IS NOT NULL)
GROUP BY GROUPING SETS ((1, 2, 3), (1, 2))
"""
_WRONG: Final = """e.v ->> 'verdict' IN ('changes_requested', 'rejected')
    OR (e.v ->> 'verdict' = 'alone' AND p.state = 'CLOSED')
    OR (p.reverted_at IS NOT NULL AND e.n = jsonb_array_length(o.verdicts))"""
_RUNS: Final = """
SELECT o.repository_id, {kind},
    count(*) FILTER (WHERE o.verdicts @> '[{{"verdict": "changes_requested"}}]'),
    count(*) FILTER (WHERE o.verdicts @? '$[*] ? (@.verdict != "alone")'),
    count(p.reverted_at), count(*) FILTER (WHERE p.state = 'MERGED')
FROM run_outcomes o LEFT JOIN pull_requests p ON p.run_id = o.run_id {joins}
WHERE o.repository_id = ANY(%(ids)s) AND o.ended_at >= %(since)s AND o.verdicts <> '[]'
GROUP BY 1, 2
"""


def first_moment() -> datetime:
    """Since when verdicts count."""
    return database_now() - SINCE


def read_evidence(
    repository_ids: Collection[str], *, kind: str = "", since: datetime
) -> dict[tuple[str, str], Evidence]:
    """(repository id, kind) → its evidence, kinds by ``KINDS`` ("" for all together). Two queries.

    A task with two labels counts in both.
    """
    who, joins = _KIND[kind]
    words: dict[str, Any] = {"ids": sorted(repository_ids), "since": since, "none": NONE}
    found: dict[tuple[str, str], Evidence] = defaultdict(Evidence)
    with connection.cursor() as cursor:
        cursor.execute(_VERDICTS.format(kind=who, wrong=_WRONG, joins=joins), words)
        for where, name, sure, wrong, total, agreed, reviewed, median, most in cursor.fetchall():
            here = found[where, name]
            if sure is not None:
                here.history[sure] = Rate(wrong, total)
                continue
            here.agreed = Rate(agreed, reviewed)
            here.median_seconds, here.most_seconds = median, most
        cursor.execute(_RUNS.format(kind=who, joins=joins), words)
        for where, name, again, reviewed, reverted, merged in cursor.fetchall():
            here = found[where, name]
            here.again, here.reverted = Rate(again, reviewed), Rate(reverted, merged)
    return dict(found)


def find_proposals(
    rows: Iterable[Repository],
    evidence: Mapping[tuple[str, str], Evidence],
    policies: Mapping[str, Effective],
) -> dict[str, Proposed]:
    """Repository id → what is proposed for it; nothing for most. Queries only for those that have one."""
    found: dict[str, Proposed] = {}
    for row in rows:
        here, policy = evidence.get((row.pk, "")), policies[row.pk].values
        if here is None or not policy["allow_auto_pr"]:
            continue
        threshold = float(policy["judge_confidence"])
        proposal = propose(here.history, threshold=threshold, tolerated=policy["autonomy_error_rate"])
        if proposal:
            found[row.pk] = _proposed(row, proposal, threshold)
    return found


def _proposed(row: Repository, proposal: Proposal, threshold: float) -> Proposed:
    newest = row.policy.versions.order_by("-number").first()
    values = {**(newest.values if newest else {}), "judge_confidence": proposal.threshold}
    return Proposed(
        row,
        proposal,
        threshold,
        newest.number if newest else 0,
        values,
        _obstacle(row, row.policy, proposal, values),
    )


def _obstacle(row: Repository, policy: Policy, proposal: Proposal, values: dict[str, object]) -> str:
    """A lower level may only be stricter; and one repository's evidence speaks for no other."""
    if proposal.raises:
        return ""
    others = len(repositories_below(policy)) - 1
    if others:
        more = "1 more repository" if others == 1 else f"{others} more repositories"
        return f"The policy {policy} holds for {more}: give {row.name} a policy of its own first."
    then = effective_with(repository_ids=[row.pk], policy=policy, values=values)[row.pk]
    if then.values["judge_confidence"] > proposal.threshold:
        above = ", ".join(name for name in then.origins["judge_confidence"] if name != policy.name)
        return f"A policy above asks for {then.values['judge_confidence']} ({above}): it is lowered there."
    return ""
