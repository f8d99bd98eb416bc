"""From the sign-in to a decision by the keyboard alone: each stop of the focus visible, no error."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from runs.domain.vocabulary import RunStatus
from tests.browser.scenes import PASSWORD, TITLE, Scene
from tests.browser.visitor import Look, Visitor
from tests.factories import Holder


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
    expect(visitor.page.get_by_role("link", name=TITLE)).to_be_visible()
    visitor.press("j", "Enter")
    expect(visitor.page.locator("#verdict")).to_be_visible()


@pytest.mark.parametrize("look", [Look(), Look("dark", 390)], ids=str)
def test_a_reviewer_approves(visit: Callable[..., Visitor], holder: Holder, look: Look) -> None:
    carol = visit(look=look)
    sign_in(carol)
    open_review(carol)
    carol.tab_to(carol.page.get_by_role("button", name="Approve"))
    carol.press("Enter")
    carol.sees(re.compile("approved", re.IGNORECASE))
    assert holder.run.status == RunStatus.PR_CREATING


def test_a_reviewer_requests_changes_with_a_comment(visit: Callable[..., Visitor], holder: Holder) -> None:
    carol = visit()
    sign_in(carol)
    open_review(carol)
    carol.press("c")
    carol.type("Leave the generated files alone.")
    carol.tab_to(carol.page.get_by_role("button", name="Request changes"))
    carol.press("Enter")
    carol.sees(re.compile("changes", re.IGNORECASE))
    assert holder.run.status == RunStatus.EXECUTING
    assert "Leave the generated files alone." in holder.run.task.instructions.values_list("text", flat=True)


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
