"""The page of a table in a real browser: each tab on real data, and a past of ten thousand snapshots."""

from __future__ import annotations

import json
import shlex

import click
import pytest
from playwright.sync_api import Browser, Page

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.lake import LONG, MARKUP, RIGHT_TO_LEFT
from tests.kit.browser import axe_violations, grid_rows, longest_task_ms
from tests.kit.console_tables import add_tables, long_past

TABS = (
    "overview",
    "columns",
    "snapshots",
    "rows",
    "files",
    "partitions",
    "metadata",
    "indexes",
    "quarantine",
    "properties",
)
SALES = "table/default/shop/sales"
FRAME_MS = 50


def cells(page: Page, selector: str) -> list[list[str]]:
    rows: list[list[str]] = page.eval_on_selector_all(
        selector, "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    return rows


def test_a_line_of_the_list_opens_the_table(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.locator(".grid-row", has_text="shop.sales").click()
    page.locator("h1", has_text="sales").wait_for()
    page.get_by_text("One row for each order.").wait_for()
    assert dict(cells(page, ".facts > div"))["Rows"] == "650"
    page.keyboard.press("]")
    page.get_by_text("History of the schema").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("4 tables").wait_for()


def test_columns_have_field_ids_and_a_history(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open(f"{SALES}/columns")
    page.get_by_text("History of the schema").wait_for()
    columns = cells(page, ".plain tbody tr")
    assert columns[1][:3] == ["2", "buyer", "string"]
    assert columns[-1] == ["7", "channel", "string", "", "", f"web or shop {MARKUP}"]
    assert cells(page, ".history > li:first-child ul li") == [
        ["renamed", "buyer", "customer → buyer", "id 2"],
        ["added", "channel", "string", "id 7"],
    ]


def test_rows_are_those_of_the_snapshot_with_its_columns(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    table = FrazilCatalog("lake", **lake.properties).load_table(("shop", "sales"))
    first = table.metadata.snapshots[0].snapshot_id
    page = watch(lake.uri).open(f"{SALES}/rows/{first}")
    page.get_by_text("As of snapshot").wait_for()
    assert [text.partition("string")[0] for text in page.locator(".cells th").all_text_contents()[:2]] == [
        "order_id",
        "customer",
    ]
    rows = cells(page, ".cells tbody tr")
    assert len(rows) == 100
    assert rows[2] == ["o-000002", MARKUP, "0.02", "2026-01-01 00:02:00+00:00", '["ice", "snow"]']
    assert rows[3][1] == RIGHT_TO_LEFT
    page.get_by_text("Show them as they are now").click()
    page.locator(".cells th", has_text="channel").wait_for()
    assert page.evaluate("window.hit") is None


def test_long_and_hostile_values_are_text(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    page.locator(".grid-row", has_text="img src").click()
    page.locator("h1", has_text="img src").wait_for()
    for tab in ("Properties", "Quarantine", "Indexes", "Metadata", "Partitions", "Files", "Rows"):
        page.keyboard.press("[")
        page.locator(".tabs a[aria-current=page]", has_text=tab).wait_for()
        page.locator(".tab-body > :not(.loading)").first.wait_for()
    page.locator(".cells tbody tr").nth(2).wait_for()
    values = [row[1] for row in cells(page, ".cells tbody tr")]
    assert values[0] == MARKUP
    assert values[1].startswith("xxxx")
    assert len(values[1]) < 300
    assert values[2] == "null"
    assert "frazil query" in page.locator(".command code").first.text_content()  # type: ignore[operator]
    page.goto(f"{lake.uri}/#/{SALES}/properties")
    page.get_by_role("heading", name="properties").wait_for()
    values = dict(cells(page, ".plain tbody tr"))
    assert values["comment"] == f"One row for each order. {MARKUP}"
    assert LONG in values["owner"]
    assert page.evaluate("window.hit") is None


def test_files_are_counted_by_size_from_manifests(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open(f"{SALES}/files")
    page.get_by_text("Files by size").wait_for()
    assert cells(page, ".histogram tbody tr")[0][:3:2] == ["below 64 kiB", "7"]
    assert page.locator(".hist rect").first.evaluate("rect => rect.getBoundingClientRect().width") > 100
    assert page.get_by_text("7 files of").count() == 1


def test_snapshots_are_a_graph_of_which_two_can_be_compared(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open(f"{SALES}/snapshots")
    page.locator(".grid-row").nth(7).wait_for()
    rows = grid_rows(page)
    assert [row[1] for row in rows[:2]] == ["appendmain", "appendaudit"]
    assert rows[0][2:5] == ["+50", "650", "7"]
    assert page.locator(".graph circle").count() == 8
    assert page.locator(".graph .lane.c1").count() > 0, "the branch has a lane of its own"
    page.locator(".grid").focus()
    page.keyboard.press("End")
    page.keyboard.press("Space")
    page.get_by_role("heading", name="Compare").wait_for()
    assert cells(page, ".compare tbody tr")[0] == ["Rows", "100", "650", "+550"]
    assert page.get_by_text("6 commits apart").count() == 1
    assert page.get_by_text("Schema 0 became schema 1.").count() == 1


def test_ten_thousand_snapshots_scroll_without_a_frame_over_50_ms(
    server: EmbeddedCatalog, watch: OpenPage, browser: Browser
) -> None:
    add_tables(server, "many", long_past(server, "past", 10_000))
    page = watch(server.uri).open("table/default/many/past/overview")
    page.get_by_role("heading", name="Upkeep").wait_for()
    browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline", "devtools.timeline"])
    page.get_by_role("link", name="Snapshots").click()
    page.locator(".grid-row").first.wait_for()
    page.evaluate(
        """async () => {
          const view = document.querySelector(".grid");
          for (let step = 0; step < 60; step++) {
            view.scrollTop = step * 6000;
            await new Promise(requestAnimationFrame);
          }
        }"""
    )
    trace = json.loads(browser.stop_tracing())
    assert page.locator(".grid-row").count() < 60, "only rows in sight are elements"
    assert longest_task_ms(trace["traceEvents"]) < FRAME_MS
    page.locator(".grid").focus()
    page.keyboard.press("End")
    assert grid_rows(page)[-1][3] == "1,000"


def test_every_command_that_a_page_names_can_be_typed(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    watched = watch(lake.uri)
    watched.page.set_default_timeout(180_000)  # a process starts to read the quarantine
    commands: set[str] = set()
    pages = [f"{page}/default" for page in ("connect", "sql", "upkeep", "access", "audit", "plan", "pipelines")]
    pages += ["access/default/roles", "access/default/who-can", "audit/default?decision=allowed&age=86400"]
    for address in ("", *(f"{SALES}/{tab}" for tab in TABS), *pages):
        page = watched.open(address)
        shown = ".side-panel .command code" if address.startswith("upkeep") else ".command code"
        page.locator(f"{shown}, .tab-body > :not(.loading)").first.wait_for()  # one tab has no command here
        commands.update(page.locator(".command:not(.setting) code").all_text_contents())
    assert {"frazil token list", "frazil role list", "frazil who-can read", "frazil upkeep status"} < commands
    assert "frazil audit-log --decision=allowed --since=24h" in commands
    assert any(command.startswith("frazil query ") and command.endswith(" --limit 1000") for command in commands)
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "frazil"
        parse(cli, words)


def parse(command: click.Command, words: list[str]) -> None:
    """Passes when a command line has a command that there is, with its options and arguments."""
    while isinstance(command, click.Group):
        name, *words = words
        command = command.get_command(click.Context(command), name)  # type: ignore[assignment]
        assert command is not None, name
    command.make_context(command.name, words).close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_tab(lake: EmbeddedCatalog, watch: OpenPage, scheme: str) -> None:
    watched = watch(lake.uri, color_scheme=scheme)
    for tab in TABS:
        watched.page.set_default_timeout(180_000)  # a process starts to read the quarantine
        page = watched.open(f"{SALES}/{tab}")
        page.locator(".tab-body > :not(.loading)").first.wait_for()
        assert axe_violations(page) == [], tab


def test_connect_has_the_text_of_every_engine(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open("connect/default/spark")
    page.get_by_text("spark.sql.catalog.lake.uri").wait_for()
    assert lake.uri in page.locator("pre").text_content()  # type: ignore[operator]
    page.get_by_role("button", name="PyIceberg").click()
    page.get_by_text("frazil connect pyiceberg").wait_for()
    assert axe_violations(page) == []


def test_a_table_that_there_is_not_is_said(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    watched = watch(lake.uri)
    page = watched.open("table/default/shop/nothing")
    page.get_by_text("Not found").wait_for()
    assert page.get_by_role("alert").get_by_text("shop.nothing").count() == 1
    watched.faults = [fault for fault in watched.faults if "404" not in fault]  # the browser's own note
