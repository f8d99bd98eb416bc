"""The inbox: what is told, why, and the way out; nothing is read or changed by looking."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agentplatform.clock import database_now
from approvals.asking.assign import approval_assign
from approvals.models import Absence, Notice
from approvals.notices.tell import News, settle, tell
from approvals.notices.words import Kind
from runs import outbox
from runs.auth import of_person
from runs.domain.vocabulary import PersonRole, RunStatus
from tests import factories as make
from tests.asking import asked_request, own, reviewers
from tests.reviewing import page, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def where():
    return make.repository()


def client_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def told(person, count: int, *, likeness: str = "") -> None:
    for number in range(count):
        news = News(f"c{person.pk}{number}{likeness}", Kind.FAILED, f"task_{number}", f"Title {number}",
                    "Checks failed.", "/tasks/", None, likeness)  # fmt: skip
        tell(news, {person: "You asked for this task."})


def test_a_notice_says_why_it_came_and_leads_to_the_way_out(where):
    ann, _ = reviewers(where, "ann", "bob")
    own(where, ann)
    request = asked_request(where)
    shown = client_of(ann).get("/notifications/")
    assert f"You are an owner of {where.name}." in text(shown)
    assert f'href="/approvals/{request.pk}/"' in shown.content.decode()


def test_who_asked_for_work_hears_how_it_ended_and_not_of_others_turns():
    alice = make.person(PersonRole.SUBMITTER)
    make.run_in(RunStatus.WAITING_FOR_APPROVAL, by=alice, title="Needs a look")
    make.run_in(RunStatus.SUCCEEDED, by=alice, title="Went well")
    make.run_in(RunStatus.SUCCEEDED, title="Of somebody else")
    make.queued_run(by=alice, title="Nothing to tell")
    outbox.relay()
    found = text(client_of(alice).get("/notifications/"))
    assert "Went well" in found
    for title in ("Needs a look", "Of somebody else", "Nothing to tell"):
        assert title not in found


def test_looking_marks_nothing_as_read_and_a_post_does():
    person = make.person(PersonRole.SUBMITTER)
    told(person, 2)
    client = client_of(person)
    client.get("/notifications/")
    client.get("/notifications/read/")
    assert Notice.objects.filter(read_at=None).count() == 2
    one = Notice.objects.all()[0]
    client.post("/notifications/read/", {"notice": one.pk})
    assert Notice.objects.filter(read_at=None).count() == 1
    client.post("/notifications/read/")
    assert "unread" not in text(client.get("/")).lower()


def test_nobody_reads_or_marks_what_others_were_told():
    person, other = make.person(PersonRole.SUBMITTER), make.person(PersonRole.SUBMITTER)
    told(person, 1)
    client = client_of(other)
    assert "Title 0" not in text(client.get("/notifications/"))
    client.post("/notifications/read/", {"notice": Notice.objects.get().pk})
    assert Notice.objects.get().read_at is None


def test_when_the_first_of_many_alike_is_settled_the_next_stands_for_the_others():
    many = make.person(PersonRole.VIEWER)
    for n in range(3):
        news = News(f"b{n}", Kind.BLOCKED, f"task_{n}", f"Title {n}", "No access.", "/", None, "alike")
        tell(news, {many: "You asked for this task."})
    settle("task_0", "It goes on.")
    shown = text(client_of(many).get("/notifications/", {"show": "unread"}))
    assert "Title 1 and 1 more" in shown
    assert "Title 0" not in shown
    settle("task_2", "It goes on.")
    settle("task_1", "It is over.")
    assert "Title" not in text(client_of(many).get("/notifications/", {"show": "unread"}))


def test_many_alike_are_one_line_and_no_number_of_them_costs_more_queries():
    few, many = make.person(PersonRole.SUBMITTER), make.person(PersonRole.SUBMITTER)
    told(few, 1)
    told(many, 30)
    told(many, 30, likeness="REPOSITORY_ACCESS token_expired")
    counted = []
    for person in (few, many):
        client = client_of(person)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            shown = client.get("/notifications/")
        counted.append(len(queries))
    assert counted[0] == counted[1]
    assert "and 29 more" in text(shown)


@pytest.mark.parametrize(("query", "words"), [("", "Nothing to tell you"), ("?kind=failed", "Show all")])
def test_an_empty_inbox_says_what_comes_and_a_filtered_one_offers_all(query, words):
    assert words in text(client_of(make.person(PersonRole.SUBMITTER)).get(f"/notifications/{query}"))


def test_what_may_no_longer_be_seen_is_gone_from_the_inbox(where):
    ann, _ = reviewers(where, "ann", "bob")
    asked_request(where)
    ann.grants.all().delete()
    assert "Nothing to tell you" in text(client_of(ann).get("/notifications/"))


def test_people_choose_when_mail_comes_and_say_when_they_are_away(where):
    ann, bob = reviewers(where, "ann", "bob")
    client = client_of(ann)
    paces = {"needs_review": "now", "blocked": "now", "failed": "daily", "completed": "never"}
    assert client.post("/notifications/settings/", paces).status_code == 302
    assert "Saved." in text(client.get("/notifications/settings/"))
    day = f"{database_now():%Y-%m-%d}"
    client.post("/notifications/away/", {"starts": day, "ends": day, "stand_in": bob.username})
    absence = Absence.objects.get(person=ann)
    assert absence.stand_in == bob
    assert f"{bob.username} stands in" in text(client.get("/notifications/settings/"))
    assert client_of(bob).post(f"/notifications/away/{absence.pk}/end/").status_code == 404
    assert client.post(f"/notifications/away/{absence.pk}/end/").status_code == 302


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"starts": "2020-01-01", "ends": "2020-01-02"}, "must be later than the start, and than now"),
        ({"starts": "2026-13-01", "ends": "2030-01-02"}, "Enter a valid date."),
        ({"starts": "2030-01-01", "ends": "2030-01-02", "stand_in": "nobody"}, "Nobody here has this name."),
        ({"starts": "2030-01-01", "ends": "2032-01-02"}, "must be within a year"),
    ],
)
def test_a_wrong_absence_is_refused_in_words_and_keeps_what_was_typed(fields, words):
    answer = client_of(make.person(PersonRole.REVIEWER)).post("/notifications/away/", fields)
    assert answer.status_code == 422
    assert words in text(answer)
    assert fields["starts"] in answer.content.decode()


def test_the_review_page_says_whose_turn_it_is_and_assigns_it(where):
    ann, bob = reviewers(where, "ann", "bob")
    own(where, ann)
    request = asked_request(where)
    client = client_of(bob)
    assert f"Whose turn: {ann.username}." in text(page(client, request))
    client.post(f"/approvals/{request.pk}/assign/", {"to": bob.username})
    client.post(f"/approvals/{request.pk}/snooze/", {"hours": "4"})
    shown = text(page(client, request))
    assert f"Assigned to {bob.username}." in shown
    assert f"{bob.username} put it off until" in shown
    approval_assign(approval_id=request.pk, to="", by=of_person(bob))
    assert f"Whose turn: {ann.username}." in text(page(client, request))
