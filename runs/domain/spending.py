"""Spend caps: what may be spent in a day before nothing more is claimed (lifecycle contract, section 8).

A day is one of UTC by the database's clock. What is spent is what events reported; unknown cost adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from runs.domain.facts import stamp
from runs.domain.holds import Covered
from runs.domain.vocabulary import Word


class SpendScope(Word):
    """Whose spending a cap is on."""

    PLATFORM = "platform", "Platform", "What all runs cost together."
    REPOSITORY = "repository", "Repository", "What the runs of one repository cost."
    SUBMITTER = "submitter", "Submitter", "What the runs of one person's tasks cost."


#: (scope, key) → US dollars spent today; the platform's key is "".
Spent = Mapping[tuple[str, str], Decimal]
_FIELDS: Final = {
    SpendScope.REPOSITORY: "spend_cap_usd_per_day",
    SpendScope.SUBMITTER: "submitter_spend_cap_usd_per_day",
}
_WHOSE: Final = {
    SpendScope.PLATFORM: "The platform's spend cap of {cap} a day",
    SpendScope.REPOSITORY: "The repository's spend cap of {cap} a day",
    SpendScope.SUBMITTER: "The spend cap of {cap} a day for one submitter",
}


@dataclass(frozen=True, slots=True)
class Reached:
    """A cap that is reached, US dollars."""

    scope: SpendScope
    cap: Decimal
    spent: Decimal

    @property
    def sentence(self) -> str:
        """Which cap, how much is spent, and when claims go on."""
        whose = _WHOSE[self.scope].format(cap=_dollars(self.cap))
        spent = f"{_dollars(self.spent)} are spent"
        return f"{whose} is reached: {spent}. Claims go on at 00:00 UTC, or when the policy allows more."


def keys_of(run: Covered) -> dict[SpendScope, str]:
    """Under which keys this run's spending is counted."""
    return {
        SpendScope.PLATFORM: "",
        SpendScope.REPOSITORY: run.repository_id,
        SpendScope.SUBMITTER: run.submitter_id,
    }


def caps_of(policy: Mapping[str, Any], platform_cap: Decimal | None) -> dict[SpendScope, Decimal]:
    """The caps over a run of a repository with this policy in force."""
    caps = {} if platform_cap is None else {SpendScope.PLATFORM: platform_cap}
    for scope, name in _FIELDS.items():
        if policy[name] is not None:
            caps[scope] = Decimal(str(policy[name]))
    return caps


def reached(run: Covered, caps: Mapping[SpendScope, Decimal], spent: Spent) -> Reached | None:
    """The widest cap over this run that is reached, if any."""
    keys = keys_of(run)
    for scope in SpendScope:
        used = spent.get((scope.value, keys[scope]), Decimal(0))
        if scope in caps and used >= caps[scope]:
            return Reached(scope, caps[scope], used)
    return None


def next_day(now: datetime) -> str:
    """Stamp of the next midnight in UTC, when the ledger begins anew."""
    return stamp(now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1))


def _dollars(amount: Decimal) -> str:
    return f"${amount:,.2f}"
