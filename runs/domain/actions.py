"""What a person may do about a task or a run, as data over the same columns as the display table
(lifecycle contract, section 15)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from runs.domain.display import BACKOFF, D, Display, S, Standing, T, Where, matches, one_of
from runs.domain.vocabulary import ACTIVE, TASK_FINAL, Directive, Gate


@dataclass(frozen=True, slots=True)
class ActionRow:
    """In ``state``, and where ``where`` matches, a person with ``permission`` may do it.

    ``subject`` says whose address it goes to: "task", "run", or "page" for a link to look at something.
    """

    state: Display
    name: str
    label: str
    subject: str
    permission: str
    where: Where = field(default_factory=dict)


_FINAL_TASK: Final[Where] = {"task_status": one_of(*TASK_FINAL)}
_STOPPABLE: Final[Where] = {"run_status": one_of(*(s for s in ACTIVE if s is not S.PR_CREATED))}
_LEFT_TO_PERSON: Final[Where] = {
    "blocked": one_of("access_to_renew", "person_decides"),
    "task_status": one_of(T.WAITING_FOR_APPROVAL),
}
_ACCESS: Final[Where] = {"blocked": one_of("access_to_renew"), "task_status": one_of(T.WAITING_FOR_APPROVAL)}
_TO_BE_KEPT: Final[Where] = {"archive_after": frozenset({False})}
_GATED: Final[Where] = {"gate": one_of(*Gate)}
A = ActionRow
ACTIONS: Final[tuple[ActionRow, ...]] = (
    A(D.DRAFT, "edit", "Edit", "task", "task_operate"),
    A(D.DRAFT, "submit", "Queue", "task", "task_operate"),
    A(D.DRAFT, "delete", "Delete", "task", "task_operate"),
    A(D.QUEUED, "run_now", "Run now", "task", "run_operate"),
    A(D.QUEUED, "cancel", "Remove from queue", "task", "task_operate"),
    A(D.QUEUED, "edit", "Edit", "task", "task_operate"),
    A(D.STARTING, "cancel", "Cancel", "run", "run_cancel"),
    A(D.THINKING, "cancel", "Cancel", "run", "run_cancel"),
    A(D.RUNNING, "cancel", "Stop", "run", "run_cancel", _STOPPABLE),
    A(D.RUNNING, "wind_down", "Finish up", "run", "run_operate", _STOPPABLE),
    A(D.RUNNING, "pause", "Pause", "run", "run_operate", _STOPPABLE),
    A(D.RUNNING, "open_logs", "Open logs", "page", "read"),
    A(D.WAITING, "retry", "Retry now", "task", "task_operate", {"waiting": one_of(BACKOFF)}),
    A(D.WAITING, "cancel", "Cancel", "run", "run_cancel", _STOPPABLE),
    A(D.NEEDS_REVIEW, "review", "Review", "page", "read", _GATED),
    A(D.NEEDS_REVIEW, "archive_after", "Archive after", "task", "task_operate", _TO_BE_KEPT),
    A(D.NEEDS_REVIEW, "cancel", "Cancel", "run", "run_cancel"),
    A(D.BLOCKED, "resolve", "Resolve", "page", "read", _GATED),
    A(D.BLOCKED, "access_renewed", "Access renewed", "task", "task_operate", _ACCESS),
    A(D.BLOCKED, "retry", "Retry", "task", "task_operate", _LEFT_TO_PERSON),
    A(D.BLOCKED, "cancel", "Cancel", "task", "task_operate"),
    A(D.PAUSED, "resume", "Resume", "run", "run_operate"),
    A(D.PAUSED, "cancel", "Cancel", "run", "run_cancel", _STOPPABLE),
    A(D.CANCELLING, "cancel", "Stop now", "run", "run_cancel", {"directive": one_of(Directive.WIND_DOWN)}),
    A(D.CANCELLED, "run_again", "Run again", "task", "task_create", _FINAL_TASK),
    A(D.CANCELLED, "archive", "Archive", "task", "task_operate", _FINAL_TASK),
    A(D.FAILED, "access_renewed", "Access renewed", "task", "task_operate", _ACCESS),
    A(D.FAILED, "retry", "Retry", "task", "task_operate", _LEFT_TO_PERSON),
    A(D.FAILED, "run_again", "Run again", "task", "task_create", _FINAL_TASK),
    A(D.FAILED, "view_error", "View error", "page", "read"),
    A(D.FAILED, "archive", "Archive", "task", "task_operate", _FINAL_TASK),
    A(D.COMPLETED, "review_result", "Review result", "page", "read"),
    A(D.COMPLETED, "run_again", "Run again", "task", "task_create", _FINAL_TASK),
    A(D.COMPLETED, "archive", "Archive", "task", "task_operate", _FINAL_TASK),
    A(D.ARCHIVED, "restore", "Restore", "task", "task_operate"),
)


def possible_actions(state: Display, standing: Standing) -> Iterator[ActionRow]:
    """What may be done in this state, by whoever has the permission, in the contract's order."""
    return (row for row in ACTIONS if row.state is state and matches(standing, row.where))
