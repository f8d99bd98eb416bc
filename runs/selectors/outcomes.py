"""What became of the work: counted over the runs that ended (``RunOutcome``) and their pull requests' lives.

A group's cost is that of all its runs, those that came to nothing included: what its merged changes cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q

from agentplatform.clock import database_now
from runs.auth import Principal, visible_repositories
from runs.models import RunOutcome
from runs.selectors.mine import my_repositories
from runs.selectors.teams import repositories_by_team

PERIODS: Final = (7, 30, 90)
#: Groups of one table; what is left is said.
MOST_GROUPS: Final = 200
#: What a task or repository without any is called; no label may have that name.
NONE: Final = "(none)"
#: Words that narrow the outcomes beside the repository, as in the list of runs.
NARROWS: Final = ("repository", "agent", "campaign", "team", "label")


@dataclass(frozen=True, slots=True)
class Group:
    """One line: how many runs ended, what became of their pull requests, what all of it cost.

    ``who`` is what the address names it by, ``title`` what people call it.
    ``merge_seconds``: median from opening to merge, None while nothing was merged. Money in US dollars.
    """

    who: str
    title: str
    runs: int
    opened: int
    merged: int
    closed: int
    reverted: int
    red: int
    cost: Decimal
    merge_seconds: float | None

    @property
    def cost_per_merged(self) -> Decimal | None:
        """What one merged change cost, with the runs that came to nothing; None while nothing was merged."""
        return self.cost / self.merged if self.merged else None

    @property
    def is_open(self) -> int:
        """Pull requests whose end is not known yet."""
        return self.opened - self.merged - self.closed


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: the last so many days (today included, UTC), by what, narrowed to what."""

    days: int
    by: str
    today: date
    narrowed: Mapping[str, str]
    mine: bool

    @property
    def first(self) -> date:
        """The first day."""
        return self.today - timedelta(days=self.days - 1)


class _By(NamedTuple):
    """What is counted by: its name on the page, its expression, and the tables that it needs beside ``o``
    (outcomes) and ``p`` (pull requests). ``title`` is an expression, too, where people call it otherwise."""

    label: str
    who: str
    joins: str = ""
    title: str = ""


_BY: Final[dict[str, _By]] = {
    "repository": _By("Repository", "r.name", "JOIN repositories r ON r.id = o.repository_id"),
    "agent": _By("Agent", "o.agent"),
    "campaign": _By(
        "Campaign",
        "coalesce(c.id, %(none)s)",
        "JOIN tasks t ON t.id = o.task_id LEFT JOIN campaigns c ON c.id = t.campaign_id",
        title="coalesce(c.title, %(none)s)",
    ),
    "team": _By(
        "Team",
        "coalesce(m.team, %(none)s)",
        """LEFT JOIN unnest(%(teams)s::text[], %(owned)s::text[]) AS m(team, repository_id)
        ON m.repository_id = o.repository_id""",
    ),
    "label": _By(
        "Label",
        "coalesce(l.label, %(none)s)",
        "JOIN tasks t ON t.id = o.task_id LEFT JOIN LATERAL unnest(t.labels) AS l(label) ON true",
    ),
}
DIMENSIONS: Final = {name: by.label for name, by in _BY.items()}

_COUNTED: Final = """
SELECT {who}, {title}, count(*), count(p.run_id),
    count(*) FILTER (WHERE p.state = 'MERGED'), count(*) FILTER (WHERE p.state = 'CLOSED'),
    count(p.reverted_at), count(*) FILTER (WHERE p.was_red), coalesce(sum(o.cost_usd), 0),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.ended_at - p.created_at)::float8)
        FILTER (WHERE p.state = 'MERGED')
FROM ({rows}) AS o LEFT JOIN pull_requests p ON p.run_id = o.run_id {joins}
GROUP BY 1, 2 ORDER BY 5 DESC, 3 DESC, 2, 1 LIMIT {limit}
"""


def asked_for(params: Mapping[str, str]) -> Asked:
    """The address read; what means nothing there is the default."""
    days = params.get("days", "")
    return Asked(
        days=int(days) if days in {str(period) for period in PERIODS} else PERIODS[1],
        by=params["by"] if params.get("by") in _BY else "repository",
        today=database_now().date(),
        narrowed={name: params[name] for name in NARROWS if params.get(name)},
        mine=bool(params.get("mine")),
    )


def outcome_groups(principal: Principal, asked: Asked) -> list[Group]:
    """The groups, those with most merged changes first, at most ``MOST_GROUPS``. Three queries at most.

    A run whose task has two labels counts in both; one whose repository has two owning teams, too.
    """
    teams = repositories_by_team() if "team" in (asked.by, *asked.narrowed) else {}
    return _groups(principal, asked, teams, _BY[asked.by])


def outcome_total(principal: Principal, asked: Asked) -> Group:
    """All of them together, each run once. Two queries at most."""
    teams = repositories_by_team() if "team" in asked.narrowed else {}
    found = _groups(principal, asked, teams, _By("", "''"))
    return found[0] if found else Group("", "", 0, 0, 0, 0, 0, 0, Decimal(0), None)


def _groups(principal: Principal, asked: Asked, teams: Mapping[str, frozenset[str]], by: _By) -> list[Group]:
    try:
        rows, params = _rows(principal, asked, teams).query.sql_with_params()
    except EmptyResultSet:  # somebody who sees no repository
        return []
    pairs = [(team, where) for team, owned in teams.items() for where in sorted(owned)]
    more: dict[str, Any] = {
        "none": NONE,
        "teams": [team for team, _ in pairs],
        "owned": [where for _, where in pairs],
    }
    text, values = _named(rows, params)
    sql = _COUNTED.format(who=by.who, title=by.title or by.who, rows=text, joins=by.joins, limit=MOST_GROUPS)
    with connection.cursor() as cursor:
        cursor.execute(sql, {**values, **more})
        return [Group(*line) for line in cursor.fetchall()]


def _named(rows: str, params: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    """Django's statement with its values by name, so that it stands inside one with values of its own."""
    names = [f"row_{number}" for number in range(len(params))]
    return rows % tuple(f"%({name})s" for name in names), dict(zip(names, params, strict=True))


def _rows(principal: Principal, asked: Asked, teams: Mapping[str, frozenset[str]]) -> Any:
    first = asked.first
    rows = RunOutcome.objects.filter(ended_at__gte=datetime(first.year, first.month, first.day, tzinfo=UTC))
    ids = visible_repositories(principal)
    if asked.mine:
        mine = my_repositories(principal)
        ids = mine if ids is None else ids & mine
    if ids is not None:
        rows = rows.filter(repository_id__in=ids)
    for name, value in asked.narrowed.items():
        rows = rows.filter(_NARROWED[name](value, teams))
    return rows.values("run_id", "repository_id", "agent", "cost_usd", "task_id")


def of_label(value: str, path: str = "task") -> Q:
    """Tasks with this label, or with none."""
    return Q(**{f"{path}__labels": []}) if value == NONE else Q(**{f"{path}__labels__contains": [value]})


def of_campaign(value: str, path: str = "task") -> Q:
    """Tasks of this campaign, or of none."""
    return Q(**{f"{path}__campaign__isnull": True}) if value == NONE else Q(**{f"{path}__campaign_id": value})


def of_team(value: str, teams: Mapping[str, frozenset[str]]) -> Q:
    """Repositories that this team owns, or that no team does."""
    if value == NONE:
        return ~Q(repository_id__in=frozenset().union(*teams.values()))
    return Q(repository_id__in=teams.get(value, frozenset()))


_NARROWED: Final[dict[str, Callable[[str, Mapping[str, frozenset[str]]], Q]]] = {
    "repository": lambda value, _: Q(repository__name=value) | Q(repository_id=value),
    "agent": lambda value, _: Q(agent=value),
    "campaign": lambda value, _: of_campaign(value),
    "team": of_team,
    "label": lambda value, _: of_label(value),
}
