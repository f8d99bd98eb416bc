"""A decision is made once, by who may, about what was shown; who is late is told, and loses no word."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from approvals.models import Decision
from approvals.service import approval_waive
from runs import auth
from runs.domain.vocabulary import Ev, RunStatus
from tests.browser.scenes import Scene, open_request, replace_patch
from tests.browser.visitor import Visitor
from tests.factories import Holder, patch_writing

#: The browser notes each answer of 409 or 422 in its console; here they are what is wanted.
REFUSED = r"the server responded with a status of (409|422)"
COMMENT = "Please keep the old name as an alias."


def open_review(visitor: Visitor, holder: Holder) -> None:
    visitor.go(f"/approvals/{open_request(holder.run).pk}/")
    expect(visitor.page.locator("#verdict")).to_be_visible()


def count(holder: Holder, event: Ev) -> int:
    return holder.run.events.filter(event_type=event).count()


def waiting(scene: Scene) -> Holder:
    return scene.run(RunStatus.WAITING_FOR_APPROVAL)


def test_a_double_click_decides_once(visit: Callable[..., Visitor], scene: Scene) -> None:
    holder, carol = waiting(scene), visit(scene.carol)
    open_review(carol, holder)
    carol.page.get_by_role("button", name="Approve").dblclick()
    carol.sees(re.compile("approved", re.IGNORECASE))
    assert Decision.objects.count() == 1
    assert count(holder, Ev.APPROVED) == 1


def test_the_second_of_two_reviewers_reads_who_decided(visit: Callable[..., Visitor], scene: Scene) -> None:
    holder, carol, erin = waiting(scene), visit(scene.carol), visit(scene.erin)
    for visitor in (carol, erin):
        open_review(visitor, holder)
    erin.allow(REFUSED)
    erin.page.get_by_label("Comment", exact=True).fill(COMMENT)
    carol.page.get_by_role("button", name="Approve").click()
    carol.sees(re.compile("approved", re.IGNORECASE))
    erin.page.get_by_role("button", name="Request changes").click()
    erin.sees(re.compile(r"carol.*approved|approved.*carol", re.IGNORECASE))
    assert Decision.objects.get().by == scene.carol


def test_a_new_patch_refuses_the_decision_shows_the_difference_and_keeps_the_comment(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, carol = waiting(scene), visit(scene.carol)
    open_review(carol, holder)
    carol.page.get_by_label("Comment", exact=True).fill(COMMENT)
    replace_patch(holder, patch_writing({"late.py": "LATE = True\n"}), by=scene.erin)
    carol.allow(REFUSED)
    carol.page.get_by_role("button", name="Approve").click()
    carol.sees(re.compile("Nothing was decided"))
    carol.sees(COMMENT)
    carol.sees("late.py")
    assert holder.run.status == RunStatus.WAITING_FOR_APPROVAL
    assert not Decision.objects.filter(by=scene.carol).exists()


def test_what_was_waived_meanwhile_is_shown_before_anything_is_decided(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder = scene.run(RunStatus.WAITING_FOR_APPROVAL, forbidden_paths=["clock.py"])
    carol = visit(scene.carol)
    open_review(carol, holder)
    expect(carol.page.get_by_role("button", name="Approve")).to_be_disabled()
    carol.sees(re.compile("Approve is off"))
    request = open_request(holder.run)
    carol.page.get_by_label("Comment", exact=True).fill(COMMENT)
    approval_waive(
        approval_id=request.pk,
        guard="paths",
        reason="Agreed with the owners.",
        version=request.version,
        by=auth.of_person(scene.dana),
    )
    carol.allow(REFUSED)
    carol.page.get_by_role("button", name="Reject").click()
    expect(carol.page.get_by_role("button", name="Approve")).to_be_enabled()
    expect(carol.page.get_by_label("Comment", exact=True)).to_have_value(COMMENT)
    assert holder.run.status == RunStatus.WAITING_FOR_APPROVAL


def test_nobody_approves_their_own_request_and_reads_why(visit: Callable[..., Visitor], scene: Scene) -> None:
    holder, bob = waiting(scene), visit(scene.bob)
    open_review(bob, holder)
    approve = bob.page.get_by_role("button", name="Approve")
    expect(approve).to_be_disabled()
    expect(approve).to_have_accessible_description(re.compile("You .*: somebody else has to approve"))


def test_without_script_the_patch_is_readable_and_the_form_decides(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, carol = waiting(scene), visit(scene.carol, script=False)
    carol.go(f"/runs/{holder.run_id}/")
    expect(carol.page.locator(".timeline .sentence").first).to_be_visible()
    open_review(carol, holder)
    expect(carol.page.locator("table.diff tr.add").first).to_contain_text("datetime.UTC")
    carol.page.get_by_label("Comment", exact=True).fill(COMMENT)
    carol.page.get_by_role("button", name="Approve").click()
    carol.sees(re.compile("approved", re.IGNORECASE))
    assert holder.run.status == RunStatus.PR_CREATING
