"""The page of holds, and the banner on every other."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.test import Client

from runs import service
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Hold
from tests import factories
from tests.api.calls import Caller
from tests.spending import spend

pytestmark = pytest.mark.django_db


def signed_in(*roles: PersonRole) -> Client:
    client = Client()
    client.force_login(factories.person(*roles))
    return client


def test_a_hold_stands_at_the_top_of_every_page_until_it_is_lifted():
    operator, viewer = signed_in(PersonRole.OPERATOR), signed_in(PersonRole.VIEWER)
    typed = {"scope": "label", "value": "migration", "reason": "The <b>schema</b> moves", "lasts": "60"}
    assert operator.post("/holds/", typed).status_code == 302
    for page in ("/", "/runs/", "/tasks/", "/approvals/", "/workers/"):
        text = viewer.get(page).content.decode()
        assert "Label migration is held by" in text
        assert "The &lt;b&gt;schema&lt;/b&gt; moves" in text
    hold = Hold.objects.get()
    assert operator.post(f"/holds/{hold.pk}/lift/").status_code == 302
    assert "is held by" not in viewer.get("/runs/").content.decode()
    assert "lifted by" in viewer.get("/holds/").content.decode()


def test_bad_input_is_said_at_its_field_and_loses_nothing():
    operator = signed_in(PersonRole.OPERATOR)
    typed = {"scope": "repository", "value": "nowhere", "reason": "A long explanation", "lasts": ""}
    answer = operator.post("/holds/", typed)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "there is no repository nowhere" in text
    assert "A long explanation" in text
    assert not Hold.objects.exists()


def test_who_may_set_none_sees_no_form_and_no_button():
    service.hold_set(scope="platform", reason="x", by="carol")
    viewer, operator = signed_in(PersonRole.REVIEWER), signed_in(PersonRole.OPERATOR)
    assert "Set a hold" not in viewer.get("/holds/").content.decode()
    assert "/lift/" not in viewer.get("/holds/").content.decode()
    assert "/lift/" in operator.get("/holds/").content.decode()
    assert viewer.post("/holds/", {"scope": "platform", "reason": "x"}).status_code == 403


def test_many_holds_are_told_as_a_number():
    for label in "abcde":
        service.hold_set(scope="label", value=label, reason="x", by="carol")
    text = signed_in(PersonRole.VIEWER).get("/runs/").content.decode()
    assert text.count("is held by carol") == 2
    assert "3 more holds are in force." in text


def test_no_person_is_told_of_a_hold_over_a_repository_they_do_not_see():
    hidden = factories.repository()
    service.hold_set(scope="repository", value=hidden.name, reason="x", by="carol")
    client = Client()
    client.force_login(factories.person(PersonRole.OPERATOR, repository=factories.repository()))
    assert hidden.name not in client.get("/holds/").content.decode()


def test_the_page_and_the_list_say_what_was_spent_today_and_which_caps_stop_claims(capsys):
    caps = {"spend_cap_usd_per_day": "3", "submitter_spend_cap_usd_per_day": "2"}
    where = factories.repository("clock", policy=caps)
    asker = factories.person(PersonRole.SUBMITTER, name="sue")
    elsewhere = factories.repository("shop", policy={"spend_cap_usd_per_day": "100"})
    for repository in (where, elsewhere):
        spend(factories.run_in(RunStatus.EXECUTING, where=repository, by=asker), "3.20")
    client = Client()
    client.force_login(factories.person(PersonRole.VIEWER, repository=where))
    page = client.get("/holds/").content.decode()
    assert "Repository clock spent $3.20 of $3.00 for today (UTC)." in page
    assert "sue, in clock, spent $6.40 of $2.00" in page
    assert "shop" not in page, "it is not theirs to see"
    call_command("hold", "list")
    said = capsys.readouterr().out
    assert "Repository clock spent $3.20 of $3.00" in said
    assert "shop" not in said, "nothing stops there"
    viewer = Caller(factories.person_token(factories.person(PersonRole.VIEWER)))
    assert viewer.get("repositories/shop").json()["spent_today_usd"] == "3.2"
