"""What a run needs of a worker, and what workers offer (lifecycle contract, section 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runs.domain.policy import ISOLATION
from runs.domain.vocabulary import Role


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run asks of whoever takes it: labels, and the least isolation by the repository's policy."""

    labels: frozenset[str] = frozenset()
    isolation: str = "none"


@dataclass(frozen=True, slots=True)
class Asker:
    """A worker account that last asked for work at the stamp ``at``; no ``repositories``: in all of them."""

    roles: frozenset[str]
    repositories: frozenset[str]
    at: str
    labels: frozenset[str] = frozenset()
    isolation: str = "none"

    def is_for(self, role: Role, repository_id: str) -> bool:
        """Whether its account may take runs of this repository that wait for this role."""
        return role in self.roles and (not self.repositories or repository_id in self.repositories)

    def offers(self, role: Role, needs: Needs) -> bool:
        """Whether it has what the run needs; the git integration runs nothing, so that it needs nothing."""
        if role is Role.GIT_INTEGRATION:
            return True
        return needs.labels <= self.labels and is_isolated(self.isolation, needs.isolation)


def is_isolated(offered: str, required: str) -> bool:
    """Whether what is offered is no weaker than what is required."""
    return ISOLATION.index(offered or "none") >= ISOLATION.index(required)


def lacking(askers: Iterable[Asker], needs: Needs) -> str:
    """What none of them offers, and the way out, in a sentence; "" where each thing is there, or nobody is.

    ``askers``: those whose account may take the run.
    """
    known = list(askers)
    if not known or any(asker.offers(Role.WORKER, needs) for asker in known):
        return ""
    missing = sorted(label for label in needs.labels if not any(label in asker.labels for asker in known))
    if missing:
        options = " ".join(f"--label {label}" for label in missing)
        return f"No worker offers {', '.join(missing)}: start one with {options}, or ask again without it."
    if not any(is_isolated(asker.isolation, needs.isolation) for asker in known):
        best = max((asker.isolation or "none" for asker in known), key=ISOLATION.index)
        return (
            f"No worker offers isolation {needs.isolation}, as the policy's require_isolation wants; "
            f"the best there is offers {best}: start one on a machine that has it."
        )
    wanted = [*sorted(needs.labels), *([f"isolation {needs.isolation}"] if needs.isolation != "none" else [])]
    return f"No single worker offers all of {', '.join(wanted)}: start one that does."
