"""What admins do is done by the service, with a reason, and stands in the audit log, before and after."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse

from agentplatform.clock import database_now
from approvals.asking.clock import tick
from runs import service
from runs.auth import find_bearer
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import AuditEntry, Person, Policy, Run, Session, Task, WorkerAccount
from tests import factories as make
from tests.reviewing import waiting
from tests.web.admin_forms import change, page_of, press

pytestmark = pytest.mark.django_db


@pytest.fixture
def chief(client: Client) -> Person:
    person = Person.objects.create_superuser("chief", password="s3cret-enough")
    client.force_login(person)
    return person


def newest() -> AuditEntry:
    return AuditEntry.objects.latest("id")


# --- the audit log ---------------------------------------------------------------------------------


def test_an_edit_is_kept_with_who_why_before_and_after(client, chief):
    place = make.repository("clock")
    change(client, place, base_branch="trunk")
    entry = newest()
    assert (entry.by, entry.by_id, entry.act, entry.kind, entry.target) == (
        "chief", chief.pk, "changed", "repository", "clock",
    )  # fmt: skip
    assert (entry.before, entry.after) == ({"base_branch": "main"}, {"base_branch": "trunk"})
    assert entry.reason == "It has to be."
    page = client.get(page_of(entry, "change")).content.decode()
    assert "main" in page
    assert "trunk" in page


def test_without_a_reason_nothing_is_edited(client, chief):
    place = make.repository("clock")
    before = AuditEntry.objects.count()
    change(client, place, base_branch="trunk", reason="")
    assert type(place).objects.get(pk=place.pk).base_branch == "main"
    assert AuditEntry.objects.count() == before


def test_roles_are_in_the_log_and_secrets_are_not(client, chief):
    somebody = make.person(PersonRole.VIEWER, name="vera")
    change(client, somebody, **{"grants-1-role": "operator"})
    entry = newest()
    assert entry.before == {"grants": ["vera is viewer everywhere"]}
    assert entry.after == {"grants": ["vera is operator everywhere", "vera is viewer everywhere"]}
    url = reverse("admin:auth_user_password_change", args=[somebody.pk])
    new = {"password1": "tr0ubador-and-horse", "password2": "tr0ubador-and-horse", "usable_password": "true"}
    assert client.post(url, new).status_code == 302
    told = str(newest().before) + str(newest().after)
    assert "password" in newest().after
    assert "$" not in told


def test_what_was_deleted_can_be_read_in_the_log(client, chief):
    from approvals.models import Team

    team = Team.objects.create(name="movers")
    client.post(page_of(team, "delete"), {"post": "yes", "reason": " "})
    assert Team.objects.exists(), "not without a reason"
    client.post(page_of(team, "delete"), {"post": "yes", "reason": "They moved on."})
    entry = newest()
    assert (entry.act, entry.reason, entry.before["name"]) == ("deleted", "They moved on.", "movers")


@pytest.mark.parametrize("statement", ["UPDATE audit_entries SET reason = ''", "DELETE FROM audit_entries"])
def test_the_audit_log_cannot_be_rewritten(chief, statement):
    make.person(PersonRole.VIEWER, name="vera")
    make.person_token(Person.objects.get(username="vera"))
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_accounts_made_by_command_are_in_the_log(capsys):
    from django.core.management import call_command

    call_command("create_person", "olga", role=["operator"], roles=["operator"], token=True)
    kinds = list(AuditEntry.objects.order_by("id").values_list("by", "act", "kind"))
    assert kinds == [("command line", "added", "person"), ("command line", "added", "api token")]


# --- runs and tasks: buttons that post events --------------------------------------------------------


def test_a_button_posts_the_event_as_the_admin_with_the_reason(client, chief):
    run = make.queued_run()
    assert press(client, [run], "cancel", reason="Not today.") == "1 done, 0 refused."
    run = Run.objects.get(pk=run.pk)
    event = run.events.get(event_type="cancel_requested")
    assert (run.status, event.actor_name, event.payload["reason"]) == ("CANCELLED", "chief", "Not today.")
    assert 'value="pause"' in client.get(page_of(run, "change")).content.decode()


def test_a_button_without_a_reason_does_nothing(client, chief):
    run = make.queued_run()
    assert "type the reason" in press(client, [run], "cancel", reason="")
    assert Run.objects.get(pk=run.pk).status == "QUEUED"


def test_retrying_a_mixed_choice_says_what_was_done_and_what_was_refused(client, chief):
    executing = make.run_in(RunStatus.EXECUTING).run
    failing = make.run_in(RunStatus.EXECUTING)
    failure = {"category": "POLICY_DENIED", "reason": "no", "summary": "It may not."}
    failing.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    cancelled = make.queued_run()
    press(client, [cancelled], "cancel")
    ended = [failing.run, cancelled]
    before = Task.objects.count()
    said = press(client, [executing, *ended], "retry")
    assert said.startswith("2 done, 1 refused: ")
    assert "Its run is under way" in said
    assert Task.objects.count() == before + 2
    assert set(
        Task.objects.filter(parent__in=[run.task_id for run in ended]).values_list("created_by", flat=True)
    ) == {chief.pk}


def test_a_button_is_answered_by_the_state_machine(client, chief):
    run = make.run_in(RunStatus.SUCCEEDED).run
    assert press(client, [run], "pause").startswith("0 done, 1 refused: ")


# --- people ------------------------------------------------------------------------------------------


def test_a_leaver_gets_in_no_more_and_their_reviews_go_to_others(client, chief):
    request = waiting()
    rita, other = make.person(PersonRole.REVIEWER, name="rita"), make.person(PersonRole.REVIEWER, name="otto")
    request.assigned = rita
    request.save()
    token, browser = make.person_token(rita), Client()
    browser.force_login(rita)
    assert find_bearer(token)

    assert "1 done" in press(client, [rita], "leave", reason="Last day.")

    assert find_bearer(token) is None
    assert browser.get("/tasks/").status_code == 302
    assert not Session.objects.filter(person=rita).exists()
    tick()
    request = type(request).objects.get(pk=request.pk)
    assert request.assigned is None
    assert request.status == "open"
    from approvals.models import Notice

    assert Notice.objects.filter(subject=request.pk, person=other, settled_at=None).exists()
    assert not any(swept.scope == "leaver" for swept in tick())


def test_the_machines_of_a_leaver_work_on_and_are_named(client, chief):
    rita, machine = make.person(PersonRole.OPERATOR, name="rita"), make.worker(name="builder")
    WorkerAccount.objects.filter(pk=machine.account.pk).update(owner=rita)
    said = press(client, [rita], "leave")
    assert "rita still owns builder, whose tokens work on" in said
    assert machine.account.tokens.filter(revoked_at=None).exists()


def test_coming_back_does_not_revive_a_leavers_token(client, chief):
    rita = make.person(PersonRole.REVIEWER, name="rita")
    token = make.person_token(rita)
    press(client, [rita], "leave")
    Person.objects.filter(pk=rita.pk).update(is_active=True)
    assert find_bearer(token) is None


def test_the_last_admin_can_neither_leave_nor_lose_the_role(client, chief):
    assert "Nobody would be left" in press(client, [chief], "leave")
    assert Person.objects.get(pk=chief.pk).is_active


def test_who_may_administer_follows_from_the_role(client, chief):
    vera = make.person(PersonRole.VIEWER, name="vera")
    change(client, vera, **{"grants-1-role": "admin"})
    assert Person.objects.get(pk=vera.pk).is_superuser
    change(client, vera, **{"grants-1-DELETE": "on"})
    assert not Person.objects.get(pk=vera.pk).is_staff


# --- tokens ------------------------------------------------------------------------------------------


def test_a_renewed_token_works_beside_the_old_one_for_a_while(client, chief):
    machine = make.worker(name="eu-1")
    old = machine.account.tokens.get()
    said = press(client, [old], "renew")
    secret = next(word for word in said.split() if word.startswith("tok_"))
    assert find_bearer(secret)
    assert find_bearer(machine.token)
    old = type(old).objects.get(pk=old.pk)
    assert old.expires_at is not None
    left = old.expires_at - database_now()
    assert service.OVERLAP - timedelta(minutes=5) < left <= service.OVERLAP
    assert press(client, [old], "revoke") == "1 revoked."
    assert find_bearer(machine.token) is None


def test_a_revoked_token_is_not_renewed(client, chief):
    token = make.worker(name="eu-1").account.tokens.get()
    service.tokens_revoke(tokens=[token], by=service.COMMAND_LINE)
    assert "not in force" in press(client, [type(token).objects.get(pk=token.pk)], "renew")


# --- policies ----------------------------------------------------------------------------------------


def test_a_policy_is_saved_only_as_it_was_looked_at(client, chief):
    above = Policy.objects.create(name="house")
    place = make.repository("clock")
    place.policy.inherits = above
    place.policy.save()
    url = reverse("admin:runs_policy_version", args=[above.pk])
    form = {"values": '{"judge_confidence": 0.9}', "reason": "We were burnt.", "based_on": "0"}

    shown = client.post(url, form)
    assert above.versions.count() == 0
    assert shown.context["difference"] == [{"name": "judge_confidence", "before": None, "after": 0.9}]
    (effect,) = shown.context["effects"]["shown"]
    assert effect == {"name": "clock", "changes": [{"name": "judge_confidence", "before": 0.8, "after": 0.9}]}

    other = client.post(url, {**form, "values": '{"judge_confidence": 0.95}', "seen": shown.context["seen"]})
    assert above.versions.count() == 0, "what is saved is what was shown"
    assert client.post(url, {**form, "seen": shown.context["seen"]}).status_code == 302
    (version,) = above.versions.all()
    assert (version.number, version.values, version.changed_by) == (1, {"judge_confidence": 0.9}, "chief")
    assert (newest().after, newest().reason) == ({"judge_confidence": 0.9}, "We were burnt.")

    late = client.post(url, {**form, "values": '{"judge_confidence": 0.95}', "seen": other.context["seen"]})
    assert "Another version was saved meanwhile" in late.content.decode()
    assert above.versions.count() == 1


def test_before_a_policy_is_saved_its_page_says_what_it_would_have_decided_otherwise(client, chief):
    holder = make.run_in(RunStatus.JUDGING, auto_pr=True)
    holder.judge(confidence=0.85)
    policy = holder.run.repository.policy
    url = reverse("admin:runs_policy_version", args=[policy.pk])
    form = {"values": '{"judge_confidence": 0.9}', "reason": "x", "based_on": "0"}
    decisions = client.post(url, form).context["decisions"]
    assert (decisions["looked"], decisions["different"], decisions["undecidable"]) == (1, 1, 0)
    (row,) = decisions["rows"]
    (difference,) = row["differences"]
    assert difference["was"] == "the pull request goes out by itself"
    assert difference["then"] == "a person decides (patch)"
    assert difference["href"].startswith(f"/runs/{holder.run_id}/#e")
    assert "Judge: passed (pass, 0.85 of 0.8 needed) → failed" in difference["changes"][0]

    holder.run.artifacts.filter(kind="judge_report").update(document=None)
    shown = client.post(url, form)
    assert shown.context["decisions"]["undecidable"] == 1
    assert "Cannot be decided" in shown.content.decode()
    same = client.post(url, {**form, "values": "{}"}).context["decisions"]
    assert (same["different"], same["undecidable"]) == (0, 1), "gone is never unchanged"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ('{"judge_confidence": 7}', "judge_confidence must be a number from 0 to 1"),
        ('{"no_such": 7}', "no_such is not a policy field"),
        ('{"override": true, "override": false}', "override"),
        ("[1]", "A policy is an object of fields."),
        ("{", ""),
    ],
)
def test_what_is_no_policy_is_refused_in_words(client, chief, values, said):
    policy = Policy.objects.create(name="house")
    url = reverse("admin:runs_policy_version", args=[policy.pk])
    answer = client.post(url, {"values": values, "reason": "x", "based_on": "0"})
    assert said in answer.content.decode()
    assert answer.context["form"].errors
    assert policy.versions.count() == 0


# --- sessions ----------------------------------------------------------------------------------------


def test_an_admin_sees_sessions_without_their_keys_and_ends_them(client, chief):
    rita, browser = make.person(PersonRole.REVIEWER, name="rita"), Client()
    browser.force_login(rita)
    session = Session.objects.get(person=rita)
    key = browser.cookies["sessionid"].value
    page = client.get(page_of(session, "changelist")).content.decode()
    assert "rita" in page
    assert key not in page
    assert press(client, [session], "end") == "1 done, 0 refused."
    assert browser.get("/tasks/").status_code == 302
