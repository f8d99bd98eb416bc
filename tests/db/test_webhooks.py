"""Webhooks: signed, in order, at least once, to a receiver that fails, hangs and duplicates."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from approvals.models import Notice, Webhook
from approvals.notices import webhooks
from approvals.notices.webhooks import MOST_FAILURES, secret_of, secret_renew, send_webhooks, webhook_resume
from runs import outbox
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Delivery
from runs.outbox import MAX_TRIES, Relayed
from tests import factories as make
from tests.receivers import Post, Receiver, receiver

pytestmark = pytest.mark.django_db

RUNS = ["RunQueued", "RunLeased", "RunPreparing"]


@pytest.fixture
def hook(settings, monkeypatch) -> Iterator[Receiver]:
    # A slow machine must not end a turn where a test counts what one turn sends.
    monkeypatch.setattr(webhooks, "TURN_SECONDS", 600)
    monkeypatch.setattr(webhooks, "ROUND_SECONDS", 600)
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    settings.PUBLIC_URL = "https://agents.example.org"
    with receiver() as kept:
        yield kept


def register(at: str, *events: str, **fields: Any) -> Webhook:
    owner = make.person(PersonRole.ADMIN)
    return Webhook.objects.create(name=owner.username, url=at, events=list(events), owner=owner, **fields)


def send(*, later: timedelta = timedelta(hours=3), only_webhooks: bool = False) -> Relayed:
    """A round of sending, as if every wait were over; or those of webhooks alone."""
    Webhook.objects.filter(not_before__isnull=False).update(not_before=F("not_before") - later)
    if not only_webhooks:
        Delivery.objects.filter(state="pending").update(next_try_at=F("next_try_at") - later)
    done = Relayed()
    send_webhooks(done)
    return done


def said(post: Post) -> Any:
    return json.loads(post.body)


def lines(webhook: Webhook) -> set[str]:
    return set(Delivery.objects.filter(consumer=webhook.receiver).values_list("state", flat=True))


def moved_run() -> str:
    run_id = make.run_in(RunStatus.PREPARING).run_id
    outbox.relay()
    return run_id


def test_each_event_arrives_once_signed_and_with_the_state_of_its_moment(hook):
    webhook = register(hook.url, *RUNS)
    run_id = moved_run()
    assert send().delivered == {f"webhook {webhook.name}": 3}
    assert send().delivered == {}
    assert [said(post)["type"] for post in hook.posts] == RUNS
    data = [said(post)["data"] for post in hook.posts]
    assert [entry["status"] for entry in data] == ["QUEUED", "LEASED", "PREPARING"]
    assert [entry["run_id"] for entry in data] == [run_id] * 3
    assert data[0]["sequence"] < data[1]["sequence"] < data[2]["sequence"]
    assert {"event_id", "occurred_at", "url"} <= data[0].keys()
    verifier = Verifier(secret_of(webhook.pk, 1))
    for post in hook.posts:
        verifier.verify(post.body, post.headers)
    with pytest.raises(WebhookVerificationError):
        verifier.verify(hook.posts[0].body + b" ", hook.posts[0].headers)


def test_unasked_it_hears_what_people_hear_one_message_for_each_cause(hook):
    register(hook.url)
    make.run_in(RunStatus.WAITING_FOR_APPROVAL)
    outbox.relay()
    send()
    assert [(said(post)["type"], said(post)["data"]["gate"]) for post in hook.posts] == [
        ("TaskWaiting", "patch")
    ]


def test_a_webhook_of_one_repository_hears_of_no_other(hook):
    here = make.repository()
    webhook = register(hook.url, "RunQueued")
    webhook.repositories.add(here)
    mine = make.queued_run(here)
    make.queued_run()
    outbox.relay()
    send()
    assert [said(post)["data"]["run_id"] for post in hook.posts] == [mine.pk]


def test_what_failed_comes_again_before_anything_later_of_its_run(hook):
    webhook = register(hook.url, *RUNS)
    failing = True
    hook.answer = lambda post: 500 if failing and said(post)["type"] == "RunLeased" else 204
    moved_run()
    assert send().failed == {f"webhook {webhook.name}": 1}
    assert [said(post)["type"] for post in hook.posts] == ["RunQueued", "RunLeased"]
    failing = False
    send()
    assert [said(post)["type"] for post in hook.posts][2:] == ["RunLeased", "RunPreparing"]
    ids = [post.headers["webhook-id"] for post in hook.posts]
    assert ids[1] == ids[2]
    assert lines(webhook) == {"delivered"}


def test_a_sender_that_died_after_the_answer_sends_the_same_id_again(hook):
    webhook = register(hook.url, "RunQueued")
    moved_run()
    send()
    Delivery.objects.filter(consumer=webhook.receiver).update(state="pending", delivered_at=None)
    send()
    first, second = hook.posts
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)


def test_one_that_hangs_holds_up_no_other_and_is_asked_once_a_round(hook, monkeypatch):
    monkeypatch.setattr(webhooks, "post", _within(0.3))
    with receiver() as hole:
        hole.hang = threading.Event()
        dead, fine = register(hole.url, "RunQueued"), register(hook.url, "RunQueued")
        for _ in range(10):
            make.queued_run()
        outbox.relay()
        first = send()
        assert first.delivered == {f"webhook {fine.name}": 10}
        assert first.failed == {f"webhook {dead.name}": 1}
        assert send(later=timedelta()).failed == {}
        assert send().failed == {f"webhook {dead.name}": 1}
        assert lines(dead) == {"pending"}


def _within(seconds: float):
    from approvals.notices.guard import post

    return lambda url, **options: post(url, **options, seconds=seconds)


def test_one_that_never_answers_is_paused_with_one_notice_and_loses_nothing(hook):
    webhook = register(hook.url, "RunQueued")
    hook.answer = lambda post: 503
    for _ in range(3):
        make.queued_run()
    outbox.relay()
    for _ in range(MOST_FAILURES + 3):
        send()
    webhook = Webhook.objects.get(pk=webhook.pk)
    assert webhook.paused_at
    assert len(hook.posts) == MOST_FAILURES
    (notice,) = Notice.objects.all()
    assert (notice.person, notice.kind, notice.send_at) == (webhook.owner, "blocked", None)
    assert lines(webhook) == {"pending"}
    hook.answer = lambda post: 204
    webhook_resume(webhook)
    send()
    assert lines(webhook) == {"delivered"}


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_final_for_its_message_and_the_next_goes_on(hook, status):
    webhook = register(hook.url, *RUNS)
    hook.answer = lambda post: status if said(post)["type"] == "RunQueued" else 204
    moved_run()
    assert send().parked == {f"webhook {webhook.name}": 1}
    send()
    assert lines(webhook) == {"parked", "delivered"}
    assert [said(post)["type"] for post in hook.posts] == RUNS


def test_what_it_asks_for_in_retry_after_is_kept_to(hook):
    webhook = register(hook.url, "RunQueued")
    hook.answer = lambda post: (429, {"Retry-After": "600"})
    moved_run()
    send()
    found = Webhook.objects.get(pk=webhook.pk)
    tried = Delivery.objects.get(consumer=webhook.receiver)
    assert found.not_before
    assert found.not_before - tried.next_try_at > timedelta(minutes=9)
    assert tried.state == "pending"


def test_a_message_that_fails_while_others_arrive_is_parked_after_its_schedule(hook):
    webhook = register(hook.url, "RunQueued")
    poison = make.queued_run().pk
    hook.answer = lambda post: 500 if said(post)["data"]["run_id"] == poison else 204
    for _ in range(MAX_TRIES):
        make.queued_run()
        outbox.relay()
        send()
        send(only_webhooks=True)
    parked = Delivery.objects.get(consumer=webhook.receiver, state="parked")
    assert (parked.stream, parked.tries) == (poison, MAX_TRIES)
    assert lines(webhook) == {"parked", "delivered"}
    assert Webhook.objects.get(pk=webhook.pk).paused_at is None


def test_a_new_secret_signs_along_with_the_old_one_for_a_day(hook):
    webhook = register(hook.url, *RUNS)
    old, new = secret_of(webhook.pk, 1), secret_renew(webhook)
    assert old != new
    moved_run()
    send()
    for secret in (old, new):
        Verifier(secret).verify(hook.posts[0].body, hook.posts[0].headers)
    Webhook.objects.update(old_secret_until=F("old_secret_until") - timedelta(days=2))
    moved_run()
    send()
    Verifier(new).verify(hook.posts[-1].body, hook.posts[-1].headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(old).verify(hook.posts[-1].body, hook.posts[-1].headers)


def test_an_address_that_lies_inside_since_is_not_reached(hook, settings):
    webhook = register(hook.url, "RunQueued")
    moved_run()
    settings.WEBHOOK_NETWORKS = []
    assert send().parked == {f"webhook {webhook.name}": 1}
    assert hook.posts == []
    assert "lies inside" in Webhook.objects.get(pk=webhook.pk).last_error


def test_two_senders_at_once_ask_a_webhook_once(hook):
    webhook = register(hook.url, "RunQueued")
    moved_run()
    assert webhooks._hold(Webhook.objects.get(pk=webhook.pk), webhook.created_at)
    assert not webhooks._hold(webhook, webhook.created_at)


def test_an_admin_sets_one_up_sees_its_secret_once_and_no_address_inside_is_saved(settings):
    settings.WEBHOOK_NETWORKS = []
    admin = make.person(is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(admin)
    fields = {
        "name": "ci",
        "owner": admin.pk,
        "is_active": "on",
        "events": ["RunQueued"],
        "reason": "CI asked.",
    }
    refused = client.post("/admin/approvals/webhook/add/", {**fields, "url": "http://169.254.169.254/latest"})
    assert b"lies inside" in refused.content
    made = client.post(
        "/admin/approvals/webhook/add/", {**fields, "url": "https://hooks.example.com/"}, follow=True
    )
    webhook = Webhook.objects.get()
    secret = secret_of(webhook.pk, 1)
    assert secret in made.content.decode()
    page = client.get(f"/admin/approvals/webhook/{webhook.pk}/change/").content.decode()
    assert secret not in page
