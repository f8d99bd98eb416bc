"""The pages of campaigns: what stands where, at the same cost however many repositories there are."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs import auth, service
from runs.domain.campaigns.words import CampaignStatus
from runs.domain.vocabulary import PersonRole
from runs.models import Campaign, Repository
from tests.campaigns import (
    advance,
    campaign_data,
    claim_any,
    fail,
    finish,
    make_campaign,
    make_repositories,
    state_of,
)
from tests.factories import contract, person, repository, worker

pytestmark = pytest.mark.django_db

FORM = {
    "title": "Move to the new clock",
    "instruction": "Replace it everywhere.",
    "completion_mode": "analysis_report_created",
    "risk_level": "low",
    "agent_kind": "script",
    "agent_command": "true",
    "plan_approval": "never",
    "priority": "5",
    "repositories": "fleet-*\n!fleet-03",
    "first_wave": "1",
    "growth": "2",
    "failure_limit_percent": "20",
    "completion": "tasks_completed",
    "v-TOTAL_FORMS": "0",
    "v-INITIAL_FORMS": "0",
    "idempotency_key": "once",
}


def signed_in(*roles: PersonRole, **options: Any) -> Client:
    client = Client()
    client.force_login(person(*roles, **options))
    return client


def test_the_page_says_what_is_left_what_is_waited_for_and_why_each_repository_stands() -> None:
    campaign, machine, lena = make_campaign(4, first_wave=2), worker(), signed_in(PersonRole.OPERATOR)
    advance(campaign)
    finish(claim_any(machine) or pytest.fail("nothing to claim"))
    fail(claim_any(machine) or pytest.fail("nothing to claim"))
    advance(campaign)
    text = lena.get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "1 of 2 failed; the limit is 20 %." in text
    assert "Retry what failed, or resume" in text
    assert "It cannot be done here." in text
    assert 'aria-label="2 of 4 repositories are still to be done"' in text
    assert "Retry failed" in text
    failed = lena.get(f"/campaigns/{campaign.pk}/?state=failed").content.decode()
    assert failed.count("data-item") == 1


def test_its_cost_does_not_grow_with_its_repositories() -> None:
    many, lena = make_campaign(12, first_wave=3), signed_in(PersonRole.OPERATOR)
    by = auth.of_person(person(PersonRole.SUBMITTER)).caller
    data = campaign_data(repositories=["fleet-0[1-4]"], first_wave=3)
    few, _ = service.campaign_create(data=data, known=Repository.objects.all(), by=by)
    costs = []
    for campaign in (few, many):
        advance(campaign)
        lena.get(f"/campaigns/{campaign.pk}/")  # what is read once in a process is read
        with CaptureQueriesContext(connection) as queries:
            assert lena.get(f"/campaigns/{campaign.pk}/").status_code == 200
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_nothing_is_started_before_it_was_looked_at_and_only_that_is() -> None:
    make_repositories(4)
    sue = signed_in(PersonRole.SUBMITTER)
    looked = sue.post("/campaigns/new/", {**FORM, "do": "start"})
    assert "What it would do" in looked.content.decode()
    assert not Campaign.objects.exists()
    seen = looked.context["seen"]
    changed = sue.post("/campaigns/new/", {**FORM, "first_wave": "2", "do": "start", "seen": seen})
    assert "What it would do" in changed.content.decode()
    assert not Campaign.objects.exists()
    for _ in range(2):
        assert sue.post("/campaigns/new/", {**FORM, "do": "start", "seen": seen}).status_code == 302
    state = state_of(Campaign.objects.get())
    assert (len(state.parts), state.opened, state.title) == (3, 1, FORM["title"])


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays() -> None:
    sue = signed_in(PersonRole.SUBMITTER)
    answer = sue.post("/campaigns/new/", {**FORM, "repositories": "nowhere", "first_wave": "many"})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "nowhere is no repository in which you may start tasks" in text
    assert "must be a whole number from 1 to 2000" in text
    assert "Replace it everywhere." in text


def test_a_double_click_is_one_event() -> None:
    campaign, lena = make_campaign(2), signed_in(PersonRole.OPERATOR)
    form = {"reason": "Lunch", "idempotency_key": f"pause-{campaign.pk}-1"}
    for _ in range(2):
        assert lena.post(f"/campaigns/{campaign.pk}/pause/", form).status_code == 302
    state = state_of(campaign)
    assert (state.status, state.sequence) == (CampaignStatus.PAUSED, 2)
    assert "Lunch" in lena.get("/holds/").content.decode()


def test_who_sees_one_repository_alone_is_told_that_its_task_is_part_of_something() -> None:
    campaign = make_campaign(2, first_wave=2)
    advance(campaign)
    task = campaign.tasks.order_by("pk")[0]
    elsewhere = signed_in(PersonRole.REVIEWER, repository=task.repository)
    assert elsewhere.get(f"/campaigns/{campaign.pk}/").status_code == 404
    assert "Part of a campaign" in elsewhere.get(f"/tasks/{task.pk}/").content.decode()
    assert campaign.pk in signed_in(PersonRole.VIEWER).get(f"/tasks/{task.pk}/").content.decode()


def test_markup_in_a_title_is_text() -> None:
    where = repository("plain")
    data = {"contract": contract(title="<script>alert(1)</script>"), "repositories": [where.name]}
    by = auth.of_person(person(PersonRole.SUBMITTER)).caller
    made, _ = service.campaign_create(data=data, known=[where], by=by)
    lena = signed_in(PersonRole.OPERATOR)
    for page in ("/campaigns/", f"/campaigns/{made.pk}/"):
        assert "<script>alert" not in lena.get(page).content.decode()


def test_an_empty_list_says_the_next_step() -> None:
    repository()
    assert "Start one" in signed_in(PersonRole.SUBMITTER).get("/campaigns/").content.decode()
    assert (
        "No campaign is in this state"
        in signed_in(PersonRole.VIEWER).get("/campaigns/?status=PAUSED").content.decode()
    )
