"""Chromium, and people who sit in front of it.

Pages are driven from the test's own thread, where Playwright keeps an event loop. Django would refuse its ORM
there, so it is told that this thread is safe: nothing else runs on the loop while a test uses the database.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.browser.scenes import Scene
from tests.browser.visitor import Visitor

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests; each visitor gets a profile of its own."""
    path = shutil.which("chromium")
    assert path, "Chromium is needed: install the package `chromium`"
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser, live_server: LiveServer) -> Iterator[Callable[..., Visitor]]:
    """Opens a browser window; see `Visitor.arrive`. Each must leave without an error in its console."""
    visitors: list[Visitor] = []

    def arrive(*args, **options) -> Visitor:
        visitors.append(Visitor.arrive(chromium, live_server.url, *args, **options))
        return visitors[-1]

    yield arrive
    for visitor in visitors:
        visitor.context.close()  # before the tables are put back: nobody may still be asking
    assert [visitor.problems for visitor in visitors] == [[] for _ in visitors]


@pytest.fixture
def scene(chromium: Browser, transactional_db: None) -> Scene:
    """The people of these tests and their repository."""
    return Scene.make()
