"""A real Chromium (`apt-get install chromium`) to look at pages with, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, sync_playwright

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WIDE, PHONE = (1440, 1120), (390, 844)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, closed afterwards."""
    if not PATH:
        raise FileNotFoundError("no Chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def context(browser: Browser, size: tuple[int, int] = WIDE, scale: float = 1.5, dark: bool = False) -> BrowserContext:
    """A fresh window: its size in pixels of the page, how many of the screen are one of these, and its colours."""
    return browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        device_scale_factor=scale,
        color_scheme="dark" if dark else "light",
        has_touch=size == PHONE,
    )
