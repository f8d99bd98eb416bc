"""A person at a browser window: what they do, what they may meet, and what must not go wrong meanwhile."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from axe_playwright_python.base import AXE_SCRIPT
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Response, ViewportSize, expect

from runs.models import Person

SERIOUS = {"serious", "critical"}
MOST_STOPS = 80

#: Reports what the policy refuses as a console error, which `Visitor` collects.
REPORT_VIOLATIONS = """
document.addEventListener('securitypolicyviolation',
  (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ZOOM_FINDINGS = """() => {
  const found = [], wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) found.push(`${wide} px wider than the window`);
  const stuck = [...document.querySelectorAll('body *')].filter((element) => {
    const style = getComputedStyle(element);
    return ['sticky', 'fixed'].includes(style.position) && element.checkVisibility();
  });
  for (const element of stuck)
    if (element.getBoundingClientRect().height > innerHeight / 2)
      found.push(`${element.className} hides the page`);
  return found;
}"""
#: Whether the focused element is seen: it has an outline, and some of it lies under nothing.
FOCUS = """() => {
  const element = document.activeElement, box = element.getBoundingClientRect();
  const outline = [element, element.parentElement].some((candidate) => {
    const style = getComputedStyle(candidate);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  });
  const x = box.x + Math.min(box.width, innerWidth) / 2;
  const free = [box.top + 3, box.top + box.height / 2, box.bottom - 3].some((y) => {
    const top = document.elementFromPoint(x, y);
    return top && (element.contains(top) || top.contains(element));
  });
  return {outline, free, html: element.outerHTML.slice(0, 300)};
}"""


@dataclass(frozen=True)
class Look:
    """How a window looks: colour scheme and size."""

    scheme: Literal["light", "dark"] = "light"
    width: int = 1280

    def __str__(self) -> str:
        return f"{self.scheme}-{self.width}"


#: A window of 1280 by 800 at a zoom of 200 %.
ZOOMED: ViewportSize = {"width": 640, "height": 400}
LOOKS = [Look(scheme, width) for width in (1280, 390) for scheme in ("light", "dark")]


@dataclass
class Visitor:
    """A window of its own profile. ``problems`` holds console errors and refusals of the content policy."""

    context: BrowserContext
    page: Page
    server: str
    look: Look = Look()
    problems: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    @classmethod
    def arrive(
        cls,
        browser: Browser,
        server: str,
        person: Person | None = None,
        *,
        look: Look = Look(),
        script: bool = True,
        zone: str = "",
    ) -> Visitor:
        """Opens a window, signed in as ``person`` unless it is a stranger's; ``zone`` as "Europe/Berlin"."""
        context = browser.new_context(
            base_url=server,
            viewport={"width": look.width, "height": 800},
            color_scheme=look.scheme,
            reduced_motion="reduce",
            java_script_enabled=script,
            timezone_id=zone or None,
        )
        context.set_default_timeout(10_000)
        context.add_init_script(REPORT_VIOLATIONS)
        visitor = cls(context, context.new_page(), server, look)
        visitor.watch(visitor.page)
        if person is not None:
            visitor.sign_in(person)
        return visitor

    def sign_in(self, person: Person) -> None:
        """A session as signing in leaves it; the sign-in page has tests of its own."""
        client = Client()
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        name = settings.SESSION_COOKIE_NAME
        self.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": self.server}])

    def watch(self, page: Page) -> None:
        """Collect what goes wrong in a page."""
        page.on("console", lambda said: self._heard(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self._heard(str(error)))

    def _heard(self, text: str) -> None:
        if not any(re.search(pattern, text) for pattern in self.allowed):
            self.problems.append(f"{self.page.url}: {text}")

    def allow(self, pattern: str) -> None:
        """From now on an error like this is part of the story, such as the browser's note of a 409."""
        self.allowed.append(pattern)

    # --- moving ---------------------------------------------------------------------------------

    def go(self, path: str) -> Response:
        """Open an address of the product."""
        answer = self.page.goto(path)
        assert answer is not None
        return answer

    def press(self, *keys: str) -> None:
        """One key after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type where the focus is."""
        self.page.keyboard.type(text)

    def tab_to(self, target: Locator, *, key: str = "Tab") -> None:
        """Tab until ``target`` has the focus; each stop on the way must be visible.

        ``key``: "Shift+Tab" goes back.
        """
        handle = target.element_handle()
        assert handle is not None
        for _ in range(MOST_STOPS):
            self.press(key)
            stop = self.page.evaluate(FOCUS)
            assert stop["outline"], f"the focus is not seen: {stop['html']}"
            assert stop["free"], f"something lies over the focus: {stop['html']}"
            if handle.evaluate("(element) => element === document.activeElement"):
                return
        raise AssertionError(f"{target} is not reached by {MOST_STOPS} tabs")

    # --- looking --------------------------------------------------------------------------------

    def sees(self, text: str | re.Pattern[str]) -> None:
        """Waits until the text is visible."""
        expect(self.page.get_by_text(text).first).to_be_visible()

    def wear(self, look: Look) -> None:
        """Another scheme and width, without a reload."""
        self.page.emulate_media(color_scheme=look.scheme)
        self.page.set_viewport_size({"width": look.width, "height": 800})

    def findings(self, *, colours_only: bool = False) -> list[str]:
        """What axe finds serious or critical, and a page wider than its window.

        ``colours_only`` is for a second scheme of the same page: nothing else differs there.
        """
        rules = {"runOnly": ["color-contrast"]} if colours_only else {}
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        answer = self.page.evaluate("(options) => axe.run(options)", {"resultTypes": ["violations"], **rules})
        found = [
            f"{rule['id']}: {', '.join(str(node['target'][0]) for node in rule['nodes'][:3])}"
            for rule in answer["violations"]
            if rule["impact"] in SERIOUS
        ]
        wide = self.page.evaluate(OVERFLOW)
        return [*found, *([f"{wide} px wider than the window"] if wide > 0 else [])]

    def lost_when_zoomed(self) -> list[str]:
        """What keeps a page from being used at a zoom of 200 %: it is wider, or what sticks hides it."""
        self.page.set_viewport_size(ZOOMED)
        return list(self.page.evaluate(ZOOM_FINDINGS))
