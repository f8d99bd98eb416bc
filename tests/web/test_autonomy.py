"""Earned autonomy: a synthetic history with known error rates yields the expected proposals, and nothing
changes without an audited decision."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from runs import store
from runs.domain.vocabulary import PersonRole
from runs.models import AuditEntry, Policy, Repository
from runs.selectors.policies import effective_policies
from tests import factories as make
from tests.past import Ended, post

pytestmark = pytest.mark.django_db


def reviewed(sure: float, *, right: int = 0, wrong: int = 0, reverted: int = 0) -> list[Ended]:
    """So many runs at whose gate somebody took, or refused, what the judge passed with this confidence."""
    return [
        *[Ended((("approved", sure),), "MERGED")] * right,
        *[Ended((("rejected", sure),))] * wrong,
        *[Ended((("approved", sure),), "MERGED", reverted=True)] * reverted,
    ]


def alone(sure: float, *, merged: int = 0, closed: int = 0, reverted: int = 0, still: int = 0) -> list[Ended]:
    """So many runs that went out without a person."""
    verdict = (("alone", sure),)
    return [
        *[Ended(verdict, "MERGED")] * merged,
        *[Ended(verdict, "CLOSED")] * closed,
        *[Ended(verdict, "MERGED", reverted=True)] * reverted,
        *[Ended(verdict, "OPEN")] * still,
    ]


@pytest.fixture
def where() -> Repository:
    return make.repository("shop")


@pytest.fixture
def chief(where: Repository) -> Client:
    client = Client()
    client.force_login(make.person(PersonRole.ADMIN, name="chief"))
    return client


def proposed(client: Client) -> str:
    """The proposal's words; "" for none."""
    proposal = client.get("/autonomy/shop/").context["autonomy"]["proposal"]
    return proposal["words"] if proposal else ""


@pytest.mark.parametrize(
    ("past", "words"),
    [
        (alone(0.83, merged=30, closed=25) + alone(0.95, merged=60), "Raise it from 0.8 to 0.84."),
        (reviewed(0.77, right=60) + alone(0.9, merged=40), "Lower it from 0.8 to 0.75."),
        # What was merged and reverted later was wrong, whoever approved it.
        (reviewed(0.77, right=48, reverted=12) + alone(0.9, merged=40), ""),
        (alone(0.9, merged=30, reverted=12), "Raise it from 0.8 to 1."),
        # What is still open says nothing yet.
        (alone(0.9, still=100, closed=20), ""),
        (reviewed(0.85, wrong=29), ""),
        (reviewed(0.85, wrong=30), "Raise it from 0.8 to 1."),
    ],
)
def test_known_error_rates_yield_the_expected_proposals(chief, where, past, words):
    post(where, *past)
    assert proposed(chief) == words


def test_below_thirty_verdicts_the_page_says_how_many_are_there(chief, where):
    post(where, *reviewed(0.85, wrong=29), *alone(0.9, still=40))
    found = chief.get("/autonomy/shop/").context["autonomy"]
    assert (found["proposal"], found["standing"]) == (
        None,
        "Nothing is proposed below 30 verdicts; there are 29.",
    )


def test_figures_have_their_interval_and_lead_to_the_runs_behind_them(chief, where):
    twice = Ended((("changes_requested", 0.9), ("approved", 0.9)), "MERGED", labels=("bump",))
    gone = Ended((("approved", 0.9),), "MERGED", reverted=True)
    post(where, twice, *reviewed(0.9, right=6, wrong=1), *alone(0.9, merged=2, closed=1, still=3), gone)
    page = chief.get("/autonomy/shop/").context["autonomy"]
    told = {figure["label"]: (figure["text"], figure["note"]) for figure in page["figures"]}
    assert told == {
        "Wrong verdicts": ("31 %", "13 % to 58 %, 4 of 13 verdicts"),
        "Reviewers agreed": ("80 %", "49 % to 94 %, 8 of 10 decisions"),
        "Reviewed again": ("11 %", "2 % to 43 %, 1 of 9 reviewed runs"),
        "Time to verdict": ("10 min", "median; 95 of 100 within 10 min"),
        "Reverted later": ("10 %", "2 % to 40 %, 1 of 10 merged"),
    }
    behind = {figure["label"]: len(chief.get(figure["href"]).context["rows"]) for figure in page["figures"]}
    assert behind == {
        "Wrong verdicts": 4, "Reviewers agreed": 9, "Reviewed again": 1, "Time to verdict": 9,
        "Reverted later": 1,
    }  # fmt: skip
    kinds = {kind["name"]: kind["figures"][0]["note"] for kind in page["kinds"]}
    assert kinds["bump"].endswith("1 of 2 verdicts")
    assert list(kinds) == ["(none)", "bump"]
    by_agent = chief.get("/autonomy/shop/?by=agent").context["autonomy"]["kinds"]
    assert [kind["name"] for kind in by_agent] == ["script"]


def test_nothing_changes_until_somebody_applies_it_with_a_reason_which_is_kept(chief, where):
    post(where, *reviewed(0.77, right=60), *alone(0.9, merged=40))
    form = form_of(chief)
    assert threshold(where) == 0.8
    refused = chief.post("/autonomy/shop/apply/", {**form, "reason": " "}, follow=True)
    assert "reason say why" in refused.content.decode()
    other = chief.post("/autonomy/shop/apply/", {**form, "value": "0.5", "reason": "Braver."}, follow=True)
    assert "moved meanwhile" in other.content.decode()
    assert threshold(where) == 0.8
    assert not AuditEntry.objects.filter(kind="policy").exists()

    chief.post("/autonomy/shop/apply/", {**form, "reason": "It has earned it."})
    assert threshold(where) == 0.75
    entry = AuditEntry.objects.get(kind="policy")
    assert (entry.by, entry.reason, entry.after) == (
        "chief", "It has earned it.", {"judge_confidence": 0.75},
    )  # fmt: skip
    assert "Earned autonomy in shop: Of what would newly go out by itself, 0 of 60 verdicts" in entry.note
    assert proposed(chief) == ""
    again = chief.post("/autonomy/shop/apply/", {**form, "reason": "Twice."}, follow=True)
    assert "moved meanwhile" in again.content.decode()
    assert where.policy.versions.count() == 1


def form_of(client: Client) -> dict[str, str]:
    """The hidden fields of the page's form."""
    text = client.get("/autonomy/shop/").content.decode()
    return dict(re.findall(r'type="hidden" name="(value|based_on)" value="([^"]*)"', text))


def threshold(where: Repository) -> float:
    return float(effective_policies(repository_ids=[where.pk])[where.pk].values["judge_confidence"])


@pytest.mark.parametrize("role", [PersonRole.VIEWER, PersonRole.OPERATOR, PersonRole.REVIEWER])
def test_only_those_who_may_change_the_policy_apply_it(chief, where, role):
    post(where, *reviewed(0.85, wrong=30))
    form = {**form_of(chief), "reason": "Enough."}
    somebody = Client()
    somebody.force_login(make.person(role))
    page = somebody.get("/autonomy/shop/").content.decode()
    assert "Raise it from 0.8 to 1." in page
    assert "Apply</button>" not in page
    assert somebody.post("/autonomy/shop/apply/", form).status_code == 403
    assert threshold(where) == 0.8


def test_a_policy_that_holds_elsewhere_is_not_lowered_by_one_repositorys_evidence(chief, where):
    other = make.repository("other")
    Repository.objects.filter(pk=other.pk).update(policy=where.policy)
    post(where, *reviewed(0.77, right=60), *alone(0.9, merged=40))
    page = chief.get("/autonomy/shop/").context["autonomy"]["proposal"]
    assert page["obstacle"].endswith("holds for 1 more repository: give shop a policy of its own first.")
    form = {"value": page["value"], "based_on": page["based_on"], "reason": "x"}
    assert "of its own first" in chief.post("/autonomy/shop/apply/", form, follow=True).content.decode()
    assert threshold(where) == 0.8


def test_a_lower_level_cannot_be_laxer_than_the_one_above(chief, where):
    above = Policy.objects.create(name="house")
    store.add_policy_version(above, {"judge_confidence": 0.85}, by="test")
    Policy.objects.filter(pk=where.policy_id).update(inherits=above)
    post(where, *reviewed(0.82, right=60), *alone(0.9, merged=40))
    page = chief.get("/autonomy/shop/").context["autonomy"]["proposal"]
    assert page["words"] == "Lower it from 0.85 to 0.8."
    assert "A policy above asks for 0.85 (house)" in page["obstacle"]


def test_the_list_shows_proposals_first_and_only_what_one_may_see(chief, where):
    calm = make.repository("calm")
    post(calm, *reviewed(0.9, right=3))
    post(where, *reviewed(0.85, wrong=30))
    rows = chief.get("/autonomy/").context["rows"]
    assert [(row["name"], row["proposal"]) for row in rows] == [
        ("shop", "Raise it from 0.8 to 1"),
        ("calm", ""),
    ]
    stranger = Client()
    stranger.force_login(make.person(PersonRole.VIEWER, repository=calm))
    assert [row["name"] for row in stranger.get("/autonomy/").context["rows"]] == ["calm"]
    assert stranger.get("/autonomy/shop/").status_code == 404
    nobody = Client()
    nobody.force_login(make.person())
    assert "No verdict yet" in nobody.get("/autonomy/").content.decode()
