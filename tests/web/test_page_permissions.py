"""Role by page: one table says who gets past authorisation; a new page without a row fails.

Every page is read from the URL configuration and asked for as everybody. A row lists who gets past; all
others must be told 403 or 404, and strangers must be sent to the sign-in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from runs import auth, service
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus
from runs.models import Repository
from tests import factories

pytestmark = pytest.mark.django_db

ALL = frozenset(role.value for role in PersonRole)
#: Lists open for everybody who is signed in: they show less, perhaps nothing.
ASKING = ALL | {"reviewer elsewhere", "no role"}
SUBMITTERS = frozenset({"submitter", "operator", "admin"})
OPERATORS = frozenset({"operator", "admin"})
REVIEWERS = frozenset({"reviewer", "admin"})
SPEAKERS = frozenset({"submitter", "reviewer", "operator", "admin"})
ADMINS = frozenset({"admin"})
NOBODY: frozenset[str] = frozenset()

#: (method, page, last word of an action) → who gets past. The run is at its patch gate; none of the callers
#: asked for its task.
TABLE: dict[tuple[str, str], frozenset[str]] = {
    ("GET", ""): ASKING,
    ("GET", "tasks/"): ASKING,
    ("GET", "tasks/new/"): SUBMITTERS,
    ("POST", "tasks/new/"): SUBMITTERS,
    ("POST", "tasks/new/check/"): SUBMITTERS,
    ("POST", "tasks/new/file/"): SUBMITTERS,
    ("POST", "tasks/bulk/"): ASKING,
    ("GET", "tasks/{task_id}/"): ALL,
    ("GET", "tasks/{task_id}/contract.json"): ALL,
    ("GET", "tasks/{task_id}/edit/"): OPERATORS,
    ("POST", "tasks/{task_id}/edit/"): OPERATORS,
    **{
        ("POST", f"tasks/{{task_id}}/{action}/"): OPERATORS
        for action in (
            "submit",
            "cancel",
            "delete",
            "retry",
            "run_now",
            "access_renewed",
            "archive",
            "archive_after",
            "restore",
            "instructions",
            "priority",
            "label",
        )
    },
    ("POST", "tasks/{task_id}/run_again/"): SUBMITTERS,
    ("GET", "runs/"): ASKING,
    ("GET", "runs/export.csv"): ASKING,
    ("GET", "runs/{run_id}/"): ALL,
    ("GET", "runs/{run_id}/events/"): ALL,
    ("GET", "runs/{run_id}/logs/{operation_id}/"): ALL,
    ("GET", "runs/{run_id}/events.jsonl"): ALL,
    **{
        ("POST", f"runs/{{run_id}}/{action}/"): OPERATORS
        for action in ("cancel", "wind_down", "pause", "resume")
    },
    ("POST", "runs/{run_id}/note/"): SPEAKERS,
    ("GET", "artifacts/{artifact_id}/"): ALL,
    ("GET", "artifacts/{artifact_id}/files/{index}/"): ALL,
    ("GET", "artifacts/{artifact_id}/files/{index}/around/"): ALL,
    ("GET", "repositories/"): ASKING,
    ("GET", "repositories/{name}/"): ALL,
    ("GET", "campaigns/"): ASKING,
    ("GET", "campaigns/new/"): SUBMITTERS,
    ("POST", "campaigns/new/"): SUBMITTERS,
    ("GET", "campaigns/{campaign_id}/"): ALL,
    **{
        ("POST", f"campaigns/{{campaign_id}}/{action}/"): OPERATORS
        for action in ("pause", "resume", "retry", "cancel", "change")
    },
    ("GET", "workers/"): ASKING,
    ("GET", "holds/"): ASKING,
    ("POST", "holds/"): OPERATORS,
    ("POST", "holds/{hold_id}/lift/"): OPERATORS,
    ("GET", "outcomes/"): ASKING,
    ("GET", "outcomes/export.csv"): ASKING,
    ("GET", "autonomy/"): ASKING,
    ("GET", "autonomy/{name}/"): ALL,
    ("POST", "autonomy/{name}/apply/"): ADMINS,
    ("GET", "lifecycle/"): ASKING,
    ("GET", "notifications/"): ASKING,
    ("GET", "patterns/"): NOBODY,
    ("GET", "approvals/"): ASKING,
    ("POST", "approvals/bulk/"): ASKING,
    ("GET", "approvals/{approval_id}/"): ALL,
    ("GET", "approvals/{approval_id}/standing/"): ALL,
    ("POST", "approvals/{approval_id}/decision/"): REVIEWERS,
    ("POST", "approvals/{approval_id}/waiver/"): OPERATORS,
    ("POST", "approvals/{approval_id}/assign/"): REVIEWERS | OPERATORS,
    ("POST", "approvals/{approval_id}/snooze/"): REVIEWERS | OPERATORS,
    ("POST", "notifications/read/"): ASKING,
    ("GET", "notifications/settings/"): ASKING,
    ("POST", "notifications/settings/"): ASKING,
    ("POST", "notifications/away/"): ASKING,
    ("POST", "notifications/away/{absence_id}/end/"): NOBODY,
    ("GET", "accounts/me/"): ASKING,
    ("POST", "accounts/me/sessions/end/"): ASKING,
    ("POST", "accounts/me/password/"): ASKING,
    ("POST", "accounts/me/tokens/"): ASKING,
    ("POST", "accounts/me/tokens/{token_id}/revoke/"): NOBODY,
    ("POST", "accounts/me/tokens/{token_id}/renew/"): NOBODY,
}
#: For everybody, signed in or not; each has tests of its own.
OPEN = frozenset({"accounts/login/", "accounts/logout/", "accounts/demo/{name}/", "favicon.ico"})
#: Of the extra around signing in; its own tests ask them as strangers, too.
SIGN_IN_EXTRA = tuple(f"accounts/{name}/" for name in (
    "oidc", "second-factor", "reauthenticate", "inactive", "cancelled", "failed",
))  # fmt: skip
ELSEWHERE = ("api/", "^api", "webhooks/", "admin/", "healthz", "readyz", "metrics", *SIGN_IN_EXTRA)
REFUSED = frozenset({403, 404})


@pytest.fixture
def ids() -> dict[str, str]:
    holder = factories.run_in(RunStatus.EXECUTING)
    call: Any = {"operation_id": "op-1", "tool": "shell", "arguments": {"n": 1}, "label": "Look"}
    holder.post(Ev.TOOL_REQUESTED, **call)
    said = holder.upload(ArtifactKind.OUTPUT, b"seen")
    holder.post(Ev.TOOL_COMPLETED, operation_id="op-1", outcome="succeeded", output_artifact_id=said)
    factories.drive(holder, RunStatus.WAITING_FOR_APPROVAL)
    run = holder.run
    request = run.approvals.get()
    return {
        "task_id": run.task_id,
        "run_id": run.pk,
        "artifact_id": (holder.state.patch or {})["id"],
        "operation_id": "op-1",
        "index": "0",
        "name": run.repository.name,
        "approval_id": request.pk,
        "sha": request.subject_sha256,
        "campaign_id": _campaign(run.repository),
        "hold_id": service.hold_set(scope="repository", value=run.repository.name, reason="x", by="test").id,
        "absence_id": "awy_of_somebody_else",
        "token_id": "tok_of_somebody_else",
    }


def _campaign(where: Repository) -> str:
    by = auth.of_person(factories.person(PersonRole.SUBMITTER)).caller
    data = {"contract": factories.contract(), "repositories": [where.name]}
    return service.campaign_create(data=data, known=[where], by=by)[0].pk


@pytest.fixture
def callers() -> dict[str, Client]:
    people = {role.value: factories.person(role) for role in PersonRole}
    people["reviewer elsewhere"] = factories.person(PersonRole.REVIEWER, repository=factories.repository())
    people["no role"] = factories.person()
    clients = {name: Client() for name in people}
    for name, client in clients.items():
        client.force_login(people[name])
    return clients


def pages() -> Iterator[str]:
    """Every page, from the URL configuration, as a template of its address."""
    for route in _routes(get_resolver().url_patterns):
        if not route.startswith(ELSEWHERE):
            yield re.sub(r"<\w+:(\w+)>", r"{\1}", route)


def _routes(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, here)
        elif isinstance(pattern, URLPattern):
            yield here


def test_every_page_has_a_row():
    told = {page for _, page in TABLE} | OPEN
    actions = {f"{kind}s/{{{kind}_id}}/{{action}}/" for kind in ("task", "run", "campaign")}
    untold = {page for page in pages() if page not in told and page not in actions}
    assert untold == set()
    gone = {page for page in told if page not in set(pages()) and not _is_action(page)}
    assert gone == set()


def _is_action(page: str) -> bool:
    return re.fullmatch(r"(tasks/{task_id}|runs/{run_id}|campaigns/{campaign_id})/\w+/", page) is not None


def test_every_action_has_a_row():
    from runs import actions
    from runs.web import campaigns

    known = {f"tasks/{{task_id}}/{name}/" for name in actions._TASK_ACTIONS}
    known |= {f"runs/{{run_id}}/{name}/" for name in (*actions._DIRECTIVES, "note")}
    known |= {f"campaigns/{{campaign_id}}/{name}/" for name in campaigns._ACTIONS}
    assert {page for method, page in TABLE if method == "POST" and _is_action(page)} - {
        "tasks/{task_id}/edit/"
    } == known


def _ask(client: Client, method: str, page: str, ids: dict[str, str]) -> Any:
    """One call, undone again: every caller finds the same world."""
    form = {
        "decision": "reject",
        "version": "1",
        "subject_sha256": ids["sha"],
        "comment": "Not like this.",
        "reason": "Not needed.",
        "guard": "secret_scan",
        "text": "A word.",
        "scope": "platform",
    }
    with transaction.atomic():
        if method == "GET":
            answer = client.get(f"/{page.format(**ids)}")
        else:
            answer = client.post(f"/{page.format(**ids)}", form)
        transaction.set_rollback(True)
    return answer


def test_exactly_the_listed_people_pass_and_strangers_are_sent_to_the_sign_in(ids, callers):
    everybody = {**callers, "stranger": Client()}
    answers: dict[Any, Any] = {
        row: {name: _ask(client, *row, ids) for name, client in everybody.items()} for row in TABLE
    }
    for row, told in answers.items():
        stranger = told.pop("stranger")
        assert (stranger.status_code, stranger.url.split("?")[0]) == (302, "/accounts/login/"), row
        assert all(answer.status_code < 500 for answer in told.values()), row
    passed = {
        row: frozenset(name for name, answer in told.items() if answer.status_code not in REFUSED)
        for row, told in answers.items()
    }
    assert passed == TABLE


@pytest.mark.parametrize("name", ["reviewer elsewhere", "no role"])
def test_what_is_elsewhere_answers_as_what_is_not_there(ids, callers, name):
    """Every page and button: nobody learns from an answer that something exists."""
    nowhere = {known: _made_up(value) for known, value in ids.items()}
    for method, page in TABLE:
        if "{" in page:
            there, not_there = (_ask(callers[name], method, page, found) for found in (ids, nowhere))
            assert there.status_code == not_there.status_code == 404, (method, page)
            assert _text(there, ids) == _text(not_there, nowhere), page


def _made_up(value: str) -> str:
    """Of the same form, and nothing has it."""
    return re.sub(r"[0-9A-Za-z]{26}$", "0" * 26, value)


def _text(answer: Any, ids: dict[str, str]) -> str:
    """The page without what differs from one answer to the next, and without what was asked for."""
    text = re.sub(r"[A-Za-z0-9]{64}", "", answer.content.decode())
    text = text.replace('{"X-CSRFToken": ""}', "")
    for value in ids.values():
        text = text.replace(value, "…") if len(value) > 20 else text
    return text
