"""Who may decide a request, and why not, in words (lifecycle contract, section 16). Pure.

Four-eyes is about persons, not accounts: every key here is a person's, one for all of their accounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from runs.domain.vocabulary import DecisionWord, Gate

#: Gates at which whoever brought the work about cannot be the one who approves it.
FOUR_EYES: Final = frozenset({Gate.PLAN, Gate.PATCH, Gate.TOOL_CALL, Gate.BUDGET})
#: Gates that can send the work back with an instruction.
CHANGEABLE: Final = frozenset({Gate.PLAN, Gate.PATCH})
#: Gates at which an approval may carry something else than what was asked for.
EDITABLE: Final = frozenset({Gate.TOOL_CALL, Gate.BUDGET})

#: Decisions that let the run go on as it wants to.
APPROVING: Final = frozenset({DecisionWord.APPROVE, DecisionWord.EDIT})


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks at a request."""

    person: str  #: the person's key
    may_review: bool = False  #: reviewer or admin in that repository
    may_answer: bool = False  #: submitter, reviewer, operator or admin in that repository
    may_waive: bool = False  #: operator or admin in that repository


@dataclass(frozen=True, slots=True)
class Standing:
    """A request as the rules see it.

    ``authors`` maps a person to what makes them an author, in words that follow "You". ``voted``
    holds the persons whose approval of this version is recorded. ``closed`` is a sentence when
    nothing can be decided any more. ``blocking`` are labels of guards that forbid approving.
    """

    gate: Gate
    needed: int = 1
    authors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    voted: Collection[str] = frozenset()
    closed: str = ""
    blocking: Sequence[str] = ()
    override: bool = False  #: the policy allows to override four-eyes


@dataclass(frozen=True, slots=True)
class Rights:
    """What a viewer may do with a request. ``because`` says why they may not decide it at all or approve
    it; ``why_not`` says why Approve is off, guards included; ``warning`` what asking for changes costs."""

    may_decide: bool = False
    approve: bool = False
    request_changes: bool = False
    reject: bool = False
    needs_override: bool = False
    because: str = ""
    why_not: str = ""
    warning: str = ""


def rights(viewer: Viewer, standing: Standing) -> Rights:
    """What ``viewer`` may do, and why not, in words."""
    if out := _outside(viewer, standing):
        return Rights(because=out, why_not=out)
    author, blocked = _author(viewer, standing), _blocked(standing)
    changes = standing.gate in CHANGEABLE
    found = Rights(
        may_decide=not author,
        approve=not author and not blocked,
        request_changes=changes,
        reject=True,
        because=author,
        why_not=author or blocked,
        warning=_warning(viewer, standing) if changes else "",
    )
    if author and standing.override:
        offer = f"{author} The policy lets you override this with a reason."
        return replace(found, approve=not blocked, needs_override=True, why_not=blocked or offer)
    return found


def missing_votes(standing: Standing) -> int:
    """How many more persons must approve."""
    return max(standing.needed - len(set(standing.voted)), 0)


def enough_people(standing: Standing, deciders: Collection[str]) -> bool:
    """Whether those who may decide here can still make up the quorum; with an override anybody counts."""
    authors = frozenset() if standing.override or standing.gate not in FOUR_EYES else set(standing.authors)
    left = set(deciders) - authors - set(standing.voted)
    return len(left) >= missing_votes(standing)


def _outside(viewer: Viewer, standing: Standing) -> str:
    if standing.closed:
        return standing.closed
    if standing.gate is Gate.QUESTION:
        if not viewer.may_answer:
            return "Only a submitter, reviewer or operator of this repository may answer."
    elif not viewer.may_review:
        return "Only a reviewer of this repository may decide."
    if viewer.person in standing.voted:
        missing = missing_votes(standing)
        people = "1 more person" if missing == 1 else f"{missing} more people"
        return f"You have approved this already; {people} must."
    return ""


def _author(viewer: Viewer, standing: Standing) -> str:
    if standing.gate not in FOUR_EYES or viewer.person not in standing.authors:
        return ""
    return f"You {' and '.join(standing.authors[viewer.person])}: somebody else has to approve."


def _blocked(standing: Standing) -> str:
    if not standing.blocking:
        return ""
    names = ", ".join(standing.blocking)
    verb = "does" if len(standing.blocking) == 1 else "do"
    return f"Approve is off: {names} {verb} not pass and nobody has waived it."


def _warning(viewer: Viewer, standing: Standing) -> str:
    if viewer.person in standing.authors:
        return ""
    return "Requesting changes makes your comment the instruction in force: you cannot approve what follows."
