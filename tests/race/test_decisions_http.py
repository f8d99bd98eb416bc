"""One decision by whatever doors people and the clock come at once: pages, tabs, the API, the sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agentplatform.clock import database_now
from approvals.models import ApprovalRequest, Decision
from runs import timeouts
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Person, RunEvent
from tests import factories as make
from tests.race.connections import standing

pytestmark = pytest.mark.django_db(transaction=True)

WAITING = RunStatus.WAITING_FOR_APPROVAL
ROUNDS = [5, pytest.param(200, marks=pytest.mark.long)]


def waiting() -> ApprovalRequest:
    return ApprovalRequest.objects.get(run_id=make.run_in(WAITING).run_id)


def reviewer(name: str) -> Person:
    return make.person(PersonRole.REVIEWER, name=name)


def tab(somebody: Person) -> Client:
    client = Client()
    client.force_login(somebody, backend="django.contrib.auth.backends.ModelBackend")
    return client


def clicks(client: Client, request: ApprovalRequest, word: str) -> Callable[[], Any]:
    """A press of a button on the page."""
    fields = {"version": request.version, "subject_sha256": request.subject_sha256, "comment": "because"}
    url = reverse("approval-decision", args=[request.pk])
    return lambda: client.post(url, {**fields, "decision": word})


def calls(token: str, request: ApprovalRequest, word: str) -> Callable[[], Any]:
    """The same by the API."""
    body = {"version": request.version, "subject_sha256": request.subject_sha256, "comment": "because"}
    headers = {"Authorization": f"Bearer {token}"}
    return lambda: Client().post(
        f"/api/v1/approvals/{request.pk}/decisions",
        json.dumps({**body, "decision": word}),
        content_type="application/json",
        headers=headers,
    )


def moves(request: ApprovalRequest) -> list[str]:
    """What took the run out of its gate."""
    left = RunEvent.objects.filter(run_id=request.run_id, from_status=WAITING).exclude(to_status=WAITING)
    return list(left.order_by("sequence").values_list("event_type", flat=True))


def check_told(answer: Any, request: ApprovalRequest, winner: str) -> None:
    """Who came second learns who was first, and gets back what was typed."""
    assert answer.status_code == 409
    said = answer.content.decode()
    assert winner in said
    if answer["Content-Type"].startswith("text/html"):
        assert "Nothing was decided" in said
        assert "because" in said
    assert Decision.objects.filter(request=request).count() == 1


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_a_page_and_the_api_one_decides(rounds):
    bob, carol = reviewer("bob"), reviewer("carol")
    page, token = tab(bob), make.person_token(carol)
    with standing(2) as at_once:
        for _ in range(rounds):
            request = waiting()
            by_page, by_api = at_once(clicks(page, request, "approve"), calls(token, request, "reject"))
            page_won = by_page.status_code == 303
            assert moves(request) == ["approved" if page_won else "rejected"]
            assert (by_api.status_code == 200) is not page_won, by_api.content
            check_told(by_api if page_won else by_page, request, "bob" if page_won else "carol")


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_two_tabs_of_one_person_one_decides(rounds):
    bob = reviewer("bob")
    first, second = tab(bob), tab(bob)
    with standing(2) as at_once:
        for _ in range(rounds):
            request = waiting()
            answers = at_once(clicks(first, request, "approve"), clicks(second, request, "reject"))
            assert sorted(answer.status_code for answer in answers) == [303, 409]
            won = ["approved", "rejected"][answers[1].status_code == 303]
            assert moves(request) == [won]
            check_told(next(one for one in answers if one.status_code == 409), request, "bob")


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_a_click_and_the_clock_one_ends_the_wait(rounds, monkeypatch):
    later = database_now() + timedelta(days=30)
    monkeypatch.setattr(timeouts, "database_now", lambda: later)
    page = tab(reviewer("bob"))
    with standing(2) as at_once:
        for _ in range(rounds):
            request = waiting()
            answer, swept = at_once(clicks(page, request, "approve"), timeouts.sweep)
            assert [one.error for one in swept if one.error] == []
            request.refresh_from_db()
            if answer.status_code == 303:
                assert (request.status, moves(request)) == ("approved", ["approved"])
                continue
            assert (answer.status_code, request.status) == (409, "expired")
            assert moves(request) == ["run_cancelled"]
            assert "because" in answer.content.decode()
            assert not Decision.objects.filter(request=request).exists()
