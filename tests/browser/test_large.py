"""What is large still comes at once: a patch of 50,000 lines, a run of 10,000 events.

The long forms measure; their times hold on a machine that does nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.conf import settings
from playwright.sync_api import expect

from runs.domain.vocabulary import Ev, RunStatus
from runs.selectors import timeline
from tests.bench.seed import copy_events
from tests.browser.scenes import Scene
from tests.browser.visitor import Visitor
from tests.database import owner_url
from tests.factories import Holder
from tests.reviewing import large_patch, waiting_with_patch

PAINT_MS = [None, pytest.param(2_000, marks=pytest.mark.long)]
STORY_MS = [None, pytest.param(1_500, marks=pytest.mark.long)]
#: Milliseconds from the address to the first text on the screen.
PAINTED = """() => new Promise((done) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName('first-contentful-paint')[0];
  if (paint) done(paint.startTime);
}).observe({type: 'paint', buffered: true}))"""


def first_paint(visitor: Visitor, path: str) -> float:
    """The best of three: what else the machine does at the moment is not the page's doing."""
    found = []
    for _ in range(3):
        visitor.go(path)
        found.append(float(visitor.page.evaluate(PAINTED)))
    return min(found)


@pytest.mark.parametrize("limit", PAINT_MS)
def test_a_patch_of_2_000_files_and_50_000_lines_opens_at_once(
    visit: Callable[..., Visitor], scene: Scene, limit: int | None
) -> None:
    request = waiting_with_patch(large_patch(2_000, 25), where=scene.repository, by=scene.bob)
    carol = visit(scene.carol)
    carol.page.set_default_timeout(30_000)
    if limit:
        assert first_paint(carol, f"/approvals/{request.pk}/") < limit
    carol.go(f"/approvals/{request.pk}/")
    expect(carol.page.locator(".file")).to_have_count(2_000, timeout=30_000)
    last = carol.page.locator(".file").last
    last.get_by_role("link", name="Show it").click()
    expect(last).to_contain_text("value_24 = 24", timeout=30_000)


def long_story(scene: Scene, count: int) -> Holder:
    """A run whose log is long: a failure, many notes, a failure."""
    holder = scene.run(RunStatus.VERIFYING)
    holder.check(exit_code=1, feedback="It does not compile.")
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="Look again")
    copy_events(
        owner_url(settings.DATABASES["default"]["NAME"]), holder.run_id, "model_decision", count=count
    )
    return holder


@pytest.mark.parametrize("limit", STORY_MS)
def test_a_run_of_10_000_events_opens_at_once_and_a_deep_link_lands(
    visit: Callable[..., Visitor], scene: Scene, limit: int | None
) -> None:
    holder, bob = long_story(scene, 10_000), visit(scene.bob)
    if limit:
        assert first_paint(bob, f"/runs/{holder.run_id}/") < limit
        bob.go("/runs/")
    bob.go(f"/runs/{holder.run_id}/#e5000")
    covering = bob.page.locator("[data-landed]")
    expect(covering).to_be_in_viewport()
    place = covering.evaluate("({dataset}) => [Number(dataset.from), Number(dataset.to)]")
    assert place[0] <= 5_000 <= place[1]


def test_f_leads_on_to_a_failure_in_another_window_of_the_log(
    visit: Callable[..., Visitor], scene: Scene, monkeypatch
) -> None:
    monkeypatch.setattr(timeline, "WINDOW", 50)
    holder, bob = long_story(scene, 120), visit(scene.bob)
    bob.go(f"/runs/{holder.run_id}/")
    expect(bob.page.locator("[data-failure]")).to_have_count(0)
    bob.press("f")
    expect(bob.page).to_have_url(re.compile(r"at=\d+&show=normal#e\d+$"))
    expect(bob.page.locator("[data-landed]")).to_contain_text("failed")
    expect(bob.page.locator("[data-landed]")).to_be_focused()
