"""The script's comforts, on the page of all components: keys, menus, preferences, drafts, viewed boxes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.scenes import Scene
from tests.browser.visitor import Visitor


@pytest.fixture
def patterns(visit: Callable[..., Visitor], scene: Scene) -> Visitor:
    visitor = visit(scene.dana)
    visitor.go("/patterns/")
    return visitor


def focused(page: Page) -> Locator:
    return page.locator(":focus")


def test_the_question_mark_opens_the_help_and_escape_closes_it(patterns: Visitor) -> None:
    patterns.press("?")
    expect(patterns.page.locator("#keys")).to_be_visible()
    patterns.press("Escape")
    expect(patterns.page.locator("#keys")).to_be_hidden()


def test_j_and_k_walk_the_items_and_f_finds_the_failure(patterns: Visitor) -> None:
    titles = patterns.page.locator("[data-item] [data-open]")
    patterns.press("j", "j")
    expect(titles.nth(1)).to_be_focused()
    patterns.press("k")
    expect(titles.nth(0)).to_be_focused()
    patterns.press("f")
    expect(patterns.page.locator("[data-failure]").first).to_be_focused()


def test_a_letter_goes_to_a_decision_and_decides_nothing(patterns: Visitor) -> None:
    address = patterns.page.url
    patterns.press("c")
    expect(patterns.page.get_by_label("Comment", exact=True)).to_be_focused()
    patterns.type("because")
    patterns.press("Tab", "c")
    expect(patterns.page.get_by_role("button", name="Request changes")).to_be_focused()
    patterns.press("r")
    expect(patterns.page.get_by_role("button", name="Reject")).to_be_focused()
    assert patterns.page.url == address


def test_letters_are_inert_while_typing(patterns: Visitor) -> None:
    comment = patterns.page.get_by_label("Comment", exact=True)
    comment.focus()
    patterns.type("jkfacr?/v")
    expect(comment).to_have_value("jkfacr?/v")
    expect(comment).to_be_focused()
    expect(patterns.page.locator("#keys")).to_be_hidden()


def test_keys_can_be_switched_off_for_good(patterns: Visitor) -> None:
    patterns.page.locator(".menu summary").click()
    patterns.page.get_by_role("button", name="Keys off").click()
    patterns.press("Escape")
    expect(patterns.page.locator(".menu")).not_to_have_attribute("open", "")
    patterns.page.reload()
    patterns.press("?", "j")
    expect(patterns.page.locator("#keys")).to_be_hidden()
    expect(patterns.page.locator("body")).to_be_focused()


def test_the_chosen_scheme_holds_before_the_first_paint_of_the_next_page(patterns: Visitor) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = patterns.page.evaluate(ground)
    patterns.page.locator(".menu summary").click()
    patterns.page.get_by_role("button", name="Dark").click()
    dark = patterns.page.evaluate(ground)
    assert dark != light
    patterns.page.reload(wait_until="commit")
    patterns.page.wait_for_selector("body")
    assert patterns.page.evaluate(ground) == dark


def test_a_typed_comment_outlives_a_reload(patterns: Visitor) -> None:
    patterns.page.get_by_label("Comment", exact=True).fill("leave the generated files alone")
    patterns.page.reload()
    expect(patterns.page.get_by_label("Comment", exact=True)).to_have_value("leave the generated files alone")


def test_a_viewed_file_folds_and_is_remembered_by_its_digest(patterns: Visitor) -> None:
    first = patterns.page.locator(".file").first
    first.get_by_label("Viewed").check()
    expect(patterns.page.get_by_text("1 of 3 viewed")).to_be_visible()
    patterns.page.reload()
    expect(first.get_by_label("Viewed")).to_be_checked()
    expect(first.get_by_role("region")).to_be_hidden()
    first.get_by_label("Viewed").uncheck()
    expect(first.get_by_role("region")).to_be_visible()


def test_an_asking_button_puts_the_focus_on_its_reason_and_gives_it_back(patterns: Visitor) -> None:
    stop = patterns.page.locator("[data-action=stop]")
    stop.locator("summary").click()
    expect(stop.get_by_label("Reason")).to_be_focused()
    patterns.press("Escape")
    expect(stop.locator("summary")).to_be_focused()
    expect(stop.get_by_label("Reason")).to_be_hidden()


def test_hostile_text_of_an_agent_does_nothing(patterns: Visitor) -> None:
    patterns.sees("<script>alert(1)</script>")


def test_local_times_say_their_zone(patterns: Visitor) -> None:
    patterns.page.locator(".menu summary").click()
    patterns.page.get_by_role("button", name="Local time").click()
    clock = patterns.page.locator("time[data-clock]").first
    expect(clock).to_have_text(re.compile(r"^\d\d:\d\d.* (UTC|GMT|[A-Z]{2,5})([+-]\d+)?$"))
