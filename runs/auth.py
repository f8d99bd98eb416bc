"""Who calls, and what they may do: the one place that decides permissions
(lifecycle contract, section 16; REST contract, "Who calls")."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from agentplatform.rows import ask, columns_of, instance
from runs.domain.commands import Caller
from runs.domain.errors import ActorNotAllowed, Invalid, NotFound, PermissionDenied
from runs.domain.holds import HoldScope
from runs.domain.vocabulary import MACHINE_ROLES, PersonRole, Role
from runs.models import (
    ApiToken,
    Campaign,
    CampaignPart,
    Person,
    Repository,
    RoleGrant,
    Run,
    Task,
    WorkerAccount,
)

P = PersonRole


class Action(StrEnum):
    """Everything that a permission can be about."""

    READ = "read"
    TASK_CREATE = "task_create"
    TASK_CHANGE_OWN = "task_change_own"
    TASK_OPERATE = "task_operate"
    RUN_CANCEL = "run_cancel"
    RUN_OPERATE = "run_operate"
    NOTE = "note"
    APPROVE = "approve"
    ANSWER = "answer"
    WAIVE = "waive"
    HOLD = "hold"
    LEASE = "lease"
    PULL_REQUEST_REPORT = "pull_request_report"
    POLICY = "policy"


#: Which of a person's roles allow an action. Admin is in all of them; see ``_roles_for``.
_PEOPLE: Final[dict[Action, frozenset[PersonRole]]] = {
    Action.READ: frozenset(PersonRole),
    Action.TASK_CREATE: frozenset({P.SUBMITTER, P.OPERATOR}),
    Action.TASK_CHANGE_OWN: frozenset({P.SUBMITTER, P.OPERATOR}),
    Action.TASK_OPERATE: frozenset({P.OPERATOR}),
    Action.RUN_CANCEL: frozenset({P.OPERATOR}),
    Action.RUN_OPERATE: frozenset({P.OPERATOR}),
    Action.NOTE: frozenset({P.SUBMITTER, P.REVIEWER, P.OPERATOR}),
    Action.APPROVE: frozenset({P.REVIEWER}),
    Action.ANSWER: frozenset({P.SUBMITTER, P.REVIEWER, P.OPERATOR}),
    Action.WAIVE: frozenset({P.OPERATOR}),
    Action.HOLD: frozenset({P.OPERATOR}),
}
#: Actions of people on what they asked for themselves: allowed by the second action's roles, too.
_ON_OWN: Final = {Action.TASK_OPERATE: Action.TASK_CHANGE_OWN, Action.RUN_CANCEL: Action.TASK_CHANGE_OWN}
_MACHINES: Final = frozenset({Action.READ, Action.LEASE, Action.PULL_REQUEST_REPORT})


def _roles_for(action: Action) -> frozenset[PersonRole]:
    return _PEOPLE.get(action, frozenset()) | {P.ADMIN}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller: a person or a worker account, with what it was granted."""

    id: str
    name: str
    person: Person | None = None
    worker: WorkerAccount | None = None
    grants: frozenset[tuple[str, str]] = frozenset()  #: (role, repository id or "" for all)
    repositories: frozenset[str] = field(default_factory=frozenset)  #: a worker's limit; empty: all

    @property
    def is_machine(self) -> bool:
        """Whether it is a worker account."""
        return self.worker is not None

    @property
    def caller(self) -> Caller:
        """How the domain sees it."""
        if self.worker is not None:
            return Caller(self.id, self.name, frozenset(Role(r) for r in self.worker.roles), is_machine=True)
        return Caller(self.id, self.name, frozenset({Role.HUMAN}))

    def roles_in(self, repository_id: str) -> frozenset[PersonRole]:
        """A person's roles in one repository."""
        return frozenset(PersonRole(r) for r, where in self.grants if where in ("", repository_id))


def of_person(person: Person) -> Principal:
    """The principal of somebody signed in; a superuser is an admin everywhere."""
    rows = RoleGrant.objects.filter(person=person).values_list("role", "repository_id")
    return _somebody(person, [(role, where or "") for role, where in rows])


def _somebody(person: Person, rows: Iterable[Sequence[str]]) -> Principal:
    grants = {(role, where) for role, where in rows}
    if person.is_superuser:
        grants.add((P.ADMIN.value, ""))
    return Principal(person.pk, person.get_username(), person=person, grants=frozenset(grants))


def of_worker(worker: WorkerAccount) -> Principal:
    """The principal of a worker account."""
    return _machine(worker, worker.repositories.values_list("pk", flat=True))


def _machine(worker: WorkerAccount, repositories: Iterable[str]) -> Principal:
    return Principal(worker.pk, worker.name, worker=worker, repositories=frozenset(repositories))


# --- tokens ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token in force, whom it speaks for, and the database's clock when it was looked up."""

    token: ApiToken
    principal: Principal
    now: datetime


def find_bearer(secret: str) -> Bearer | None:
    """Who holds this secret, if its token is in force; disabled accounts and leavers have none. One query."""
    digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
    rows = ask(_bearer_text(), [digest])
    if not rows:
        return None
    now, repositories, grants, *values = rows[0]
    token, worker, person = _bearer_rows(values)
    if not token.is_in_force(now):
        return None
    if worker and not worker.disabled_at:
        return Bearer(token, _narrowed(_machine(worker, repositories), token.roles), now)
    if person and person.is_active:
        return Bearer(token, _narrowed(_somebody(person, json.loads(grants or "[]")), token.roles), now)
    return None


def _narrowed(principal: Principal, roles: Sequence[str]) -> Principal:
    """The owner of a token in those of their roles that the token names; it never gives one they lack."""
    if not roles:
        return principal
    if principal.worker is not None:
        principal.worker.roles = [role for role in principal.worker.roles if role in roles]
        return principal
    # Every role reads, and an admin has them all.
    kept = {
        (role, where)
        for had, where in principal.grants
        for role in roles
        if role in (had, P.VIEWER) or had == P.ADMIN
    }
    return replace(principal, grants=frozenset(kept))


def _bearer_rows(values: list[Any]) -> tuple[ApiToken, WorkerAccount | None, Person | None]:
    widths = [len(model._meta.concrete_fields) for model in (ApiToken, WorkerAccount)]  # noqa: SLF001
    token, rest = values[: widths[0]], values[widths[0] :]
    worker, person = rest[: widths[1]], rest[widths[1] :]
    return (
        instance(ApiToken, token),
        instance(WorkerAccount, worker) if any(worker) else None,
        instance(Person, person) if any(person) else None,
    )


@lru_cache(maxsize=1)
def _bearer_text() -> str:
    columns = [columns_of(ApiToken, "t"), columns_of(WorkerAccount, "w"), columns_of(Person, "p")]
    return f"""
        SELECT clock_timestamp(),
            ARRAY(SELECT repository_id FROM worker_accounts_repositories
                WHERE workeraccount_id = t.worker_id),
            (SELECT jsonb_agg(jsonb_build_array(role, coalesce(repository_id, ''))) FROM role_grants
                WHERE person_id = t.person_id),
            {", ".join(columns)}
        FROM api_tokens t LEFT JOIN worker_accounts w ON w.id = t.worker_id
        LEFT JOIN people p ON p.id = t.person_id WHERE t.secret_sha256 = %s
    """  # noqa: S608  our own names


# --- decisions ------------------------------------------------------------------------------------


def may(principal: Principal, action: Action, repository_id: str, *, own: bool = False) -> bool:
    """Whether ``principal`` may do ``action`` in that repository; ``own``: on what they asked for."""
    if principal.is_machine:
        return action in _MACHINES and (not principal.repositories or repository_id in principal.repositories)
    roles = principal.roles_in(repository_id)
    if roles & _roles_for(action):
        return True
    return own and action in _ON_OWN and bool(roles & _roles_for(_ON_OWN[action]))


def require(principal: Principal, action: Action, repository_id: str, *, own: bool = False) -> None:
    """``NotFound`` where they may not even know of it, ``PermissionDenied`` where they may only look."""
    if may(principal, action, repository_id, own=own):
        return
    if not may(principal, Action.READ, repository_id):
        raise NotFound
    wanted = sorted(role.value for role in _roles_for(action))
    raise PermissionDenied(f"This needs one of the roles: {', '.join(wanted)}.", required_roles=wanted)


def may_hold(principal: Principal, repository_id: str) -> bool:
    """Whether they may set and lift holds there; "": over more than one repository, which takes the role
    everywhere."""
    return not principal.is_machine and may(principal, Action.HOLD, repository_id)


def require_hold(principal: Principal, scope: str, value: str) -> None:
    """Raises ``PermissionDenied`` for those who may not set this hold, ``Invalid`` for a repository that they
    do not know."""
    if scope != HoldScope.REPOSITORY:
        require_hold_over(principal, "")
        return
    where = Repository.objects.filter(Q(name=value) | Q(pk=value)).first()
    if where is None or not may(principal, Action.READ, where.pk):
        require_anywhere(principal, Action.HOLD)
        raise Invalid({"value": [f"there is no repository {value[:100]}" if value else "is required"]})
    require(principal, Action.HOLD, where.pk)


def require_hold_over(principal: Principal, repository_id: str) -> None:
    """``PermissionDenied`` for those who may not set and lift holds there; "": over several repositories."""
    if may_hold(principal, repository_id):
        return
    wanted = sorted(role.value for role in _roles_for(Action.HOLD))
    where = "in this repository" if repository_id else "in all repositories"
    raise PermissionDenied(f"This needs one of the roles {', '.join(wanted)} {where}.", required_roles=wanted)


def require_policy(principal: Principal, repository_ids: Iterable[str]) -> None:
    """``PermissionDenied`` for those who may not change a policy in each repository that it holds for."""
    if not all(may(principal, Action.POLICY, one) for one in repository_ids):
        wanted = sorted(role.value for role in _roles_for(Action.POLICY))
        where = "in every repository that the policy holds for"
        raise PermissionDenied(f"This needs the role {', '.join(wanted)} {where}.", required_roles=wanted)


def require_anywhere(principal: Principal, action: Action) -> None:
    """``PermissionDenied`` for those who may do ``action`` in no repository at all."""
    wanted = _roles_for(action)
    if not any(PersonRole(role) in wanted for role, _ in principal.grants):
        names = sorted(role.value for role in wanted)
        raise PermissionDenied(f"This needs one of the roles: {', '.join(names)}.", required_roles=names)


def require_machine(principal: Principal) -> WorkerAccount:
    """The worker account that calls; ``ActorNotAllowed`` for people, who have endpoints of their own."""
    if principal.worker is None:
        raise ActorNotAllowed(required_roles=[role.value for role in MACHINE_ROLES])
    return principal.worker


def require_person(principal: Principal) -> None:
    """``PermissionDenied`` for machines: tasks and decisions are people's."""
    if principal.is_machine:
        raise PermissionDenied("Only people do this; worker accounts lease runs.")


def visible_repositories(principal: Principal) -> frozenset[str] | None:
    """Ids of the repositories they may see; None means all of them."""
    if principal.is_machine:
        return principal.repositories or None
    where = frozenset(repository for _, repository in principal.grants)
    return None if "" in where else where


def sees_run(principal: Principal, run: Run) -> bool:
    """People see runs of their repositories; a machine what it holds, held, or may claim by its roles."""
    if not may(principal, Action.READ, run.repository_id):
        return False
    if principal.worker is None:
        return True
    if run.claim_role in principal.worker.roles or run.worker_id == principal.id:
        return True
    return run.leases.filter(worker_id=principal.id).exists()


def require_run(principal: Principal, run_id: str) -> None:
    """``NotFound`` unless the run is theirs to know. For those who are about to lock and read it anyway."""
    rows = ask(_RUN_SEEN, {"run": run_id, "caller": principal.id})
    if not rows:
        raise NotFound
    repository_id, claim_role, held = rows[0]
    if not may(principal, Action.READ, repository_id):
        raise NotFound
    if principal.worker is not None and not held and claim_role not in principal.worker.roles:
        raise NotFound


_RUN_SEEN: Final = """
SELECT repository_id, claim_role, worker_id = %(caller)s
    OR EXISTS (SELECT FROM run_leases l WHERE l.run_id = r.id AND l.worker_id = %(caller)s)
FROM runs r WHERE id = %(run)s
"""


def get_run(principal: Principal, run_id: str) -> Run:
    """The run, if it is theirs to know. ``NotFound`` else."""
    run = Run.objects.select_related("task", "repository").filter(pk=run_id).first()
    if run is None or not sees_run(principal, run):
        raise NotFound
    return run


def get_task(principal: Principal, task_id: str) -> Task:
    """The task, if it is theirs to know. ``NotFound`` else."""
    task = Task.objects.select_related("repository", "created_by").filter(pk=task_id).first()
    if task is None or principal.is_machine or not may(principal, Action.READ, task.repository_id):
        raise NotFound
    return task


# --- campaigns: over many repositories at once ----------------------------------------------------


def repositories_for(principal: Principal, action: Action) -> QuerySet[Repository]:
    """Repositories that take work and in which they may do ``action``. No query by itself."""
    where = {repository for role, repository in principal.grants if PersonRole(role) in _roles_for(action)}
    rows = Repository.objects.filter(archived_at__isnull=True)
    return rows if "" in where else rows.filter(pk__in=sorted(where))


def visible_campaigns(principal: Principal) -> QuerySet[Campaign]:
    """Campaigns all of whose repositories they may see: its log and counts tell of every one.
    Machines see none. No query by itself."""
    ids = visible_repositories(principal)
    if principal.is_machine:
        return Campaign.objects.none()
    if ids is None:
        return Campaign.objects.all()
    hidden = CampaignPart.objects.filter(campaign=OuterRef("pk")).exclude(repository_id__in=sorted(ids))
    return Campaign.objects.filter(~Exists(hidden))


def get_campaign(principal: Principal, campaign_id: str) -> Campaign:
    """The campaign, if it is theirs to know. ``NotFound`` else."""
    found = visible_campaigns(principal).select_related("created_by").filter(pk=campaign_id).first()
    if found is None:
        raise NotFound
    return found


def may_steer(principal: Principal, campaign: Campaign) -> bool:
    """Whether they may pause, resume, retry, change and cancel it: what takes the right to operate tasks in
    every one of its repositories, or to change their own where it is theirs."""
    own = campaign.created_by_id == principal.id
    if may(principal, Action.TASK_OPERATE, "", own=own):
        return True
    ids = CampaignPart.objects.filter(campaign=campaign).values_list("repository_id", flat=True)
    return all(may(principal, Action.TASK_OPERATE, pk, own=own) for pk in ids)


def require_steering(principal: Principal, campaign: Campaign) -> None:
    """``PermissionDenied`` for those who may only look."""
    if may_steer(principal, campaign):
        return
    wanted = sorted(role.value for role in _roles_for(Action.TASK_OPERATE))
    raise PermissionDenied(
        f"This needs one of the roles {', '.join(wanted)} in every repository of the campaign.",
        required_roles=wanted,
    )
