"""From the sign-in to a decision by the keyboard alone: each stop of the focus visible, no error."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from runs.domain.vocabulary import RunStatus
from tests.browser.scenes import PASSWORD, TITLE, Scene
from tests.browser.visitor import LOOKS, Look, Visitor
from tests.factories import Holder

REMARK = "Name the zone."


@pytest.fixture
def holder(scene: Scene) -> Holder:
    """A run at its patch gate; its worker goes on when it may."""
    return scene.run(RunStatus.WAITING_FOR_APPROVAL)


def sign_in(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/")
    expect(page).to_have_url(re.compile(r"/accounts/login/\?next=/$"))
    if not page.get_by_label("Username").evaluate("(input) => input === document.activeElement"):
        visitor.tab_to(page.get_by_label("Username"))
    visitor.type("carol")
    visitor.tab_to(page.get_by_label("Password"))
    visitor.type(PASSWORD)
    visitor.press("Enter")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def open_review(visitor: Visitor) -> None:
    visitor.tab_to(visitor.page.get_by_role("navigation").get_by_role("link", name="Reviews"))
    visitor.press("Enter")
    expect(visitor.page.get_by_role("link", name=TITLE).first).to_be_visible()
    clean(visitor)
    visitor.press("j", "Enter")
    expect(visitor.page.locator("#verdict")).to_be_visible()


def clean(visitor: Visitor) -> None:
    """Nobody is kept out at this stop."""
    assert visitor.findings(colours_only=visitor.look.scheme == "dark") == []


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_a_reviewer_sends_back_with_a_remark_on_a_line_and_approves_the_next(
    visit: Callable[..., Visitor], holder: Holder, scene: Scene, look: Look
) -> None:
    other, carol = scene.run(RunStatus.WAITING_FOR_APPROVAL), visit(look=look)
    page = carol.page
    sign_in(carol)
    open_review(carol)
    clean(carol)
    carol.press("j")
    expect(page.get_by_role("link", name="clock.py").last).to_be_focused()
    carol.press("l")
    carol.type("5")
    carol.press("Tab")
    carol.press("Tab")
    carol.type(REMARK)
    clean(carol)
    carol.tab_to(page.get_by_role("link", name="Side by side"), key="Shift+Tab")
    carol.press("Enter")
    expect(page.locator("table.diff.split")).to_be_visible()
    expect(page.locator(".remark-row textarea")).to_have_value(REMARK)
    clean(carol)
    carol.press("c")
    expect(page.get_by_role("button", name="Request changes")).to_be_focused()
    carol.press("Enter")
    carol.sees("Changes requested.")
    assert holder.run.status == RunStatus.EXECUTING
    (asked,) = holder.run.task.instructions.filter(number=2).values_list("text", flat=True)
    assert asked == f"clock.py:5\n>     return datetime.datetime.now(datetime.UTC)\n{REMARK}"
    open_review(carol)
    carol.press("a")
    carol.press("Enter")
    carol.sees("Approved.")
    clean(carol)
    assert other.run.status == RunStatus.PR_CREATING


def test_a_reviewer_rejects_and_must_say_why(visit: Callable[..., Visitor], holder: Holder) -> None:
    carol = visit()
    sign_in(carol)
    open_review(carol)
    carol.tab_to(carol.page.get_by_role("button", name="Reject"))
    carol.press("Enter")
    expect(carol.page.get_by_label("Comment", exact=True)).to_be_focused()
    assert holder.run.status == RunStatus.WAITING_FOR_APPROVAL
    carol.type("Nobody needs this.")
    carol.tab_to(carol.page.get_by_role("button", name="Reject"))
    carol.press("Enter")
    carol.sees(re.compile("rejected", re.IGNORECASE))
    assert holder.run.status == RunStatus.FAILED
