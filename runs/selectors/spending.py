"""What was spent today against the caps of the day, for pages, answers and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from runs.domain.policy import Effective
from runs.domain.spending import SpendScope, Spent, caps_of
from runs.models import Person, Repository
from runs.models.spending import read_spending
from runs.selectors.policies import effective_policies
from runs.selectors.words import money


@dataclass(frozen=True, slots=True)
class Capped:
    """A cap over a day's spending, US dollars, and how much of it is spent."""

    subject: str
    spent: Decimal
    cap: Decimal

    @property
    def is_reached(self) -> bool:
        """Whether it keeps runs from being claimed."""
        return self.spent >= self.cap

    @property
    def sentence(self) -> str:
        """``Repository clock spent $3.20 of its $3.00 for today (UTC).``"""
        return f"{self.subject} spent {money(self.spent)} of {money(self.cap)} for today (UTC)."


def day_spending(repositories: Iterable[Repository]) -> list[Capped]:
    """Every cap under which something was spent today, of the platform and these repositories; a person's
    where it is reached. Those that are reached come first. Three queries."""
    known = {row.pk: row for row in repositories}
    policies = effective_policies(repository_ids=known)
    platform_cap, spent = read_spending()
    names = dict(Person.objects.filter(pk__in=_submitters(spent)).values_list("pk", "username"))
    found = [] if platform_cap is None else [Capped("The platform", _of(spent, "platform", ""), platform_cap)]
    for pk, row in sorted(known.items(), key=lambda item: item[1].name):
        found += _in_repository(row, policies[pk], spent, names)
    shown = [one for one in found if one.spent or one.is_reached]
    return sorted(shown, key=lambda one: not one.is_reached)


def _in_repository(
    row: Repository, policy: Effective, spent: Spent, names: dict[str, str]
) -> Iterator[Capped]:
    caps = caps_of(policy.values, None)
    if (cap := caps.get(SpendScope.REPOSITORY)) is not None:
        yield Capped(f"Repository {row.name}", _of(spent, "repository", row.pk), cap)
    if (cap := caps.get(SpendScope.SUBMITTER)) is not None:
        people = [
            Capped(f"{name}, in {row.name},", _of(spent, "submitter", pk), cap) for pk, name in names.items()
        ]
        yield from (one for one in people if one.is_reached)


def _of(spent: Spent, scope: str, key: str) -> Decimal:
    return spent.get((scope, key), Decimal(0))


def _submitters(spent: Spent) -> list[str]:
    return [key for scope, key in spent if scope == SpendScope.SUBMITTER]


def spent_in(repository_ids: Iterable[str]) -> dict[str, Decimal]:
    """Repository id → US dollars that its runs reported today (UTC). One query."""
    ids = list(repository_ids)
    _, spent = read_spending(ids)
    return {pk: _of(spent, "repository", pk) for pk in ids}
