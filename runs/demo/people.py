"""The demonstration's people: who they are, and what each may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runs.domain.vocabulary import PersonRole


@dataclass(frozen=True, slots=True)
class DemoPerson:
    """Somebody to sign in as: user name, part played, what that part does, roles held."""

    name: str
    part: str
    does: str
    roles: tuple[PersonRole, ...]


SAM: Final = DemoPerson("sam", "submitter", "asks for work", (PersonRole.SUBMITTER,))
LENA: Final = DemoPerson(
    "lena",
    "lead",
    "reviews, stops and retries runs, sets priorities",
    (PersonRole.REVIEWER, PersonRole.OPERATOR),
)
PEOPLE: Final = (
    SAM,
    DemoPerson("rita", "reviewer", "decides reviews", (PersonRole.REVIEWER,)),
    LENA,
    DemoPerson("ada", "admin", "may do everything, with the admin pages", (PersonRole.ADMIN,)),
)
