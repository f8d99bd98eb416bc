"""What moves by itself: news within seconds, silence when all is over, and never a word lost.

The browser's clock is driven by the test, so that a quarter of a minute takes no time. The three seconds for
news are real ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Request, expect

from runs import auth, service
from runs.domain.vocabulary import Ev, RunStatus
from tests.browser.scenes import PASSWORD, Scene, open_request
from tests.browser.visitor import Visitor

NEWS_MS = 3_000
COMMENT = "Please keep the old name as an alias."


def asked_by(visitor: Visitor) -> list[str]:
    """Every later request of the page's live parts."""
    seen: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("hx-request"):
            seen.append(request.url)

    visitor.page.on("request", note)
    return seen


def test_a_new_event_shows_within_three_seconds_and_the_scroll_stays(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, bob = scene.run(RunStatus.PLANNING), visit(scene.bob)
    bob.page.set_viewport_size({"width": 1280, "height": 300})
    bob.go(f"/runs/{holder.run_id}/")
    sentences = bob.page.locator(".timeline .sentence")
    before = sentences.count()
    bob.page.evaluate("scrollTo(0, 60)")
    holder.plan()
    expect(sentences).not_to_have_count(before, timeout=NEWS_MS)
    assert bob.page.evaluate("scrollY") == 60


def test_an_unfinished_run_is_asked_for_and_a_finished_one_is_not(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, bob = scene.run(RunStatus.PLANNING), visit(scene.bob)
    bob.page.clock.install()
    bob.go(f"/runs/{holder.run_id}/")
    seen = asked_by(bob)
    with bob.page.expect_request(lambda request: "hx-request" in request.headers):
        bob.page.clock.run_for(5_000)
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=FAILURE)
    expect(bob.page.locator("[data-live]")).to_have_count(0)
    seen.clear()
    bob.page.clock.run_for(60_000)
    bob.go(f"/runs/{holder.run_id}/")
    bob.page.clock.run_for(60_000)
    assert seen == []


FAILURE = {
    "category": "PLANNING_FAILED",
    "reason": "no_plan",
    "summary": "No plan was found.",
    "retryable": False,
}


def test_a_hidden_tab_asks_nothing(visit: Callable[..., Visitor], scene: Scene) -> None:
    holder, bob = scene.run(RunStatus.PLANNING), visit(scene.bob)
    bob.page.clock.install()
    bob.context.add_init_script("Object.defineProperty(document, 'hidden', {get: () => true})")
    bob.go(f"/runs/{holder.run_id}/")
    seen = asked_by(bob)
    bob.page.clock.run_for(30_000)
    assert seen == []


def test_a_server_that_is_away_is_said_and_its_return_heals_the_page(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, bob = scene.run(RunStatus.PLANNING), visit(scene.bob)
    bob.allow("ERR_INTERNET_DISCONNECTED")
    bob.go(f"/runs/{holder.run_id}/")
    away = bob.page.get_by_text("Reconnecting")
    expect(away).to_be_hidden()
    bob.context.set_offline(True)
    expect(away).to_be_visible(timeout=10_000)
    bob.context.set_offline(False)
    expect(away).to_be_hidden(timeout=10_000)


def test_a_comment_being_typed_survives_what_changes_around_it(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, carol = scene.run(RunStatus.WAITING_FOR_APPROVAL), visit(scene.carol)
    carol.go(f"/approvals/{open_request(holder.run).pk}/")
    comment = carol.page.get_by_label("Comment", exact=True)
    comment.press_sequentially(COMMENT)
    by = auth.of_person(scene.erin).caller
    with carol.page.expect_response(lambda answer: "hx-request" in answer.request.headers):
        service.run_note(run_id=holder.run_id, text="Looking at it too.", by=by)
    expect(comment).to_have_value(COMMENT)
    expect(comment).to_be_focused()
    carol.page.reload()
    expect(comment).to_have_value(COMMENT)


def test_a_session_that_ends_asks_to_sign_in_and_keeps_the_draft(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, carol = scene.run(RunStatus.WAITING_FOR_APPROVAL), visit(scene.carol)
    carol.go(address := f"/approvals/{open_request(holder.run).pk}/")
    comment = carol.page.get_by_label("Comment", exact=True)
    comment.fill(COMMENT)
    carol.context.clear_cookies()
    carol.allow("status of 401")
    prompt = carol.page.get_by_role("alert").get_by_role("link", name="Sign in")
    expect(prompt).to_be_visible()
    prompt.click()
    carol.page.get_by_label("Username").fill(scene.carol.username)
    carol.page.get_by_label("Password").fill(PASSWORD)
    carol.page.get_by_role("button", name="Sign in").click()
    expect(carol.page).to_have_url(re.compile(f"{address}$"))
    expect(comment).to_have_value(COMMENT)


def test_a_note_begun_does_not_hold_back_the_news_and_following_stays_on(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, carol = scene.run(RunStatus.PLANNING), visit(scene.carol)
    carol.go(f"/runs/{holder.run_id}/")
    carol.page.get_by_label("Follow").check()
    note = carol.page.get_by_label("Note", exact=True)
    note.fill(COMMENT)
    note.blur()
    sentences = carol.page.locator(".timeline .sentence")
    before = sentences.count()
    holder.plan()
    expect(sentences).not_to_have_count(before)
    expect(note).to_have_value(COMMENT)
    expect(carol.page.get_by_label("Follow")).to_be_checked()


def test_a_decision_posted_without_a_session_is_not_lost(visit: Callable[..., Visitor], scene: Scene) -> None:
    holder, carol = scene.run(RunStatus.WAITING_FOR_APPROVAL), visit(scene.carol)
    carol.go(address := f"/approvals/{open_request(holder.run).pk}/")
    comment = carol.page.get_by_label("Comment", exact=True)
    comment.fill(COMMENT)
    carol.context.clear_cookies(name="sessionid")
    carol.page.get_by_role("button", name="Request changes").click()
    expect(carol.page).to_have_url(re.compile("/accounts/login/"))
    carol.page.get_by_label("Username").fill(scene.carol.username)
    carol.page.get_by_label("Password").fill(PASSWORD)
    carol.page.get_by_role("button", name="Sign in").click()
    expect(carol.page).to_have_url(re.compile(f"{address}$"))
    expect(comment).to_have_value(COMMENT)
