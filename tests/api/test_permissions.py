"""Role by route: one table says who may call what; a new route without a row fails.

Every route of the API is read from the URL configuration and called as everybody. A row lists who gets
past authorisation; all others must be told 401, 403 or 404.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver

from runs import auth, service
from runs.domain.vocabulary import MACHINE_ROLES, PersonRole, Role, RunStatus
from runs.models import LiveLog, Repository
from tests import factories
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db

PEOPLE = frozenset(role.value for role in PersonRole)
#: ``holder`` held the run, in every role but the git integration's.
MACHINES = frozenset({*(role.value for role in MACHINE_ROLES), "holder"})
EVERYBODY = PEOPLE | MACHINES
ASKING = PEOPLE | {"reviewer elsewhere", "no role"}  # lists show them less, perhaps nothing
LISTS = EVERYBODY | ASKING | {"worker elsewhere"}
SUBMITTERS = frozenset({"submitter", "operator", "admin"})
OPERATORS = frozenset({"operator", "admin"})
REVIEWERS = frozenset({"reviewer", "admin"})
SPEAKERS = frozenset({"submitter", "reviewer", "operator", "admin"})
READERS = PEOPLE | {"holder"}
HOLDER = frozenset({"holder"})
GIT = frozenset({Role.GIT_INTEGRATION.value})

#: (method, route) → who gets past authorisation. The run is at its patch gate; none of the callers asked for
#: its task.
TABLE: dict[tuple[str, str], frozenset[str]] = {
    ("GET", "tasks"): ASKING,
    ("POST", "tasks"): SUBMITTERS,
    ("GET", "tasks/{task_id}"): PEOPLE,
    ("PATCH", "tasks/{task_id}"): OPERATORS,
    ("DELETE", "tasks/{task_id}"): OPERATORS,
    ("POST", "tasks/{task_id}/submit"): OPERATORS,
    ("POST", "tasks/{task_id}/cancel"): OPERATORS,
    ("POST", "tasks/{task_id}/retry"): OPERATORS,
    ("POST", "tasks/{task_id}/run-again"): SUBMITTERS,
    ("POST", "tasks/{task_id}/access-renewed"): OPERATORS,
    ("POST", "tasks/{task_id}/archive"): OPERATORS,
    ("POST", "tasks/{task_id}/archive-after"): OPERATORS,
    ("POST", "tasks/{task_id}/restore"): OPERATORS,
    ("POST", "tasks/{task_id}/instructions"): OPERATORS,
    ("POST", "leases"): MACHINES | {"worker elsewhere"},
    ("GET", "runs"): LISTS,
    ("GET", "runs/{run_id}"): READERS,
    ("POST", "runs/{run_id}/heartbeat"): HOLDER,
    ("POST", "runs/{run_id}/release"): HOLDER,
    ("GET", "runs/{run_id}/events"): READERS,
    ("POST", "runs/{run_id}/events"): HOLDER,
    ("POST", "runs/{run_id}/events/batch"): HOLDER,
    ("GET", "runs/{run_id}/artifacts"): READERS,
    ("POST", "runs/{run_id}/artifacts"): HOLDER,
    ("POST", "runs/{run_id}/logs"): HOLDER,
    ("GET", "runs/{run_id}/logs/{operation_id}"): READERS,
    ("GET", "runs/{run_id}/resume"): READERS,
    ("POST", "runs/{run_id}/resume"): OPERATORS,
    ("GET", "runs/{run_id}/steps"): READERS,
    ("GET", "runs/{run_id}/attempts"): READERS,
    ("GET", "runs/{run_id}/timeline"): READERS,
    ("GET", "runs/{run_id}/receipt"): READERS,
    ("POST", "runs/{run_id}/cancel"): OPERATORS,
    ("POST", "runs/{run_id}/pause"): OPERATORS,
    ("POST", "runs/{run_id}/wind-down"): OPERATORS,
    ("POST", "runs/{run_id}/note"): SPEAKERS,
    ("GET", "artifacts/{artifact_id}"): READERS,
    ("GET", "approvals"): ASKING,
    ("GET", "approvals/{approval_id}"): PEOPLE,
    ("POST", "approvals/{approval_id}/decisions"): REVIEWERS,
    ("POST", "approvals/{approval_id}/waivers"): OPERATORS,
    ("POST", "approvals/{approval_id}/assign"): REVIEWERS | OPERATORS,
    ("POST", "approvals/{approval_id}/snooze"): REVIEWERS | OPERATORS,
    ("GET", "pull-requests"): LISTS,
    ("GET", "pull-requests/{pull_request_id}"): PEOPLE | GIT,
    ("POST", "pull-requests/{pull_request_id}/state"): GIT,
    ("GET", "campaigns"): ASKING,
    ("POST", "campaigns"): SUBMITTERS,
    ("GET", "campaigns/{campaign_id}"): PEOPLE,
    ("PATCH", "campaigns/{campaign_id}"): OPERATORS,
    ("GET", "campaigns/{campaign_id}/parts"): PEOPLE,
    ("GET", "campaigns/{campaign_id}/events"): PEOPLE,
    ("POST", "campaigns/{campaign_id}/pause"): OPERATORS,
    ("POST", "campaigns/{campaign_id}/resume"): OPERATORS,
    ("POST", "campaigns/{campaign_id}/retry"): OPERATORS,
    ("POST", "campaigns/{campaign_id}/cancel"): OPERATORS,
    ("GET", "holds"): ASKING,
    ("POST", "holds"): OPERATORS,
    ("DELETE", "holds/{hold_id}"): OPERATORS,
    ("GET", "outcomes"): ASKING,
    ("GET", "repositories"): LISTS,
    ("GET", "repositories/{repository}"): EVERYBODY,
    ("GET", "workers"): LISTS,
}

#: Bodies that get past the form, so that authorisation is what answers.
BODIES: dict[str, Any] = {
    "tasks": factories.contract(),
    "cancel": {"reason": "x"},
    "note": {"text": "x"},
    "instructions": {"text": "x"},
    "events": {"type": "tool_completed", "payload": {"operation_id": "x", "outcome": "succeeded"}},
    "batch": {"events": [{"key": "k", "type": "tool_completed", "payload": {}}]},
    "waivers": {"guard": "secret_scan", "reason": "x", "version": 1},
    "state": {"state": "MERGED"},
    "holds": {"scope": "platform", "reason": "x"},
    "{campaign_id}": {"failure_limit_percent": 50},
}
REFUSED = {401, 403, 404}
PEOPLES = ("tasks", "approvals")  # machines are told that these are for people


@dataclass
class World:
    """One run at its patch gate, one with a pull request, and everybody who might call."""

    ids: dict[str, str]
    callers: dict[str, Caller]
    bodies: dict[str, Any]


@pytest.fixture
def world() -> World:
    where = factories.repository()
    holder = factories.run_in(RunStatus.WAITING_FOR_APPROVAL, where=where)
    opened = factories.run_in(RunStatus.SUCCEEDED, where=where).run
    run = holder.run
    request = run.approvals.get()
    ids = {
        "task_id": run.task_id,
        "run_id": run.pk,
        "artifact_id": holder.state.patch["id"] if holder.state.patch else "",
        "approval_id": request.pk,
        "pull_request_id": opened.pull_request.pk,
        "repository": where.pk,
        "operation_id": "setup",
        "campaign_id": _campaign(where),
        "hold_id": service.hold_set(scope="repository", value=where.pk, reason="x", by="test").id,
    }
    LiveLog.objects.create(
        run=run, operation_id="setup", fence=1, worker_id=run.worker_id, created_at=run.created_at
    )
    decision = {"decision": "reject", "version": 1, "subject_sha256": request.subject_sha256, "comment": "x"}
    bodies = {**BODIES, "tasks": {**BODIES["tasks"], "repository": where.name}, "decisions": decision}
    bodies["campaigns"] = {"contract": factories.contract(), "repositories": [where.name]}
    return World(ids, {**_people(), **_machines(), "holder": Caller(holder.machine.token)}, bodies)


def _campaign(where: Repository) -> str:
    by = auth.of_person(factories.person(PersonRole.SUBMITTER)).caller
    data = {"contract": factories.contract(), "repositories": [where.name]}
    return service.campaign_create(data=data, known=[where], by=by)[0].pk


def _people() -> dict[str, Caller]:
    made = {role.value: factories.person(role) for role in PersonRole}
    made["reviewer elsewhere"] = factories.person(PersonRole.REVIEWER, repository=factories.repository())
    made["no role"] = factories.person()
    return {name: Caller(factories.person_token(somebody)) for name, somebody in made.items()}


def _machines() -> dict[str, Caller]:
    made = {role.value: factories.worker(role) for role in MACHINE_ROLES}
    made["worker elsewhere"] = factories.worker(repositories=(factories.repository(),))
    return {**{name: Caller(machine.token) for name, machine in made.items()}, "anonymous": Caller()}


def routes() -> Iterator[tuple[str, str]]:
    """Every (method, route) below /api/v1/, from the URL configuration."""
    for route, pattern in _patterns(get_resolver().url_patterns):
        if route.startswith("api/v1/"):
            view: Any = getattr(pattern.callback, "view_class")  # noqa: B009  as DRF sets it
            for method in view.http_method_names:
                if hasattr(view, method) and method not in ("head", "options"):
                    yield method.upper(), _plain(route.removeprefix("api/v1/"))


def _patterns(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _patterns(pattern.url_patterns, here)
        else:
            yield here, pattern


def _plain(route: str) -> str:
    return re.sub(r"<\w+:(\w+)>", r"{\1}", route)


def test_every_route_has_a_row_and_every_row_a_route():
    assert set(routes()) == TABLE.keys()


def test_exactly_the_listed_callers_pass_and_strangers_are_asked_who_they_are(world):
    answers = {row: {name: _call(world, caller, *row).status_code for name, caller in world.callers.items()}
               for row in TABLE}  # fmt: skip
    wrong = {row: told for row in TABLE if max((told := answers[row]).values()) >= 500}
    assert wrong == {}
    passed = {
        row: frozenset(name for name in told if told[name] not in REFUSED) for row, told in answers.items()
    }
    assert passed == TABLE
    assert {told["anonymous"] for told in answers.values()} == {401}


def _call(world: World, caller: Caller, method: str, route: str, ids: dict[str, str] | None = None) -> Any:
    """One call, undone again: every caller finds the same world."""
    body = world.bodies.get(route.rpartition("/")[2], {}) if method != "GET" else None
    with transaction.atomic():
        answer = caller.send(method, route.format(**(ids or world.ids)), body, idempotency_key="key")
        transaction.set_rollback(True)
    return answer


@pytest.mark.parametrize("name", ["reviewer elsewhere", "worker elsewhere", "no role"])
def test_what_is_of_another_repository_answers_as_what_is_not_there(world, name):
    """Every route and method: nobody learns from an answer that something exists."""
    caller, nowhere = world.callers[name], {known: _made_up(value) for known, value in world.ids.items()}
    for method, route in TABLE:
        if "{" in route:
            there, not_there = (_call(world, caller, method, route, ids) for ids in (world.ids, nowhere))
            assert (there.status_code, _said(there)) == (not_there.status_code, _said(not_there)), route
            assert there.status_code in {403, 404}, (method, route)
            assert method != "GET" or there.status_code == 404 or name == "worker elsewhere", route


def _made_up(value: str) -> str:
    """An id of the same form that nothing has."""
    prefix, _, ulid = value.partition("_")
    return f"{prefix}_{'0' * len(ulid)}" if ulid else value


def _said(answer: Any) -> tuple[str, str]:
    document = answer.json()
    return document["code"], document["detail"]
