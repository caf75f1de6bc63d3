"""A real browser for tests: Chromium, headless, without a network, and told on if it tries to leave.

Mark what uses the fixture `browser` with ``pytest.mark.xdist_group("browser")``, so that there is one. `opened` gives a
page that records what went wrong in it; at the end of its block nothing may have. Conditions to wait for are written as
functions, ``() => ...``: our content policy allows no text to be evaluated, not even by tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1280, 900), (390, 844)


def executable() -> str | None:
    """Where Chromium is, if it is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    found = executable()
    assert found is not None
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=list(FLAGS), timeout=180_000)
        try:
            yield started
        finally:
            started.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of all tests in one process."""
    pytest.importorskip("playwright", reason="no Playwright to drive a browser with")
    if executable() is None and not os.environ.get("CI"):  # in CI they fail: `make test` installs it
        pytest.skip("no Chromium to open pages with; `apt-get install chromium`")
    with chromium() as made:
        yield made


@dataclass
class Tab:
    """A page, and all that should not happen in it."""

    page: Page
    left: list[str] = field(default_factory=list)  # requests to anywhere else
    errors: list[str] = field(default_factory=list)  # on the console, or uncaught
    dialogs: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser,
    address: str,
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
    server: str | None = None,
    **options: Any,
) -> Iterator[Tab]:
    """Open an address in a context of its own; only files, data and the server under test can be reached."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light", **options
    )
    try:
        context.set_default_timeout(180_000)
        tab = Tab(context.new_page())

        def guard(route: Route, request: Request) -> None:
            inside = urlsplit(request.url).scheme in ("file", "data", "blob", "about")
            if inside or (server is not None and request.url.startswith(server)):
                route.continue_()
            else:
                tab.left.append(request.url)
                route.abort()

        context.route("**/*", guard)
        tab.page.on("console", lambda m: tab.errors.append(m.text) if m.type in ("error", "warning") else None)
        tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))

        def dismiss(dialog: Any) -> None:
            tab.dialogs.append(dialog.message)
            dialog.dismiss()

        tab.page.on("dialog", dismiss)
        tab.page.goto(address)
        yield tab
        assert (tab.left, tab.errors, tab.dialogs) == ([], [], [])
    finally:
        context.close()


def accessibility_problems(tab: Tab) -> list[str]:
    """What axe-core finds that is serious or critical: the rule and the elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab.page).response["violations"]
    return [
        f"{problem['id']}: {[node['html'][:200] for node in problem['nodes'][:3]]}"
        for problem in found
        if problem["impact"] in ("serious", "critical")
    ]


def scrolls_sideways(tab: Tab) -> bool:
    """Whether the page is wider than the window."""
    return bool(tab.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
