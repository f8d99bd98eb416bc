"""Outcomes: what is counted, for whom, and that each figure leads to exactly the runs behind it."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from approvals.asking.models import RepositoryOwner, Team
from runs.domain.vocabulary import PersonRole
from runs.models import Campaign, Person, Repository
from runs.selectors.outcomes import NONE
from tests import factories as make
from tests.campaigns import make_campaign
from tests.past import Ended, post

pytestmark = pytest.mark.django_db

HEADS = ("runs", "opened", "merged", "closed", "reverted", "red", "time", "cost", "each")


@pytest.fixture
def shop() -> Repository:
    """Four runs in a repository of team Money: two merged, one of them reverted; one closed; one without."""
    where = make.repository("shop")
    RepositoryOwner.objects.create(repository=where, team=Team.objects.create(name="Money"))
    post(
        where,
        Ended(life="MERGED", labels=("bump",), merged_after=timedelta(hours=2), cost="0.5"),
        Ended(
            life="MERGED", labels=("bump", "urgent"), merged_after=timedelta(hours=6), reverted=True, red=True
        ),
        Ended(life="CLOSED", agent="model", red=True, cost="2"),
        Ended(agent="model", cost="0.5"),
        Ended(life="MERGED", days=60),
    )
    return where


@pytest.fixture
def viewer(shop: Repository) -> Client:
    return client_of(make.person(PersonRole.VIEWER))


def client_of(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def table(client: Client, address: str = "") -> dict[str, dict[str, str]]:
    """Group → column → text."""
    rows = client.get(f"/outcomes/{address}").context["rows"]
    return {row["who"]: dict(zip(HEADS, (c["text"] for c in row["cells"]), strict=True)) for row in rows}


def test_the_figures_of_a_repository(viewer):
    post(make.repository("empty"), Ended())
    found = table(viewer)
    assert found["shop"] == {
        "runs": "4", "opened": "3", "merged": "2 (67 %)", "closed": "1 (33 %)", "reverted": "1 (50 %)",
        "red": "2 (67 %)", "time": "4 h", "cost": "$4.00", "each": "$2.00",
    }  # fmt: skip
    assert found["empty"]["each"] == "–"
    assert table(viewer, "?days=90")["shop"]["merged"] == "3 (75 %)"
    assert list(table(viewer, "?days=7")) == ["shop", "empty"]


@pytest.mark.parametrize(
    ("by", "merged"),
    [
        ("agent", {"script": "2 (100 %)", "model": "0"}),
        ("label", {"bump": "2 (100 %)", "urgent": "1 (100 %)", NONE: "0"}),
        ("team", {"Money": "2 (67 %)", NONE: "0"}),
    ],
)
def test_by_agent_label_and_team(viewer, by, merged):
    post(make.repository("elsewhere"), Ended(agent="model"))
    found = table(viewer, f"?by={by}")
    assert {who: cells["merged"] for who, cells in found.items()} == merged


def test_each_figure_leads_to_exactly_the_runs_behind_it(viewer):
    for by in ("repository", "agent", "campaign", "label", "team"):
        page = viewer.get(f"/outcomes/?by={by}").context
        links = [*page["tiles"], *(cell for row in page["rows"] for cell in row["cells"])]
        counted = [
            (link["href"], link["text"]) for link in links if link["href"] and link["text"][0].isdigit()
        ]
        assert len(counted) > 6
        for href, text in counted:
            if re.match(r"^[\d,]+( \(|$)", text):
                rows = viewer.get(href).context["rows"]
                assert len(rows) == int(text.split()[0]), (href, text)


def test_a_campaign_is_called_by_its_title_and_its_page_leads_there(viewer, shop):
    campaign = make_campaign(1)
    Campaign.objects.filter(pk=campaign.pk).update(title="Agree")
    post(shop, Ended(life="MERGED", campaign=campaign.pk), Ended(campaign=campaign.pk))
    found = table(viewer, "?by=campaign")
    assert {who: cells["merged"] for who, cells in found.items()} == {"Agree": "1 (100 %)", NONE: "2 (67 %)"}
    whole = client_of(make.person(PersonRole.VIEWER))
    link = whole.get(f"/campaigns/{campaign.pk}/").context["campaign"]["outcomes"]
    page = whole.get(link).context
    assert [row["who"] for row in page["rows"]] == ["shop"]
    assert page["filters"]["summary"] == "Only in one campaign"
    runs = page["rows"][0]["cells"][0]
    assert (runs["text"], len(whole.get(runs["href"]).context["rows"])) == ("2", 2)
    head, *lines = csv.reader(io.StringIO(whole.get("/outcomes/export.csv?by=campaign").content.decode()))
    assert head[:2] == ["campaign", "title"]
    assert [line[:2] for line in lines] == [[NONE, NONE], [campaign.pk, "Agree"]]


def test_filters_stand_in_the_address_and_clearing_keeps_the_look(viewer):
    page = viewer.get("/outcomes/?by=agent&label=bump&days=90").context
    assert [row["who"] for row in page["rows"]] == ["script"]
    assert page["filters"]["summary"] == "Only label bump"
    assert page["filters"]["clear_url"] == "?by=agent&days=90"
    nothing = viewer.get("/outcomes/?by=agent&label=no-such&days=90")
    assert "Nothing matches" in nothing.content.decode()
    odd = viewer.get("/outcomes/?by=nonsense&days=x&team=%00").context
    assert (odd["by"], odd["rows"]) == ("Repository", [])


def test_nobody_counts_what_they_may_not_see(shop):
    elsewhere = make.repository("elsewhere")
    post(elsewhere, Ended(life="MERGED"))
    stranger = client_of(make.person(PersonRole.VIEWER, repository=elsewhere))
    assert list(table(stranger)) == ["elsewhere"]
    assert list(table(stranger, "?repository=shop")) == []
    assert list(table(client_of(make.person()))) == []
    assert "No run ended" in client_of(make.person()).get("/outcomes/").content.decode()


def test_the_same_as_csv_and_by_rest(viewer, shop):
    (head, line) = csv.reader(io.StringIO(viewer.get("/outcomes/export.csv?by=repository").content.decode()))
    assert dict(zip(head, line, strict=True)) == {
        "repository": "shop", "runs": "4", "opened": "3", "open": "0", "merged": "2", "closed": "1",
        "reverted": "1", "red_checks": "2", "median_seconds_to_merge": "14400", "cost_usd": "4",
        "cost_usd_per_merged": "2",
    }  # fmt: skip
    answer: Any = viewer.get("/api/v1/outcomes?by=agent&days=90").json()
    assert [(one["name"], one["merged"]) for one in answer["results"]] == [("script", 3), ("model", 0)]
    assert (answer["by"], answer["total"]["runs"], answer["total"]["cost_usd_per_merged"]) == (
        "agent", 5, "1.666667",
    )  # fmt: skip
    assert viewer.get("/api/v1/outcomes?by=colour").status_code == 400
    assert viewer.get("/api/v1/outcomes?days=8").status_code == 400


def test_the_page_costs_as_many_queries_whatever_there_is(viewer, shop, django_assert_max_num_queries):
    viewer.get("/outcomes/?by=label&team=Money")
    with django_assert_max_num_queries(12):
        viewer.get("/outcomes/?by=label&team=Money")
    post(shop, *[Ended(life="MERGED", labels=(f"label-{number}",)) for number in range(30)])
    with django_assert_max_num_queries(12):
        viewer.get("/outcomes/?by=label&team=Money")
