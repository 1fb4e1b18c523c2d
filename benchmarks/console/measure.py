"""Opens the console's pages in a browser, and takes times from its own clock and its trace."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks.report import Figure, Options, compare
from frazil.catalog.embedded import running_catalog
from tests.kit.browser import longest_task_ms, running_browser
from tests.kit.console_tables import add_tables, long_past, many_tables
from tools.own_server import own_server

PAINT_MS, FRAME_MS = 1000.0, 50.0
TRACED = ["disabled-by-default-devtools.timeline", "devtools.timeline"]
WAIT_MS = 60_000
# notes when the first row comes into the page; the clock starts with the navigation
FIRST_ROW = """new MutationObserver((_, watch) => {
  if (!document.querySelector(".grid-row")) return;
  window.firstRow = performance.now();
  watch.disconnect();
}).observe(document, { childList: true, subtree: true })"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SCROLL = """async steps => {
  const view = document.querySelector(".grid");
  for (let step = 0; step <= steps; step++) {
    view.scrollTop = (view.scrollHeight * step) / steps;
    await new Promise(requestAnimationFrame);
  }
}"""


@dataclass(frozen=True)
class Opening:
    """When an opened page of tables had something to see, and its first row."""

    paint_ms: float
    row_ms: float


def measure_all(options: Options) -> list[Figure]:
    """All figures."""
    tables, snapshots, starts = (500, 1_000, 2) if options.quick else (5_000, 10_000, 5)
    with tempfile.TemporaryDirectory() as name, running_browser() as browser:
        folder = Path(name)
        with running_catalog(folder) as server:
            add_tables(server, "many", many_tables(server, tables))
            add_tables(server, "past", long_past(server, "past", snapshots))
        cold, warm = open_tables(browser, folder, starts)
        with own_server(folder) as (address, _):
            tasks = longest_tasks(browser, address)
    figures = [*paints(f"{tables + 1:,} tables, cold", cold), *paints(f"{tables + 1:,} tables, warm", warm)]
    return figures + [
        _below(f"{snapshots:,} snapshots, {what}: longest task, ms", ms, FRAME_MS) for what, ms in tasks.items()
    ]


def paints(what: str, openings: list[Opening]) -> list[Figure]:
    """The medians with their goals, and the largest time until a row."""
    paint, row = ([getattr(each, name) for each in openings] for name in ("paint_ms", "row_ms"))
    return [
        _below(f"{what}: first contentful paint, ms", statistics.median(paint), PAINT_MS),
        _below(f"{what}: first row, ms", statistics.median(row), PAINT_MS),
        compare(f"{what}: first row, the latest of {len(row)}, ms", max(row)),
    ]


def _below(figure: str, ms: float, limit_ms: float) -> Figure:
    """A time that is not to be above a limit."""
    return compare(figure, ms, limit_ms, "the limit", goal=1.0, less_is_better=True)


def open_tables(browser: Browser, folder: Path, starts: int) -> tuple[list[Opening], list[Opening]]:
    """The first opening after each start of the server, and two later ones."""
    cold, warm = list[Opening](), list[Opening]()
    for _ in range(starts):
        with own_server(folder) as (address, _):
            cold.append(open_page(browser, address))
            warm += [open_page(browser, address) for _ in range(2)]
    return cold, warm


def open_page(browser: Browser, address: str) -> Opening:
    """Opens the page of tables in a browser that has nothing in its cache; returns when all lines are there."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    try:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(FIRST_ROW)
        page.goto(address)
        page.get_by_role("status").filter(has_text="·").wait_for()
        return Opening(page.evaluate(PAINTED), page.evaluate("window.firstRow"))
    finally:
        context.close()


def longest_tasks(browser: Browser, address: str) -> dict[str, float]:
    """The longest task of the main thread for each thing that one does with the graph."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{address}/#/table/default/past/past/overview")
    page.get_by_role("heading", name="Upkeep").wait_for()
    steps: dict[str, Callable[[Page], None]] = {
        "opened": _open,
        "scrolled": lambda page: page.evaluate(SCROLL, 120),
        "chosen": _choose,
        "compared": _compare,
    }
    tasks = dict[str, float]()
    for what, do in steps.items():
        browser.start_tracing(page=page, categories=TRACED)
        do(page)
        page.evaluate("() => new Promise(requestAnimationFrame)")  # what follows is painted, too
        tasks[what] = longest_task_ms(json.loads(browser.stop_tracing())["traceEvents"])
    page.close()
    return tasks


def _open(page: Page) -> None:
    page.get_by_role("link", name="Snapshots").click()
    page.locator(".grid-row").first.wait_for()


def _choose(page: Page) -> None:
    page.locator(".grid").focus()
    for key in ("Home", *["ArrowDown"] * 20, "PageDown", "Enter"):
        page.keyboard.press(key)


def _compare(page: Page) -> None:
    page.keyboard.press("End")
    page.keyboard.press("Space")
    page.get_by_role("heading", name="Compare").wait_for()
