"""Home, the inbox, the shell, sign-in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.templatetags.static import static
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import RunOutcome
from tests import factories as make
from tests.web.test_runs_pages import text

pytestmark = pytest.mark.django_db
P, S = PersonRole, RunStatus


def section(page: str, start: str, end: str) -> str:
    return page.partition(start)[2].partition(end)[0]


def test_a_review_is_the_reviewers_turn_and_not_the_askers(client: Client):
    alice = make.person(P.SUBMITTER, P.REVIEWER, name="alice")
    make.run_in(S.WAITING_FOR_APPROVAL, by=alice, title="Look at this")
    client.force_login(make.person(P.REVIEWER, name="bob"))
    page = text(client.get(reverse("home")))
    assert "Look at this" in section(page, "Your turn", "Under way")
    assert "Reviews 1" in page
    client.force_login(alice)
    page = text(client.get(reverse("home")))
    assert "Nothing waits for you." in page
    assert "Look at this" in section(page, "Under way", "Went wrong")


def test_what_failed_lately_says_why(client: Client):
    client.force_login(make.person(P.VIEWER))
    failure = {"category": "POLICY_DENIED", "reason": "denied", "summary": "That tool is forbidden."}
    make.run_in(S.PREPARING).post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    assert "That tool is forbidden." in section(text(client.get(reverse("home"))) + "|", "Went wrong", "|")


def test_the_week_is_counted_and_what_was_done_leads_to_what_it_left(client: Client):
    client.force_login(make.person(P.VIEWER))
    empty = text(client.get(reverse("home")))
    assert "Completed 0 Failed 0 Cancelled 0" in section(empty, "The last 7 days", "Went wrong")
    assert "of being queued" not in empty
    merged = make.run_in(S.SUCCEEDED, title="Went out")
    reader = make.run_in(S.EXECUTING, completion_mode="analysis_report_created", title="Was read")
    reader.report()
    reader.judge()
    old = make.run_in(S.SUCCEEDED, title="Long ago").run_id
    took = timedelta(seconds=40)
    for run in RunOutcome.objects.exclude(pk=old):
        RunOutcome.objects.filter(pk=run.pk).update(ended_at=run.created_at + took)
    RunOutcome.objects.filter(pk=old).update(ended_at=timezone.now() - timedelta(days=8))
    shown = client.get(reverse("home"))
    page = text(shown) + "|"
    assert "Completed 2 Failed 0 Cancelled 0 Half were done within 40 s of being queued" in page
    done = section(page, "Latest completed", "|")
    assert f"branch agent/{merged.run_id.lower()}" in done
    assert "tab=report" in shown.content.decode()
    assert "Long ago" in done


def test_browsers_find_the_icon_where_they_look_unasked(client: Client):
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.headers["Location"]) == (302, static("favicon.svg"))


def test_states_are_counted_and_lead_to_their_runs(client: Client):
    client.force_login(make.person(P.VIEWER))
    for _ in range(3):
        make.queued_run()
    page = client.get(reverse("home"))
    assert "Queued 3" in text(page)
    assert f"{reverse('runs')}?display=queued" in page.content.decode()


def test_workers_say_what_they_hold_but_not_of_what_is_hidden(client: Client):
    holder = make.run_in(S.EXECUTING, title="Secret work")
    client.force_login(make.person(P.VIEWER))
    assert "Secret work" in text(client.get(reverse("workers")))
    client.force_login(make.person(P.VIEWER, repository=make.repository()))
    page = text(client.get(reverse("workers")))
    assert "Secret work" not in page
    assert "and 1 in repositories that you do not see" in page
    assert holder.machine.account.name in page


def test_a_repository_shows_where_each_rule_comes_from(client: Client):
    client.force_login(make.person(P.VIEWER))
    where = make.repository("clock", policy={"risk_ceiling": "medium"})
    page = text(client.get(reverse("repository", args=["clock"])))
    assert f"risk ceiling medium {where.policy.name}" in page
    assert "override no built-in" in page


def test_the_lifecycle_counts_what_stands_where(client: Client):
    client.force_login(make.person(P.VIEWER))
    make.queued_run()
    page = client.get(reverse("lifecycle")).content.decode()
    assert "Queued, 1 runs." in page
    assert "<script>" not in page
    assert f'href="{reverse("runs")}?status=QUEUED"' in page


def test_sign_in_and_out(client: Client):
    make.person(P.VIEWER, name="bob")
    url = reverse("login")
    assert client.get(url).status_code == 200
    wrong = client.post(url, {"username": "bob", "password": "guess"})
    assert "Please enter a correct" in text(wrong)
    right = client.post(url, {"username": "bob", "password": "secret", "next": "/runs/"})
    assert right.headers["Location"] == "/runs/"
    assert client.get(reverse("logout")).status_code == 405
    client.post(reverse("logout"))
    assert client.get(reverse("home")).status_code == 302


def demo(client: Client, settings: Settings, **request: Any) -> int:
    settings.DEMO = True
    return client.post(reverse("demo_sign_in", args=["rita"]), **request).status_code


def test_the_demonstration_signs_in_by_one_click_on_this_machine(client: Client, settings: Settings):
    make.person(P.REVIEWER, name="rita")
    settings.ALLOWED_HOSTS = ["*"]
    assert client.post(reverse("demo_sign_in", args=["rita"])).status_code == 404
    assert demo(client, settings, headers={"Host": "agents.example.com"}) == 404
    assert demo(client, settings, headers={"Host": "localhost:8000"}, REMOTE_ADDR="10.0.0.9") == 404
    assert (
        client.get(reverse("demo_sign_in", args=["rita"]), headers={"Host": "localhost"}).status_code == 405
    )
    assert demo(client, settings, headers={"Host": "localhost:8000"}) == 302
    assert client.get(reverse("home")).status_code == 200


def test_the_demonstration_offers_only_its_own_people_and_never_in_production(
    client: Client, settings: Settings
):
    make.person(P.ADMIN, name="root")
    make.person(P.REVIEWER, name="rita")
    settings.DEMO = True
    local = {"Host": "localhost"}
    assert client.post(reverse("demo_sign_in", args=["root"]), headers=local).status_code == 404
    assert "Demonstration accounts" in text(client.get(reverse("login"), headers=local))
    settings.PRODUCTION = True
    assert client.post(reverse("demo_sign_in", args=["rita"]), headers=local).status_code == 404


def test_sign_in_locks_after_repeated_failure_and_says_for_how_long(client: Client):
    make.person(P.VIEWER, name="bob")
    for _ in range(6):
        answer = client.post(reverse("login"), {"username": "bob", "password": "guess"})
    assert answer.status_code == 429
    assert "locked for 15 minutes" in text(answer)
    right = client.post(reverse("login"), {"username": "bob", "password": "secret"})
    assert right.status_code == 429
