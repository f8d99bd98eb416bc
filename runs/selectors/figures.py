"""How it goes: what leads ask of the last days, counted over the runs that ended (``RunOutcome``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.urls import reverse

from agentplatform.clock import database_now
from runs.auth import Principal, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.outcomes import EXPIRED
from runs.domain.times import spell
from runs.domain.vocabulary import ACTIVE, FailureCategory, RunStatus
from runs.models import Run, RunOutcome
from runs.selectors.charts import Bar, Column, bars, columns
from runs.selectors.mine import my_repositories
from runs.selectors.run_filters import QUIET
from runs.selectors.words import money

PERIODS: Final = (7, 30, 90)
#: Medians are taken of the newest so many runs of the period.
SAMPLED: Final = 2_000
#: Bars of one chart; what is left is one more.
SHOWN: Final = 8

S = RunStatus
_ENDINGS: Final = (
    (Display.COMPLETED, "ok", (S.SUCCEEDED,)),
    (Display.FAILED, "bad", (S.FAILED, S.EXPIRED)),
    (Display.CANCELLED, "quiet", (S.CANCELLED,)),
)
_BAD: Final = (S.FAILED.value, S.EXPIRED.value)
Rows = QuerySet[RunOutcome]


@dataclass(frozen=True, slots=True)
class Span:
    """The days that are looked at, the last of them today, and the repositories (None: all that are seen)."""

    days: int
    today: date
    mine: bool

    @property
    def first(self) -> date:
        """The first day."""
        return self.today - timedelta(days=self.days - 1)

    def href(self, **narrowed: str) -> str:
        """The list of the runs behind a figure."""
        also = {"mine": "1"} if self.mine else {}
        since = {} if "ended_on" in narrowed or "quiet" in narrowed else {"ended_since": str(self.first)}
        return f"{reverse('runs')}?{urlencode({**narrowed, **since, **also})}"


def run_figures(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{periods, scopes, ended, failures, stays, costs, repairs, stuck, export}`` of home. Six queries at
    most, whatever the number of runs; what adds up is counted in one look at them.

    ``params``: days (7, 30 or 90), mine.
    """
    asked = params.get("days", "")
    days = int(asked) if asked in {str(period) for period in PERIODS} else PERIODS[1]
    now = database_now()
    span = Span(days, now.date(), mine=bool(params.get("mine")))
    ids = visible_repositories(principal)
    if span.mine:
        mine = my_repositories(principal)
        ids = mine if ids is None else ids & mine
    begin = datetime(span.first.year, span.first.month, span.first.day, tzinfo=UTC)
    rows = _within(RunOutcome.objects.filter(ended_at__gte=begin), ids)
    by_day, by_origin = _by_day(rows), _by_origin(rows)
    active = _within(Run.objects.filter(status__in=[status.value for status in ACTIVE]), ids)
    return {
        "days": days,
        "periods": _choices([(f"{period} days", period, span.mine) for period in PERIODS], span),
        "scopes": _choices([("All repositories", days, False), ("Mine", days, True)], span),
        "ended": _ended(by_day, span),
        "failures": _failures(by_day, span),
        "stays": _stays(rows, span),
        "costs": [_costs(by_origin, span, *by) for by in _COST_BY],
        "repairs": list(_sent_back(by_origin, span)),
        "stuck": _stuck(active, span, now),
        "export": {"href": span.href().replace(reverse("runs"), reverse("runs_csv"), 1), "text": "CSV"},
    }


def _within(rows: QuerySet[Any], ids: frozenset[str] | None) -> QuerySet[Any]:
    return rows if ids is None else rows.filter(repository_id__in=ids)


def _choices(offered: list[tuple[str, int, bool]], span: Span) -> list[Json]:
    """Links to the other views, each a whole address."""
    return [
        {
            "label": label,
            "href": f"?{urlencode({'days': days, **({'mine': '1'} if mine else {})})}#figures",
            "current": (days, mine) == (span.days, span.mine),
        }
        for label, days, mine in offered
    ]


# --- how runs ended, day by day ----------------------------------------------------------------------


def _by_day(rows: Rows) -> list[Json]:
    """``{day, status, failure_category, n}`` of all that ended. One query."""
    per_day = rows.annotate(day=TruncDate("ended_at", tzinfo=UTC)).values("day", "status", "failure_category")
    return [dict(row) for row in per_day.annotate(n=Count("*")).order_by()]


def _ended(by_day: list[Json], span: Span) -> Json:
    """``{chart, total, tally, empty}``. No query."""
    found: dict[date, Counter[str]] = defaultdict(Counter)
    for row in by_day:
        found[row["day"]][row["status"]] += row["n"]
    dates = [span.first + timedelta(days=number) for number in range(span.days)]
    totals = {state: sum(_sum(found[day], statuses) for day in dates) for state, _, statuses in _ENDINGS}
    return {
        "chart": columns([_day(day, found[day], span) for day in dates]),
        "total": f"{sum(totals.values()):,}",
        "empty": not any(totals.values()),
        "tally": [
            {
                "display": {"state": state.value, "title": state.label, "icon": state.icon, "tone": tone},
                "count": f"{totals[state]:,}",
                "href": span.href(display=state.value),
            }
            for state, tone, _ in _ENDINGS
        ],
    }


def _sum(counts: Mapping[str, int], statuses: tuple[RunStatus, ...]) -> int:
    return sum(counts.get(status.value, 0) for status in statuses)


def _day(day: date, counts: Mapping[str, int], span: Span) -> Column:
    parts = [(state, tone, _sum(counts, statuses)) for state, tone, statuses in _ENDINGS]
    words = ", ".join(f"{count:,} {state.label.lower()}" for state, _, count in parts if count)
    label = f"{day:%a} {day.day} {day:%b}"
    return Column(
        label if not words else f"{label}: {words}",
        label,
        span.href(ended_on=str(day)),
        [(tone, count) for _, tone, count in parts],
    )


# --- why runs failed -------------------------------------------------------------------------------------


def _failures(by_day: list[Json], span: Span) -> list[Json]:
    """Bars by category. No query."""
    counts: Counter[str] = Counter()
    for row in by_day:
        if row["status"] in _BAD:
            counts[row["failure_category"]] += row["n"]
    return bars(
        Bar(_category(name), count, f"{count:,}", span.href(failure_category=name), tone="bad")
        for name, count in counts.most_common()
    )


def _category(name: str) -> str:
    if name == EXPIRED:
        return "A clock ran out"
    return FailureCategory(name).label if name in list(FailureCategory) else name or "Unknown"


# --- where the time went ---------------------------------------------------------------------------------

_PERCENTILES: Final = """
SELECT key, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY value::float),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY value::float)
FROM ({newest}) AS newest, jsonb_each_text(newest.spent) GROUP BY key
"""


def _stays(rows: Rows, span: Span) -> Json:
    """``{rows: bars, note}``: seconds in each status, median and p95. One query."""
    found = _percentiles(rows)
    data = [
        Bar(
            status.label,
            found[status][1],
            _length(found[status][1]),
            span.href(slow=f"{status.value}:{int(found[status][2])}"),
            f"p95 {_length(found[status][2])}",
            "busy",
        )
        for status in RunStatus
        if status in found and found[status][2] >= 1
    ]
    return {"rows": bars(data), "note": f"Of the newest {SAMPLED:,} runs at most."}


def _percentiles(rows: Rows) -> dict[str, tuple[int, float, float]]:
    """Status → how many runs were in it, median and p95 of their seconds there."""
    try:
        newest, params = rows.order_by("-ended_at").values("spent")[:SAMPLED].query.sql_with_params()
    except EmptyResultSet:  # somebody who sees no repository
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_PERCENTILES.format(newest=newest), params)
        return {key: (count, median, most) for key, count, median, most in cursor.fetchall()}


def _length(seconds: float) -> str:
    return spell(timedelta(seconds=seconds)) if seconds >= 1 else "< 1 s"


# --- what it cost ----------------------------------------------------------------------------------------

_COST_BY: Final = (("By repository", "repository", "repository__name"), ("By agent", "agent", "agent"))


def _by_origin(rows: Rows) -> list[Json]:
    """``{repository__name, agent, cost, n}`` and what was sent back, of all that ended. One query."""
    sums: dict[str, Any] = {"cost": Sum("cost_usd"), "n": Count("*")}
    for who in _WHO:
        sums[f"{who}_seen"] = Count("pk", filter=Q(**{f"{who}_repairs__isnull": False}))
        sums[f"{who}_back"] = Count("pk", filter=Q(**{f"{who}_repairs__gt": 0}))
        sums[f"{who}_times"] = Sum(f"{who}_repairs")
    found = rows.values("repository__name", "agent").annotate(**sums).order_by()
    return [dict(row) for row in found]


def _costs(by_origin: list[Json], span: Span, title: str, name: str, column: str) -> Json:
    """``{title, rows: bars}``, the dearest first. No query."""
    costs: dict[str, Decimal] = defaultdict(Decimal)
    counts: Counter[str] = Counter()
    for row in by_origin:
        costs[row[column]] += row["cost"]
        counts[row[column]] += row["n"]
    dearest = sorted(costs, key=lambda one: (-costs[one], -counts[one], one))
    return {
        "title": title,
        "rows": bars(
            Bar(
                one,
                float(costs[one]),
                money(costs[one]),
                span.href(**{name: one}),
                f"{counts[one]:,} runs",
                "busy",
            )
            for one in dearest[:SHOWN]
        ),
    }


# --- what was sent back ----------------------------------------------------------------------------------


_WHO: Final = {"verifier": "Sent back by checks", "judge": "Sent back by the judge"}


def _sent_back(by_origin: list[Json], span: Span) -> Iterator[Json]:
    """Of the runs that a check or the judge looked at, how many it sent back. No query."""
    for who, label in _WHO.items():
        seen, back, times = (
            sum(row[f"{who}_{name}"] or 0 for row in by_origin) for name in ("seen", "back", "times")
        )
        yield {
            "label": label,
            "text": f"{100 * back / seen:.0f} %" if seen else "–",
            "note": f"{back:,} of {seen:,} runs, {times:,} {'repair' if times == 1 else 'repairs'}",
            "href": span.href(sent_back=who),
        }


# --- what does not move ----------------------------------------------------------------------------------


def _stuck(active: QuerySet[Run], span: Span, now: datetime) -> Json:
    """Unfinished runs of which nothing was heard for ``QUIET``. One query."""
    count = active.filter(updated_at__lt=now - QUIET).count()
    runs = "1 unfinished run" if count == 1 else f"{count:,} unfinished runs"
    return {
        "text": f"{runs} without news for {spell(QUIET)}" if count else "",
        "href": span.href(quiet="1"),
    }
