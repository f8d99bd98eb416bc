"""What people are told goes out by mail, to a real mail server: once per cause, together, with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client

from agentplatform.clock import database_now
from approvals.models import ApprovalRequest, Letter, Notice, Preference, Room
from approvals.notices import chat
from approvals.notices.letters import send_letters
from approvals.notices.tell import News, settle, tell
from approvals.notices.words import Kind
from approvals.tasks import forget_notices
from runs import outbox, service, timeouts
from runs.auth import of_person
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Delivery, Person
from runs.outbox import MAX_TRIES, Relayed
from tests import factories as make
from tests.asking import asked_request, own, reviewers
from tests.deciding import decide
from tests.receivers import MailServer, mail_server, receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def post_office(settings) -> Iterator[MailServer]:
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
        settings.PUBLIC_URL = "https://agents.example.org"
        yield server


def send() -> Relayed:
    """As if a while had passed since the last round."""
    hour = timedelta(hours=1)
    Notice.objects.filter(send_at__isnull=False).update(send_at=F("send_at") - hour)
    Letter.objects.update(next_try_at=F("next_try_at") - 2 * hour, sent_at=F("sent_at") - hour)
    done = Relayed()
    send_letters(done)
    return done


def requester(name: str = "") -> Person:
    person = make.person(PersonRole.SUBMITTER)
    person.email = f"{name or person.username}@example.org".lower()
    person.save()
    return person


def body(mail) -> str:
    return mail.get_content().replace("\r\n", "\n")


def news(number: int, *, likeness: str = "", kind: Kind = Kind.FAILED, title: str = "Replace utcnow") -> News:
    return News(f"cause {number}", kind, f"task_{number}", title, "Checks failed: tests failed.",
                f"/tasks/task_{number}/", None, likeness)  # fmt: skip


def test_a_request_is_mailed_to_whose_turn_it_is_with_the_reason_and_the_way_out(post_office):
    where = make.repository()
    ann, _ = reviewers(where, "ann", "bob")
    own(where, ann)
    request = asked_request(where)
    assert send().delivered == {"mail": 1}
    (mail,) = post_office.mails
    assert (mail["To"], mail["Subject"]) == (ann.email, "Needs review: Replace utcnow")
    assert f"https://agents.example.org/approvals/{request.pk}/" in body(mail)
    assert f"Why you: You are an owner of {where.name}." in body(mail)
    assert "https://agents.example.org/notifications/settings/" in body(mail)
    assert mail.get_content_type() == "text/plain"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert send().delivered == {}


def test_a_scanner_that_follows_every_link_of_a_mail_decides_and_reads_nothing(post_office):
    where = make.repository()
    (ann,) = reviewers(where, "ann")
    request = asked_request(where)
    outbox.relay()
    assert send().delivered == {"mail": 1}
    links = re.findall(r"https://agents\.example\.org(/\S*)", body(post_office.mails[-1]))
    assert any(request.pk in link for link in links)
    signed_in = Client(headers={"Purpose": "prefetch"})
    signed_in.force_login(ann)
    for client in (Client(), signed_in):
        for link in links:
            for ask in (client.get, client.head):
                assert ask(f"{link}?decision=approve").status_code in (200, 302)
    assert ApprovalRequest.objects.get(pk=request.pk).status == "open"
    assert Notice.objects.get(person=ann).read_at is None


def test_a_run_that_is_repaired_and_retried_tells_its_requester_once_at_the_end(post_office):
    by = requester()
    holder = make.run_in(RunStatus.EXECUTING, by=by, auto_pr=True, budget={"max_repairs": 2})
    for _ in range(2):
        make.drive(holder, RunStatus.VERIFYING)
        holder.check(exit_code=1)
        outbox.relay()
    assert send().delivered == {}
    make.drive(holder, RunStatus.SUCCEEDED)
    outbox.relay()
    send()
    assert [mail["Subject"] for mail in post_office.mails] == ["Completed: Replace utcnow"]


def test_three_hundred_failures_of_one_kind_are_one_mail_and_one_line_of_the_inbox(post_office):
    by = requester()
    for number in range(300):
        tell(news(number, likeness="REPOSITORY_ACCESS token_expired"), {by: "You asked for this task."})
    assert send().delivered == {"mail": 1}
    (mail,) = post_office.mails
    assert mail["Subject"] == "300 failed"
    assert "300 times: Checks failed: tests failed." in body(mail)
    assert len(body(mail)) < 1_000
    assert Notice.objects.filter(person=by, lead=None).count() == 1


def test_what_is_told_twice_is_one_notice(post_office):
    by = requester()
    for _ in range(2):
        tell(news(1), {by: "You asked for this task."})
    assert Notice.objects.filter(person=by).count() == 1


def test_what_was_decided_meanwhile_is_not_mailed(post_office):
    where = make.repository()
    ann, _ = reviewers(where, "ann", "bob")
    decide(asked_request(where), ann)
    assert send().delivered == {}
    assert post_office.mails == []


def test_a_mail_server_that_is_away_is_tried_again_then_given_up_and_nobody_is_told_of_it(post_office):
    by = requester()
    tell(news(1), {by: "You asked for this task."})
    post_office.refuse = "451 later"
    assert [send().failed for _ in range(MAX_TRIES - 1)] == [{"mail": 1}] * (MAX_TRIES - 1)
    assert send().parked == {"mail": 1}
    assert Notice.objects.count() == 1
    post_office.refuse = ""
    Letter.objects.update(state=Letter.PENDING, tries=0)
    assert send().delivered == {"mail": 1}


def test_a_letter_repeated_after_a_crash_has_the_same_message_id(post_office):
    tell(news(1), {requester(): "You asked for this task."})
    send()
    # As if the sender had died after the mail server took it and before that was written down.
    Letter.objects.update(state=Letter.PENDING, sent_at=None)
    send()
    assert len({mail["Message-ID"] for mail in post_office.mails}) == 1
    assert len(post_office.mails) == 2


def test_a_claimed_letter_is_left_to_its_sender(post_office, monkeypatch):
    tell(news(1), {requester(): "You asked for this task."})
    taken = Letter.objects.filter(state=Letter.PENDING)
    monkeypatch.setattr(
        "approvals.notices.letters._lines", lambda letter: taken.update(claim="claim_of_another") and []
    )
    assert send().lost == {"mail": 1}
    assert taken.get().claim == "claim_of_another"


def test_each_person_chooses_when_mail_comes_and_the_inbox_has_all_of_it(post_office):
    never, daily = requester(), requester()
    Preference.objects.create(person=never, failed="never")
    Preference.objects.create(person=daily, failed="daily")
    tell(news(1), {never: "You asked for this task.", daily: "You asked for this task."})
    at = dict(Notice.objects.values_list("person_id", "send_at"))
    assert at[never.pk] is None
    assert f"{at[daily.pk]:%H:%M}" == "07:00"
    assert Notice.objects.count() == 2


def test_titles_bring_no_secret_no_header_and_no_hidden_character_into_a_mail(post_office):
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    title = f"Use {key}\r\nBcc: all@example.org\u202e <img src=x>"
    tell(news(1, title=title), {requester(): "You asked for this task."})
    send()
    (mail,) = post_office.mails
    text = mail["Subject"] + body(mail)
    assert key not in text
    assert "\u202e" not in text
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("Failed: Use [redacted] Bcc: all@example.org")


def test_who_lost_the_role_gets_no_mail_of_what_they_may_no_longer_see(post_office):
    where = make.repository()
    ann, _ = reviewers(where, "ann", "bob")
    own(where, ann)
    asked_request(where)
    ann.grants.all().delete()
    send()
    assert post_office.mails == []


def test_a_rejected_contract_and_a_blocked_task_are_told_to_who_can_mend_them(post_office):
    where = make.repository(policy={"budget_ceiling": {"max_cost_usd": "1.00"}})
    by = requester()
    made = make.task(where, by, budget={"max_cost_usd": "50"})
    outbox.relay()
    notice = Notice.objects.get(subject=made.pk)
    assert (notice.person, notice.kind) == (by, Kind.FAILED)
    assert notice.sentence.startswith("The contract was rejected:")


def test_cancelling_ones_own_task_tells_nobody(post_office):
    by = requester()
    run = make.queued_run(by=by)
    service.task_cancel(task_id=run.task_id, reason="not wanted", by=of_person(by).caller)
    outbox.relay()
    assert Notice.objects.count() == 0
    assert set(Delivery.objects.filter(consumer="notices").values_list("state", flat=True)) == {"delivered"}


def test_a_room_hears_of_what_it_asked_for_and_is_tried_again_when_it_is_busy():
    with receiver() as room:
        address = room.url.replace("http://", "json://")
        assert chat.problem_of(address) == ""
        Room.objects.create(name="builds", address=address, kinds=["failed"])
        room.answer = lambda post: 429
        tell(news(1), {})
        tell(news(2, kind=Kind.COMPLETED), {})
        assert send().failed == {"chat": 1}
        room.answer = lambda post: 200
        assert send().delivered == {"chat": 1}
    assert b"Failed: Replace utcnow" in room.posts[-1].body
    assert Notice.objects.count() == 1
    assert "127.0.0.1" not in Letter.objects.get().error


def test_what_is_over_is_forgotten_after_its_days_and_what_waits_is_not(settings, post_office):
    by = requester()
    for number, kind in enumerate((Kind.FAILED, Kind.NEEDS_REVIEW, Kind.COMPLETED)):
        tell(news(number, kind=kind), {by: "You asked for this task."})
    assert send().delivered == {"mail": 1}
    old = timedelta(days=settings.NOTICE_DAYS, hours=1)
    Notice.objects.exclude(kind=Kind.COMPLETED).update(created_at=F("created_at") - old)
    assert Letter.objects.count() == 1
    forget_notices()
    assert set(Notice.objects.values_list("kind", flat=True)) == {Kind.NEEDS_REVIEW, Kind.COMPLETED}
    Letter.objects.update(created_at=F("created_at") - old)
    settle("task_1", "It is over.")
    forget_notices()
    assert (Notice.objects.count(), Letter.objects.count()) == (1, 0)


@pytest.mark.parametrize("policy", ["cancel", "fail"])
def test_when_nobody_decided_in_time_the_requester_hears_it_once_with_the_way_out(policy, post_office):
    by = requester()
    where = make.repository(policy={"on_approval_timeout": policy})
    run = make.run_in(RunStatus.WAITING_FOR_APPROVAL, by=by, where=where).run
    later = database_now() + timedelta(days=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeouts, "database_now", lambda: later)
        for _ in range(3):
            timeouts.sweep()
    for _ in range(2):
        outbox.relay()
    notice = Notice.objects.get(person=by, kind=Kind.FAILED)
    assert re.search("nobody decided in time|approval timeout", notice.sentence, re.IGNORECASE)
    assert notice.href == f"/tasks/{run.task_id}/"
    assert Notice.objects.filter(person=by).count() == 1


@pytest.mark.parametrize("address", ["nonsense", "dbus://", "syslog://", ""])
def test_an_address_that_is_no_room_is_refused(address):
    assert chat.problem_of(address)
