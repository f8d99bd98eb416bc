"""Repositories, workers and pull requests: records that runs refer to."""

from __future__ import annotations

from decimal import Decimal

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.paging import page
from runs.api.requests import Fields, Query, json_object
from runs.api.schema import says, words_of
from runs.api.words import TEXT
from runs.auth import (
    Action,
    Principal,
    require,
    require_machine,
    visible_repositories,
)
from runs.domain.errors import ActorNotAllowed, Invalid, NotFound
from runs.domain.facts import Json, stamp
from runs.domain.places import without_login
from runs.domain.policy import Effective
from runs.domain.state import plain
from runs.domain.vocabulary import PullRequestState, Role
from runs.models import PullRequest, Repository, WorkerAccount
from runs.selectors import effective_policies
from runs.selectors.spending import spent_in
from runs.service.pull_requests import CHECKS

_FILTERS = {"state": words_of(PullRequestState), "repository": TEXT}

# --- repositories ---------------------------------------------------------------------------------


class Repositories(ApiView):
    """``GET repositories``"""

    @says(answer="RepositoryPage", is_list=True)
    def get(self, request: Request) -> Response:
        """Repositories that the caller may see, newest first, each with its effective policy."""
        return Response(page(request, _visible(self.principal), _repositories))


class OneRepository(ApiView):
    """``GET repositories/{id or name}``"""

    @says(answer="Repository")
    def get(self, request: Request, repository: str) -> Response:
        """One repository, with its effective policy and where each value comes from."""
        wanted = Q(pk=repository) | Q(name=repository)
        found = _visible(self.principal).filter(wanted).first() if repository.isprintable() else None
        if found is None:
            raise NotFound
        return Response(_repositories([found])[0])


def _visible(principal: Principal) -> QuerySet[Repository]:
    ids = visible_repositories(principal)
    rows = Repository.objects.all()
    return rows if ids is None else rows.filter(pk__in=ids)


def _repositories(rows: object) -> list[Json]:
    found: list[Repository] = list(rows)  # type: ignore[call-overload]
    policies = effective_policies(repository_ids=[row.pk for row in found])
    spent = spent_in(row.pk for row in found)
    return [_repository(row, policies[row.pk], spent[row.pk]) for row in found]


def _repository(row: Repository, policy: Effective, spent: Decimal) -> Json:
    return {
        "id": row.pk,
        "name": row.name,
        "url": without_login(row.url),
        "provider": row.provider,
        "base_branch": row.base_branch,
        "policy": {
            "version": policy.version,
            "values": policy.values,
            "origins": policy.origins,
            "levels": [
                {"policy": one.name, "version": one.number, "via": one.via, "pattern": one.pattern or None}
                for one in policy.levels
            ],
        },
        "spent_today_usd": plain(spent.normalize()),
        "created_at": stamp(row.created_at),
        "archived_at": shapes.at(row.archived_at),
    }


# --- workers --------------------------------------------------------------------------------------


class Workers(ApiView):
    """``GET workers``"""

    @says(answer="WorkerPage", is_list=True)
    def get(self, request: Request) -> Response:
        """Worker accounts, newest first. A machine sees itself."""
        rows = WorkerAccount.objects.select_related("owner").prefetch_related("repositories")
        if self.principal.is_machine:
            rows = rows.filter(pk=self.principal.id)
        ids = visible_repositories(self.principal)
        if ids is not None and not self.principal.is_machine:
            rows = rows.filter(Q(repositories__isnull=True) | Q(repositories__in=ids)).distinct()
        return Response(page(request, rows, lambda found: [_worker(row, ids) for row in found]))


def _worker(row: WorkerAccount, ids: frozenset[str] | None) -> Json:
    where = [one.name for one in row.repositories.all() if ids is None or one.pk in ids]
    return {
        "id": row.pk,
        "name": row.name,
        "roles": row.roles,
        "labels": sorted({*row.labels, *row.offers}),
        "repositories": sorted(where),
        "owner": row.owner.get_username() if row.owner else None,
        "version": row.version or None,
        "isolation": row.isolation or None,
        "last_seen_at": shapes.at(row.last_seen_at),
        "last_asked_at": shapes.at(row.last_asked_at),
        "disabled_at": shapes.at(row.disabled_at),
        "created_at": stamp(row.created_at),
    }


# --- pull requests --------------------------------------------------------------------------------


class PullRequests(ApiView):
    """``GET pull-requests``"""

    @says(answer="PullRequestPage", is_list=True, query=_FILTERS)
    def get(self, request: Request) -> Response:
        """Pull requests of the caller's repositories, newest first."""
        rows, query = visible_pull_requests(self.principal), Query(request)
        if states := query.words("state", list(PullRequestState)):
            rows = rows.filter(state__in=states)
        if repository := query.text("repository"):
            rows = rows.filter(Q(repository_id=repository) | Q(repository__name=repository))
        return Response(page(request, rows, lambda found: [pull_request(row) for row in found]))


class OnePullRequest(ApiView):
    """``GET pull-requests/{id}``"""

    @says(answer="PullRequest")
    def get(self, request: Request, pull_request_id: str) -> Response:
        """One pull request."""
        return Response(pull_request(_pull_request(self.principal, pull_request_id)))


class PullRequestReport(ApiView):
    """``POST pull-requests/{id}/state``"""

    @says(answer="PullRequest", body="PullRequestReport")
    def post(self, request: Request, pull_request_id: str) -> Response:
        """The git integration says how it stands at the provider, and how its checks do."""
        row = _pull_request(self.principal, pull_request_id)
        worker = require_machine(self.principal)
        require(self.principal, Action.PULL_REQUEST_REPORT, row.repository_id)
        if Role.GIT_INTEGRATION not in worker.roles:
            raise ActorNotAllowed(required_roles=[Role.GIT_INTEGRATION.value])
        state, checks = _reported(json_object(request))
        service.pull_request_report(pull_request_id=row.pk, state=state, checks=checks)
        return Response(pull_request(_pull_request(self.principal, pull_request_id)))


def _reported(body: Json) -> tuple[PullRequestState | None, str | None]:
    fields = Fields(body)
    if body.get("state") is None and body.get("checks") is None:
        raise Invalid({"state": ["give state, checks or both"]})
    state = fields.choice("state", list(PullRequestState)) if body.get("state") is not None else None
    checks = fields.choice("checks", CHECKS) if body.get("checks") is not None else None
    fields.done()
    return PullRequestState(state) if state else None, checks


def visible_pull_requests(principal: Principal) -> QuerySet[PullRequest]:
    """Those of the caller's repositories; machines see them as the git integration only."""
    rows = PullRequest.objects.select_related("repository", "run")
    ids = visible_repositories(principal)
    rows = rows if ids is None else rows.filter(repository_id__in=ids)
    is_stranger = principal.worker is not None and Role.GIT_INTEGRATION not in principal.worker.roles
    return rows.filter(run__worker_id=principal.id) if is_stranger else rows


def _pull_request(principal: Principal, pull_request_id: str) -> PullRequest:
    found = visible_pull_requests(principal).filter(pk=pull_request_id).first()
    if found is None:
        raise NotFound
    return found


def pull_request(row: PullRequest) -> Json:
    """The shape of a pull request."""
    return {
        "id": row.pk,
        "run_id": row.run_id,
        "task_id": row.run.task_id,
        "repository": row.repository.name,
        "provider": row.provider,
        "url": without_login(row.url),
        "branch": row.branch,
        "number": row.number,
        "commit_sha": row.commit_sha,
        "tree_sha": row.tree_sha,
        "body": row.body,
        "state": row.state,
        "checks": row.checks or None,
        "ended_at": shapes.at(row.ended_at),
        "reverted_at": shapes.at(row.reverted_at),
        "reverted_by": row.reverted_by or None,
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
    }
