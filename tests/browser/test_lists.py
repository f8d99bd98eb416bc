"""Lists and times as people move through them: an address is a whole page, a state is more than a colour."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from agentplatform.clock import clock_turned_to
from runs import auth, service
from runs.domain.display import Display
from runs.domain.vocabulary import Ev, RunStatus
from tests.browser.scenes import Scene
from tests.browser.visitor import Visitor
from tests.factories import queued_run

#: Each pill's drawing, its words, and the contrast of both on their ground when all colour is taken away.
PILLS = """() => [...document.querySelectorAll('.state[data-state]')].map((pill) => {
  const grey = (colour) => {
    const canvas = document.createElement('canvas').getContext('2d', {colorSpace: 'srgb'});
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => value / 255)
      .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(pill), ink = grey(style.color), ground = grey(style.backgroundColor);
  return {
    state: pill.dataset.state, words: pill.innerText.trim(),
    icon: pill.querySelector('use').getAttribute('href'),
    contrast: (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05),
  };
})"""


def test_back_reload_and_a_shared_address_show_the_same_whole_page(
    visit: Callable[..., Visitor], scene: Scene
) -> None:
    scene.run(RunStatus.PLANNING, title="Under way")
    bob, erin = visit(scene.bob), visit(scene.erin)
    bob.go("/runs/")
    bob.page.get_by_label("State").select_option(Display.THINKING.value)
    bob.page.get_by_role("button", name="Filter").click()
    expect(bob.page.locator("#runs [data-item]")).to_have_count(1)
    scene.run(RunStatus.PLANNING, title="Came later")
    bob.sees("Came later")  # a part of the page has replaced itself
    address = bob.page.url
    bob.page.get_by_role("link", name="Under way").click()
    expect(bob.page).to_have_url(re.compile(r"/runs/run_"))
    bob.page.go_back()
    for visitor, come in ((bob, lambda: None), (bob, bob.page.reload), (erin, lambda: erin.go(address))):
        come()
        expect(visitor.page).to_have_url(address)
        expect(visitor.page.get_by_role("navigation", name="Main")).to_be_visible()
        expect(visitor.page.get_by_label("State")).to_have_value(Display.THINKING.value)
        expect(visitor.page.locator("#runs [data-item]")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_is_told_apart_without_any_colour(
    visit: Callable[..., Visitor], scene: Scene, scheme: str
) -> None:
    dana = visit(scene.dana)
    dana.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    dana.go("/patterns/")
    pills = [pill for pill in dana.page.evaluate(PILLS) if pill["words"]][: len(Display)]
    assert {pill["state"] for pill in pills} == {state.value for state in Display}
    assert len({pill["icon"] for pill in pills}) == len({pill["words"] for pill in pills}) == len(Display)
    assert [pill for pill in pills if pill["contrast"] < 4.5] == []


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("Europe/Berlin", r"02:50 .*2$", r"02:10 .*1$"),
        ("America/Chicago", r"07:50 PM CDT", r"08:10 PM CDT"),
        ("Asia/Kolkata", r"06:20 AM .*5:30", r"06:40 AM .*5:30"),
    ],
)
def test_an_hour_that_clocks_repeat_is_told_with_its_zone_and_lasts_as_long_as_it_did(
    visit: Callable[..., Visitor], scene: Scene, zone: str, before: str, after: str
) -> None:
    with clock_turned_to(datetime(2026, 10, 25, 0, 50, tzinfo=UTC)):
        run = queued_run(scene.repository, scene.bob)
    with clock_turned_to(datetime(2026, 10, 25, 1, 10, tzinfo=UTC)):
        by = auth.of_person(scene.bob).caller
        service.run_direct(run_id=run.pk, event=Ev.CANCEL_REQUESTED, reason="Not now.", by=by)
    bob = visit(scene.bob, zone=zone)
    bob.go(f"/runs/{run.pk}/?show=all")
    expect(bob.page.locator(".gap").last).to_contain_text("20 min")
    told = bob.page.locator(".timeline time[data-clock]")
    expect(told.first).to_have_text("00:50")
    bob.page.locator(".menu summary").click()
    bob.page.get_by_role("button", name="Local time").click()
    expect(told.first).to_have_text(re.compile(before))
    expect(told.last).to_have_text(re.compile(after))
