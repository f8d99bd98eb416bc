"""Links into a long story, contracts that are checked while they are typed, one action on many tasks."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Task
from tests.browser.scenes import Scene
from tests.browser.visitor import Visitor
from tests.factories import task


def test_a_link_to_an_event_lands_on_the_sentence_that_tells_it(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    holder, bob = scene.run(RunStatus.PLANNING), visit(scene.bob)
    holder.plan()
    told = holder.run.events.get(
        event_type=Ev.CONTEXT_READY
    ).sequence  # a detail: the usual story leaves it out
    bob.go(f"/runs/{holder.run_id}/#e{told}")
    expect(bob.page).to_have_url(re.compile(rf"at={told}&show=all#e{told}$"))
    expect(bob.page.locator(f"li[data-from='{told}']")).to_be_focused()
    expect(bob.page.locator(f"li[data-from='{told}']")).to_be_in_viewport()


def test_a_contract_is_checked_while_it_is_typed_and_no_word_is_lost(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    bob = visit(scene.bob)
    bob.go("/tasks/new/")
    said = bob.page.locator("#contract-check")
    expect(said).to_contain_text("Still to fill")
    bob.page.get_by_label("Title").fill("Replace utcnow")
    bob.page.get_by_label("Instruction").fill("Everywhere.")
    bob.page.get_by_label("Its command", exact=False).fill("true")
    bob.page.get_by_label("Name").first.fill("test")
    bob.page.get_by_label("Command", exact=True).first.fill("true")
    bob.page.get_by_label("Base branch").fill("no..branch")
    expect(said).to_contain_text("must be a branch name")
    bob.page.get_by_label("Base branch").fill("")
    expect(said).to_contain_text("policy takes it")
    expect(bob.page.get_by_label("Title")).to_have_value("Replace utcnow")
    assert not Task.objects.exists()


def test_one_action_on_many_tasks_is_done_and_shown(visit: Callable[..., Visitor], scene: Scene) -> None:
    for number in range(3):
        task(scene.repository, scene.bob, submit=False, title=f"Draft {number}")
    bob = visit(scene.bob)
    bob.go("/tasks/")
    expect(bob.page.get_by_label("With the chosen")).to_be_hidden()
    bob.page.get_by_label("All of these").check()
    bob.page.get_by_label("With the chosen").select_option("archive")
    bob.page.get_by_role("button", name="Do it").click()
    expect(bob.page.locator("[data-item]")).to_have_count(0)
    assert Task.objects.filter(archived_at__isnull=False).count() == 3


def test_an_export_is_saved_with_all_of_its_rows(visit: Callable[..., Visitor], scene: Scene) -> None:
    scene.run(RunStatus.SUCCEEDED, title="=1+1")
    bob = visit(scene.bob)
    bob.go("/runs/")
    with bob.page.expect_download() as saved:
        bob.page.get_by_role("link", name="CSV").click()
    content = saved.value.path().read_text()
    assert len(content.splitlines()) == 2
    assert ",'=1+1," in content
