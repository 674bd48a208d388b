"""The system's Chromium under Playwright, and an explorer in it that is watched: errors, outside requests, time."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
#: Where screenshots are kept to be looked at; without it they go to the test's own folder.
SCREENSHOTS = os.environ.get("AGENT_PARETO_SCREENSHOTS")


def needs_chromium() -> None:
    """Skips the test where there is no browser."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: on Debian and Ubuntu, apt-get install chromium")


class _Quiet(SimpleHTTPRequestHandler):
    """A static file server that knows nothing of the explorer."""

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder behind Python's own file server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; downloads nothing."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page of the explorer at ``address``, and what it did that it should not have done."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, hash_: str = "") -> None:
        """Loads the explorer anew and waits for its first chart."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/{hash_}")
        self.page.wait_for_selector("body[data-ready]")

    def js(self, expression: str) -> Any:
        """The value of an expression over ``explorer``, what the page shows now."""
        return self.page.evaluate(expression)

    def after(self, change: Callable[[], object]) -> None:
        """Makes a change and waits until the page shows it."""
        before = self.js("document.body.dataset.ready")
        change()
        self.page.wait_for_function("before => document.body.dataset.ready !== before", arg=before)

    def set_slider(self, name: str, value: float) -> None:
        """Moves a slider as a hand does."""
        move = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})) }"
        self.after(lambda: self.page.locator(f"#{name}").evaluate(move, value))

    def drawn(self, layer: str) -> list[dict[str, Any]]:
        """What Vega holds of a layer of the main chart: its coordinates and its series."""
        return list(self.js(f"explorer.chart.view.data('{layer}').map(({{x, y, series}}) => ({{x, y, series}}))"))


@contextmanager
def watched_page(browser: Browser, address: str, width: int = 1280, dark: bool = False) -> Iterator[Watched]:
    """A fresh page; nothing is cached."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    watched = Watched(context.new_page(), address)
    watched.page.on("console", lambda message: watched.complaints.append(f"{message.type}: {message.text}"))
    watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    own = (f"{address}/", "data:", "blob:", "about:")
    watched.page.on(
        "request", lambda request: None if request.url.startswith(own) else watched.outside.append(request.url)
    )
    try:
        yield watched
    finally:
        context.close()


def screenshot(watched: Watched, name: str, folder: Path) -> Path:
    """The whole page as a PNG."""
    path = Path(SCREENSHOTS or folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    watched.page.screenshot(path=path, full_page=True)
    return path
