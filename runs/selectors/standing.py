"""The display table as SQL: the same rows as ``runs.domain.display.TABLE``, over columns of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from django.db.models import BooleanField, Case, Exists, F, OuterRef, Q, Value, When

from runs.domain.display import (
    BACKOFF,
    CAP,
    HOLD,
    NO_WORKER,
    PULL_REQUESTS,
    SPEND,
    TABLE,
    WAITS,
    Display,
    Values,
    Where,
)
from runs.domain.facts import moment
from runs.domain.offers import is_isolated
from runs.domain.vocabulary import ACTIVE, TASK_FINAL, Directive, Role, RunStatus, TaskStatus
from runs.models import Lease, Run
from runs.models.campaigns import runs_kept_in
from runs.models.holds import runs_held
from runs.selectors.surroundings import Surroundings

Column = Callable[[Values], Q]
NEVER: Final = Q(pk__in=[])
ALWAYS: Final = ~NEVER
_ACTIVE: Final = [status.value for status in ACTIVE]
_UNFINISHED: Final = [status.value for status in TaskStatus if status not in TASK_FINAL]
_NONE: Final = frozenset({""})
#: What only a task without an active run shows.
_NO_RUN: Final[Where] = {"run_status": _NONE}
#: While its run shows one of these, a task waits for approval.
_AT_GATES: Final = frozenset({Display.NEEDS_REVIEW, Display.BLOCKED})


def runs_shown_as(state: Display, surroundings: Surroundings) -> Q:
    """Runs whose display state this is."""
    found = _first_match(state, _run_columns(surroundings))
    # All that is not over is unfinished: the few are found by their status before the table is asked.
    return found if state.is_over else Q(status__in=_ACTIVE) & found


def display_of_runs(surroundings: Surroundings) -> Case:
    """The display state of each run as a column: the first row of the table that holds."""
    columns = _run_columns(surroundings)
    return Case(*(When(_any(row.where, columns), then=Value(row.state.value)) for row in TABLE))


def tasks_shown_as(state: Display, surroundings: Surroundings) -> Q:
    """Tasks whose display state this is: an active run speaks for its task.

    Few of many are found by their own status: what can show the state stands before what it is asked of.
    """
    own = _first_match(state, _TASK_COLUMNS)
    if state.is_over:
        return own  # the task's own word, whatever its runs were
    # The task is known to be unfinished and not archived: so no run looks at its task again.
    columns = _run_columns(surroundings) | {"archived": _constant(False), "task_status": _constant("")}  # noqa: FBT003
    at_gate = state in _AT_GATES
    statuses = [TaskStatus.WAITING_FOR_APPROVAL.value] if at_gate else _UNFINISHED
    run_statuses = [RunStatus.WAITING_FOR_APPROVAL.value] if at_gate else _ACTIVE
    active = Run.objects.filter(task=OuterRef("pk"), status__in=run_statuses)
    shown = Q(Exists(active.filter(_first_match(state, columns))))
    if any(_may_meet(_NO_RUN, row.where) for row in TABLE if row.state is state):
        shown |= own & ~Q(Exists(active))
    return Q(status__in=statuses, archived_at__isnull=True) & shown


def runs_waiting_for(reason: str, surroundings: Surroundings) -> Q:
    """Unfinished runs that wait for this reason (``runs.domain.waiting.REASONS``)."""
    leased = Exists(Lease.objects.filter(run=OuterRef("pk"), ended_at__isnull=True))
    if reason in WAITS:
        return runs_shown_as(Display.WAITING, surroundings) & _waiting(surroundings)(frozenset({reason}))
    plain = Q(directive=Directive.CONTINUE.value, status__in=_ACTIVE)
    blocked = ~Q(status__in=_ACTIVE) & Q(
        task__status=TaskStatus.WAITING_FOR_APPROVAL.value, task__latest_run_id=F("pk")
    )
    renew = Q(task__state__blocked__rule="access_to_renew")
    known = {
        "access": blocked & renew,
        "person": blocked & ~renew,
        "queue": plain & ~Q(claim_role="") & ~_waiting(surroundings)(frozenset(WAITS)),
        "review": plain & Q(gate__in=["plan", "patch", "tool_call"]),
        "budget": plain & Q(gate="budget"),
        "question": plain & Q(gate="question"),
        "paused": Q(directive=Directive.PAUSE.value, status__in=_ACTIVE) & ~Q(leased),
        "stopping": Q(directive__in=["cancel", "wind_down"], status__in=_ACTIVE),
        "working": Q(directive__in=["continue", "pause"], status__in=_ACTIVE) & Q(leased),
    }
    return known.get(reason, NEVER)


def tasks_waiting_for(reason: str, surroundings: Surroundings) -> Q:
    """Unfinished tasks that wait for this reason: by their run, or by what was left to a person."""
    if reason in ("access", "person"):
        renew = Q(state__blocked__rule="access_to_renew")
        left = Q(status=TaskStatus.WAITING_FOR_APPROVAL.value, state__blocked__rule__isnull=False)
        return left & (renew if reason == "access" else ~renew)
    active = Run.objects.filter(runs_waiting_for(reason, surroundings), status__in=_ACTIVE)
    if reason == "queue":
        # How many wait for none of the reasons the database cannot guess, and would look through all tasks
        # for a page's worth of them: DISTINCT has it look through the active runs first, once.
        return Q(status__in=_UNFINISHED, pk__in=active.order_by().values("task_id").distinct())
    return Q(Exists(active.filter(task=OuterRef("pk"))), status__in=_UNFINISHED)


def _first_match(state: Display, columns: dict[str, Column]) -> Q:
    above: list[tuple[Where, ...]] = []
    for row in TABLE:
        if row.state is state:
            rivals = ([one for one in rows if _may_meet(one, row.where)] for rows in above)
            return _any(row.where, columns) & _none_of(_any(rows, columns) for rows in rivals if rows)
        above.append(row.where)
    return NEVER


def _may_meet(where: Where, rows: Iterable[Where]) -> bool:
    """Whether one of these rows may hold where that one does: what cannot is never asked of the database."""
    return any(all(where[name] & row[name] for name in where.keys() & row.keys()) for row in rows)


def _none_of(conditions: Iterable[Q]) -> Q:
    """None of these holds; one that is neither true nor false, for a column is NULL, does not hold.

    Not ``~``: the database has statistics of plain conditions beside it, and is misled by many negated ones.
    """
    cases = (When(condition, then=Value(False)) for condition in conditions)  # noqa: FBT003
    return Q(Case(*cases, default=Value(True), output_field=BooleanField()))  # noqa: FBT003


def _any(rows: Iterable[Where], columns: dict[str, Column]) -> Q:
    found = NEVER
    for where in rows:
        found = found | _all(where, columns)
    return found


def _all(where: Where, columns: dict[str, Column]) -> Q:
    found = ALWAYS
    for column, values in where.items():
        found = found & columns[column](values)
    return found


def _constant(value: str | bool) -> Column:  # noqa: FBT001  a value, not a switch
    return lambda values: ALWAYS if value in values else NEVER


def _flag(is_set: Q) -> Column:
    def column(values: Values) -> Q:
        yes, no = True in values, False in values
        return ALWAYS if yes and no else is_set if yes else ~is_set

    return column


def _words(name: str) -> Column:
    return lambda values: Q(**{f"{name}__in": sorted(values)})


def _run_columns(surroundings: Surroundings) -> dict[str, Column]:
    leased = Exists(Lease.objects.filter(run=OuterRef("pk"), ended_at__isnull=True))
    return {
        "task_status": _words("task__status"),
        "archived": _flag(Q(task__archived_at__isnull=False)),
        # No run is without a status: what only a task without one shows is never asked of the database.
        "run_status": lambda values: _words("status")(values - _NONE),
        "directive": _words("directive"),
        "leased": _flag(Q(leased)),
        "gate": _words("gate"),
        "undecidable": _stuck(surroundings),
        "waiting": _waiting(surroundings),
    }


_TASK_COLUMNS: Final[dict[str, Column]] = {
    "task_status": _words("status"),
    "archived": _flag(Q(archived_at__isnull=False)),
    "run_status": _constant(""),
    "directive": _constant(Directive.CONTINUE.value),
    "leased": _constant(False),  # noqa: FBT003
    "gate": _constant(""),
    "undecidable": _constant(False),  # noqa: FBT003
    "waiting": _constant(""),
}


def _stuck(surroundings: Surroundings) -> Column:
    def column(values: Values) -> Q:  # a function, so that only what looks at this column reads them
        return _flag(Q(pk__in=sorted(surroundings.stuck())))(values)

    return column


def _waiting(surroundings: Surroundings) -> Column:
    """``display.waits_for``: the first condition that holds, while nobody has the run."""
    conditions, free = _wait_conditions(surroundings), ~Q(claim_role="")

    def column(values: Values) -> Q:
        found = NEVER
        earlier: list[Q] = []
        for reason, holds in conditions.items():
            if reason in values:
                # Where all the earlier are asked for as well, it does not matter which is the first.
                found = found | (holds & _none_of(earlier) if earlier else holds)
            else:
                earlier.append(holds)
        return free & found

    return column


def _wait_conditions(surroundings: Surroundings) -> dict[str, Q]:
    """Reason → what holds a run back, in the order of ``WAITS``. claim_role is empty while a run is leased or
    not claimable."""
    fresh_after = moment(surroundings.fresh_after)
    idle = Q(idle_since__lt=fresh_after) & (Q(not_before__isnull=True) | Q(not_before__lt=fresh_after))
    kept = Q(
        repository_id__in=surroundings.kept_in_repositories(),
        status=RunStatus.PR_CREATING.value,
        directive=Directive.CONTINUE.value,
        state__contains={"pr_begun": False},
    )
    if paced := surroundings.paced():
        kept |= runs_kept_in(paced)
    conditions = {
        BACKOFF: Q(not_before__isnull=False) & Q(not_before__gt=surroundings.now),
        HOLD: runs_held(surroundings.holds),
        SPEND: ~Q(claim_role=Role.GIT_INTEGRATION) & surroundings.runs_over_spend(),
        CAP: Q(repository_id__in=surroundings.full_repositories()),
        PULL_REQUESTS: kept,
        NO_WORKER: idle & ~_asked_for(surroundings),
    }
    return {reason: conditions[reason] for reason in WAITS}


def _asked_for(surroundings: Surroundings) -> Q:
    """Runs that somebody who asked lately could take; ``domain.offers.Asker`` as SQL."""
    found = NEVER
    git = Q(claim_role=Role.GIT_INTEGRATION.value)
    for asker in surroundings.askers:
        if asker.at >= surroundings.fresh_after:
            too_weak = [
                pk
                for pk in surroundings.policies
                if not is_isolated(asker.isolation, surroundings.isolation_in(pk))
            ]
            served = Q(needs__contained_by=sorted(asker.labels)) & ~Q(repository_id__in=too_weak)
            here = Q(claim_role__in=sorted(asker.roles)) & (git | served)
            only = Q(repository_id__in=sorted(asker.repositories)) if asker.repositories else ALWAYS
            found = found | here & only
    return found
