"""A real Chromium for the tests of the console, and what every page of it must hold to."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.kit.browser_download import fetched_chromium

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_chromium() -> tuple[str, dict[str, str]]:
    """The browser of this machine, or one that is fetched into the cache; and what it needs in its environment."""
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    if on_path is not None:
        return on_path, {}
    executable, environment = fetched_chromium()
    return str(executable), environment


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser without a window."""
    executable, environment = find_chromium()
    with sync_playwright() as playwright:
        # no sandbox: it needs rights that containers do not have
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(
            executable_path=executable, args=arguments, env={**os.environ, **environment}
        )
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page that notes what it must not do: errors in its console, requests to other hosts."""

    def __init__(self, context: BrowserContext, uri: str) -> None:
        self.uri, self.page = uri, context.new_page()
        self.faults: list[str] = []
        self.host = urlsplit(uri).netloc
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        context.on("request", lambda request: self._check(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")

    def _check(self, url: str) -> None:
        if urlsplit(url).netloc != self.host and url != "about:blank":
            self.faults.append(f"request to {url}")

    def open(self, address: str = "") -> Page:
        """Opens the console at an address (what follows #). From a blank page: a new address alone loads nothing."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.uri}/{f'#/{address}' if address else ''}")
        return self.page


def grid_rows(page: Page) -> list[list[str]]:
    """The text of each row in sight, cell by cell."""
    rows: list[list[str]] = page.eval_on_selector_all(
        ".grid-row", "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    return rows


def axe_violations(page: Page) -> list[str]:
    """What axe finds that is serious: rules, with the first elements that break them."""
    package = importlib.util.find_spec("axe_playwright_python")
    assert package is not None, "axe-playwright-python is a development dependency"
    assert package.submodule_search_locations is not None
    page.evaluate(Path(package.submodule_search_locations[0], "axe.min.js").read_text(encoding="utf-8"))
    results: list[dict[str, Any]] = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{each['id']}: {json.dumps([node['html'][:200] for node in each['nodes'][:3]])}"
        for each in results
        if each["impact"] in ("serious", "critical")
    ]


def longest_task_ms(events: list[dict[str, Any]]) -> float:
    """The longest task of the page's main thread in time of the processor: other work on the machine does not count."""
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event.get("tdur", 0) / 1000
        for event in events
        if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in mains
    ]
    assert tasks, "the trace has tasks"
    return max(tasks)
