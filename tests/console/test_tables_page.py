"""The tables page in a real browser: lines that follow from metadata, and ways to find one of thousands."""

from __future__ import annotations

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.lake import MARKUP, RIGHT_TO_LEFT
from tests.kit.browser import axe_violations, grid_rows
from tests.kit.console_tables import add_tables, many_tables


def test_every_table_is_a_line_with_what_its_metadata_says(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    table = FrazilCatalog("lake", **lake.properties).load_table(("shop", "sales"))
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    (line,) = [row for row in grid_rows(page) if row[0] == "shop.sales"]
    assert line[2] == summary["total-records"] == "650"  # type: ignore[index]
    assert line[4] == summary["total-data-files"] == "7"  # type: ignore[index]
    assert line[1].startswith("Due3 quarantined rows, 7 small files per partition")
    assert line[-1].endswith(("just now", "min ago"))


def test_names_that_are_markup_are_text(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    names = [row[0] for row in grid_rows(page)]
    assert f"shop.{MARKUP}" in names
    assert f"shop.{RIGHT_TO_LEFT}" in names
    assert page.evaluate("window.hit") is None
    assert page.locator(".grid img").count() == 0


def test_search_filters_and_order_are_kept_in_the_address(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("sal")
    assert [row[0] for row in grid_rows(page)] == ["shop.sales"]
    page.get_by_role("button", name="Companions").click()
    page.get_by_role("button", name="Rows", exact=True).click()
    assert [row[0] for row in grid_rows(page)] == ["shop.sales", "shop.sales__quarantine"]
    assert page.url.endswith("#/tables/default?q=sal&companions=&sort=-rows")
    page.reload()
    page.get_by_text("2 tables").wait_for()
    assert [row[0] for row in grid_rows(page)] == ["shop.sales", "shop.sales__quarantine"]


def test_the_keyboard_reaches_everything(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator(".grid-row[aria-selected=true]").text_content().startswith("shop.empty")  # type: ignore[union-attr]
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("empty")
    assert page.get_by_role("option").all_text_contents() == ["shop.emptytable"]
    page.keyboard.press("Escape")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_tables_are_sorted_and_one_is_opened_without_a_mouse(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Rows":
            break
    page.keyboard.press("Enter")
    assert page.locator(".grid-row").first.text_content().startswith("shop.sales")  # type: ignore[union-attr]
    assert page.evaluate("document.activeElement.textContent") == "Rows", "the focus stays where it was"
    page.keyboard.press("Enter")
    assert page.locator(".grid-row").first.text_content().startswith("shop.empty")  # type: ignore[union-attr]
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="sales", exact=True).wait_for()


def test_a_table_is_found_by_its_name_where_no_list_was_loaded(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open("connect/default")
    page.get_by_role("heading", name="Connect").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("sales")
    page.get_by_role("option").filter(has_text="shop.salestable").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="sales", exact=True).wait_for()


def test_every_page_has_a_key(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open()
    page.get_by_text("4 tables").wait_for()
    links = page.locator(".nav-main a").all_inner_texts()
    page.keyboard.press("?")
    rows = page.get_by_role("dialog", name="Keys").get_by_role("row").all_inner_texts()
    page.keyboard.press("Escape")
    keys = dict(reversed(row.split("\t")) for row in rows if row.startswith("g "))
    assert list(keys) == links
    for title, key in keys.items():
        page.locator("main").focus()  # an editor has taken the keyboard
        page.keyboard.press("g")
        page.keyboard.press(key[-1])
        page.get_by_role("heading", level=1, name=title, exact=True).wait_for()


def test_of_five_thousand_tables_only_those_in_sight_are_elements(server: EmbeddedCatalog, watch: OpenPage) -> None:
    add_tables(server, "many", many_tables(server, 5_000))
    page = watch(server.uri).open()
    page.get_by_text("5,000 tables").wait_for()
    assert page.locator(".grid-row").count() < 60
    page.locator(".grid").focus()
    page.keyboard.press("End")
    assert grid_rows(page)[-1][0] == "many.table_04999"


def test_a_new_lake_says_what_to_do(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open()
    page.get_by_text("There are no tables yet.").wait_for()
    assert page.get_by_text("frazil apply").count() == 1


def test_a_table_that_cannot_be_read_says_why(server: EmbeddedCatalog, watch: OpenPage) -> None:
    tables = list(many_tables(server, 2))
    add_tables(server, "many", iter(tables))
    (server.folder / "warehouse/many/table_00000/metadata/00000-a.metadata.json").unlink()
    page = watch(server.uri).open()
    page.get_by_text("2 tables").wait_for()
    assert [row[1][:5] for row in grid_rows(page)] == ["Error", "Fine"]


def test_axe_finds_nothing_serious(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    for scheme in ("light", "dark"):
        page = watch(lake.uri, color_scheme=scheme).open()
        page.get_by_text("4 tables").wait_for()
        assert axe_violations(page) == []
