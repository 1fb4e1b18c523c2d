"""The SQL page in a real browser: queries, their results in every view, completion, time travel, cancel."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from playwright.sync_api import Page

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.lake import MARKUP
from tests.kit.browser import Watched, axe_violations, grid_rows

QUERY = "SELECT buyer, count(*) AS orders FROM shop.sales WHERE order_id < 'o-000100' GROUP BY ALL ORDER BY buyer"
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(1000000) b"


@pytest.fixture
def sql(lake: EmbeddedCatalog, watch: OpenPage) -> Watched:
    """The page, with a process for queries that has started."""
    watched = watch(lake.uri)
    watched.page.set_default_timeout(120_000)
    with watched.page.expect_response("**/query/prepare"):
        page = watched.open("sql/default")
    page.get_by_label("SQL", exact=True).wait_for()
    return watched


def run(page: Page, text: str, *, status: str) -> None:
    page.get_by_label("SQL", exact=True).fill(text)
    page.keyboard.press("Control+Enter")
    page.get_by_role("status").filter(has_text=status).wait_for()


def commandline(options: str) -> str:
    """The command of the query."""
    return f"frazil query {shlex.quote(QUERY)} {options}".replace("'\"'\"'", "'\\''")


def test_a_query_is_shown_as_rows_as_a_chart_and_by_its_scans(sql: Watched, tmp_path: Path) -> None:
    page = sql.page
    run(page, QUERY, status="4 rows")
    assert grid_rows(page)[:2] == [[MARKUP, "25"], ["Ada", "25"]]
    assert page.evaluate("window.hit") is None
    page.get_by_role("button", name="Chart", exact=True).click()
    page.locator(".chart canvas").wait_for()
    page.get_by_label("Split by").select_option("buyer")
    page.locator(".u-legend .u-label", has_text=MARKUP).wait_for()
    page.get_by_role("button", name="Scans", exact=True).click()
    assert "6 skipped by order_id < 'o-000100'" in page.locator(".funnel").inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text().splitlines()[0] == "buyer,orders"
    assert page.locator(".sql-line code").inner_text() == commandline("--output csv")
    page.get_by_label("Rows at most").select_option("100 rows")
    assert page.locator(".sql-line code").inner_text().startswith("frazil query 'SELECT buyer")
    assert page.locator(".sql-line code").inner_text() == commandline("--limit 100")


def test_names_are_completed_and_what_was_run_is_kept(sql: Watched) -> None:
    page = sql.page
    field = page.get_by_label("SQL", exact=True)
    with page.expect_response("**/tables/sales"):
        field.fill("SELECT 1 FROM shop.sales WHERE ")
    page.keyboard.press("End")
    field.press_sequentially("orde")
    page.get_by_role("option", name="order_id").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.type(" = 'o-000001'")
    page.keyboard.press("Control+Enter")
    page.get_by_role("status").filter(has_text="1 row,").wait_for()
    assert field.input_value() == "SELECT 1 FROM shop.sales WHERE order_id = 'o-000001'"
    page.reload()
    page.locator(".sql-history li button").click()
    assert field.input_value().endswith("= 'o-000001'")
    page.get_by_role("button", name="Forget all").click()
    page.get_by_text("are kept here").wait_for()


def test_columns_that_come_late_complete_what_has_been_typed(sql: Watched) -> None:
    page, held = sql.page, []
    page.route("**/tables/sales", lambda route: held.append(route))
    field = page.get_by_label("SQL", exact=True)
    with page.expect_request("**/tables/sales"):
        field.fill("SELECT 1 FROM shop.sales WHERE ")
    page.keyboard.press("End")
    field.press_sequentially("order_i")
    held.pop().continue_()
    page.get_by_role("option", name="order_id").wait_for()


def test_the_slider_travels_in_time(sql: Watched) -> None:
    page = sql.page
    run(page, "SELECT count(*) AS orders FROM shop.sales", status="1 row")
    assert grid_rows(page) == [["650"]]
    page.get_by_label("As of").focus()
    with page.expect_response("**/default/query"):
        page.keyboard.press("Home")
    page.get_by_role("gridcell", name="100", exact=True).wait_for()
    assert "FROM shop.sales AT (VERSION => " in page.get_by_label("SQL", exact=True).input_value()
    with page.expect_response("**/default/query"):
        page.keyboard.press("End")
    page.get_by_role("gridcell", name="650", exact=True).wait_for()
    assert page.get_by_label("SQL", exact=True).input_value() == "SELECT count(*) AS orders FROM shop.sales"


def test_an_error_is_marked_in_the_text_and_a_query_can_be_cancelled(sql: Watched) -> None:
    page = sql.page
    page.get_by_label("SQL", exact=True).fill("SELECT nothing FROM shop.sales")
    page.keyboard.press("Control+Enter")
    page.get_by_role("alert").filter(has_text="nothing").wait_for()
    assert page.evaluate("getSelection().toString()") == "nothing"
    sql.faults = [fault for fault in sql.faults if "400" not in fault]  # the browser's own note
    page.get_by_label("SQL", exact=True).fill(ENDLESS)
    with page.expect_request("**/default/query"):
        page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("status").filter(has_text="Cancelled").wait_for()


def test_axe_finds_nothing_serious(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    for scheme in ("light", "dark"):
        watched = watch(lake.uri, color_scheme=scheme)
        page = watched.open("sql/default")
        page.set_default_timeout(120_000)
        run(page, QUERY, status="4 rows")
        page.get_by_role("button", name="Vector search").click()
        page.get_by_text("no column of vectors").wait_for()
        for view in ("Rows", "Chart", "Scans", "History"):
            page.get_by_role("button", name=view, exact=True).click()
            assert axe_violations(page) == []


def test_a_table_opens_in_sql_as_of_a_snapshot(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    snapshot = FrazilCatalog("lake", **lake.properties).load_table(("shop", "sales")).metadata.snapshots[0].snapshot_id
    page = watch(lake.uri).open(f"table/default/shop/sales/rows/{snapshot}")
    page.get_by_role("link", name="Open in SQL").click()
    page.get_by_label("SQL", exact=True).wait_for()
    text = f"SELECT *\nFROM shop.sales AT (VERSION => {snapshot})\nLIMIT 100"
    assert page.get_by_label("SQL", exact=True).input_value() == text
