"""Takes the README's pictures of the running product: `.venv/bin/python docs/make_pictures.py`.

Starts everything with demonstration data, in a temporary data folder and on a free port, waits until the
worker has brought a patch to its review, and stops all of it again. Needs Chromium on the path.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
#: Of the demonstration: who signs in, what waits for a review, and what failed its checks before it passed.
REVIEWER = "rita"
REVIEWED = "Write headings with f-strings"
REPAIRED = "Rename pad to zero_padded"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
#: The worker takes the demonstration's tasks one by one.
PATIENCE_MS = 180_000
LARGEST_BYTES = 200_000


def main() -> None:
    """Both pictures, or an error that says what is missing."""
    PICTURES.mkdir(exist_ok=True)
    with _product() as address, _window(address) as page:
        page.goto("/approvals/")
        page.get_by_role("button", name=REVIEWER, exact=True).click()
        _open(page, REVIEWED)
        expect(page.locator("#verdict")).to_be_visible()
        _take(page, "review")
        page.goto("/runs/?display=completed")
        _open(page, REPAIRED)
        expect(page.get_by_text("the agent repaired it").first).to_be_visible()
        _take(page, "run")


def _open(page: Page, title: str) -> None:
    """The list refreshes itself until the worker has come so far."""
    page.get_by_role("link", name=title).click(timeout=PATIENCE_MS)


@contextlib.contextmanager
def _product() -> Iterator[str]:
    """The product's address, once it is ready."""
    address = f"http://127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+") as log:
        command = [sys.executable, "manage.py", "up", "--port", address.rpartition(":")[2]]
        settings = {**os.environ, "AGENTPLATFORM_DATA_DIR": folder}
        with subprocess.Popen(command, cwd=ROOT, env=settings, stdout=log, stderr=log) as product:
            try:
                while not _is_ready(address):
                    if product.poll() is not None:
                        log.seek(0)
                        sys.exit(f"The product did not start:\n{log.read()}")
                    time.sleep(0.5)
                yield address
            finally:
                product.send_signal(signal.SIGTERM)


def _is_ready(address: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{address}/readyz", trust_env=False, timeout=10).is_success
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _window(address: str) -> Iterator[Page]:
    path = shutil.which("chromium") or sys.exit("Chromium is needed: install the package `chromium`.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(
            base_url=address,
            viewport={"width": 1280, "height": 800},
            color_scheme="light",
            reduced_motion="reduce",
        )
        yield page
        browser.close()


def _take(page: Page, name: str) -> None:
    picture = PICTURES / f"{name}.png"
    page.screenshot(path=picture)
    size = picture.stat().st_size
    if size > LARGEST_BYTES:
        sys.exit(f"{picture} has {size} bytes, more than {LARGEST_BYTES}.")
    print(f"{picture.relative_to(ROOT)}: {size} bytes")


if __name__ == "__main__":
    main()
