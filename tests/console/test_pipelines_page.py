"""The pipelines page in a real browser: the graph of a project and of what was committed, runs, streams, lineage."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.test_table_page import parse
from tests.kit.browser import Watched, axe_violations, grid_rows
from tests.kit.project_lake import MARKUP, ProjectLake, copy_project

CHILD_MS = 120_000  # a child process imports Frazil and the project: seconds, on a machine with other work more
REVENUE = "table%1Fgold%1Frevenue"


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    """The example project with its tables, runs and a stream; silver.orders has not read all of its input."""
    folder = copy_project(tmp_path_factory.mktemp("sales"))
    home = tmp_path_factory.mktemp("catalog")
    with running_catalog(home, routes_of=["frazil.console"], project=folder) as server:
        lake = ProjectLake(FrazilCatalog("lake", **server.properties), folder)
        lake.add_runs()
        lake.stream()
        lake.add_sales()
        yield server


def opened(watched: Watched, address: str = "graph") -> Page:
    """The page, when the project is there."""
    page = watched.open(f"pipelines/default/{address}")
    page.set_default_timeout(CHILD_MS)
    page.get_by_text("project sales").wait_for()
    return page


def labels(page: Page, selector: str = ".box") -> list[str]:
    return sorted(page.locator(f"{selector} .label").all_text_contents())


def test_the_graph_has_what_is_declared_and_what_was_committed(sales: EmbeddedCatalog, watch: OpenPage) -> None:
    page = opened(watch(sales.uri))
    assert labels(page) == [
        "daily_customers",
        "daily_sales",
        "gold.revenue",
        "lakehouse.customers",
        "lakehouse.events",
        "lakehouse.sales",
        "landing/*.csv",
        "landing/customers/*.csv",
        "silver.customers",
        "silver.orders",
        "uplink",
        "uplink",
    ]
    assert page.locator(".flow").count() == 10
    page.locator(".box", has_text="gold.revenue").locator(".detail", has_text="out of date for").wait_for()  # a child
    page.locator(".box.model", has_text="gold.revenue").click()
    page.get_by_role("complementary", name="Details").get_by_text("silver.orders is out of date").wait_for()
    page.get_by_text("31 rows", exact=True).wait_for()
    assert labels(page, ".box:not(.on)") == ["lakehouse.events", "uplink", "uplink"]


def test_a_column_tells_where_it_comes_from(sales: EmbeddedCatalog, watch: OpenPage) -> None:
    page = opened(watch(sales.uri), f"graph?node={REVENUE}")
    panel = page.get_by_role("complementary", name="Details")
    panel.get_by_role("button", name="revenue", exact=True).click()
    panel.get_by_text("Where it comes from").wait_for()
    assert panel.locator(".trace > li > .jump").all_text_contents()[:3] == [
        "gold.revenue.revenue",
        "silver.orders.amount",
        "lakehouse.sales.amount",
    ]
    assert panel.locator(".expression").first.text_content() == "SUM(o.amount)"
    assert labels(page, ".box.on") == ["gold.revenue", "lakehouse.sales", "silver.orders"]
    panel.get_by_role("button", name="lakehouse.sales.amount").click()
    panel.get_by_text("What is computed from it").wait_for()
    assert panel.get_by_text("filled by daily_sales").count() == 1
    assert page.url.endswith("column=amount")
    page.reload()
    panel.get_by_text("What is computed from it").wait_for()
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")


def test_the_keyboard_moves_through_the_graph_and_the_picture_can_be_moved(
    sales: EmbeddedCatalog, watch: OpenPage
) -> None:
    page = opened(watch(sales.uri))
    page.locator(".box[tabindex='0']").focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    focused = page.evaluate("document.activeElement.querySelector('.label').textContent")
    assert focused in ("silver.orders", "silver.customers")
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Details").get_by_role("heading", name=focused).wait_for()
    stage = page.locator(".picture > g")
    before = stage.get_attribute("transform")
    page.get_by_role("button", name="Zoom in").click()
    zoomed = stage.get_attribute("transform")
    assert zoomed != before
    box = page.locator(".picture").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 60, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 60)
    page.mouse.up()
    assert stage.get_attribute("transform") != zoomed
    assert page.get_by_role("complementary", name="Details").is_visible(), "dragging chooses nothing"


def test_the_list_has_the_same_and_can_be_searched(sales: EmbeddedCatalog, watch: OpenPage) -> None:
    page = opened(watch(sales.uri), "list")
    assert len(grid_rows(page)) == 12
    page.keyboard.press("/")
    page.keyboard.type("silver.orders")
    (row,) = grid_rows(page)
    assert (row[0], row[1], row[4], row[6], row[7]) == (
        "silver.orders",
        "model",
        "1",
        "lakehouse.sales",
        "gold.revenue",
    )
    assert row[2].startswith("out of date for")


def test_runs_show_durations_rejects_and_errors_as_text(sales: EmbeddedCatalog, watch: OpenPage) -> None:
    page = opened(watch(sales.uri), "runs")
    page.locator(".grid-row").nth(2).wait_for()
    rows = [row[1:] for row in grid_rows(page)]
    assert ["daily_sales", "failed", "0.5 s", "0", "–", "0", "0", "0", f"no {MARKUP}"] in rows
    assert ["daily_sales", "committed", "13 s", "3", "4.1 kB", "1,203", "1,200", "3", ""] in rows
    assert page.evaluate("window.hit") is None
    page.keyboard.press("/")
    page.keyboard.type("gold")
    page.locator(".grid-row").nth(1).wait_for(state="detached")
    page.locator(".grid-row").click()
    page.get_by_role("complementary", name="Details").get_by_role("heading", name="gold.revenue").wait_for()


def test_streams_show_their_speed_and_lag(sales: EmbeddedCatalog, watch: OpenPage) -> None:
    page = opened(watch(sales.uri), "streams")
    card = page.get_by_role("region", name="uplink")
    facts = dict(
        card.locator(".facts > div").evaluate_all("all => all.map(one => [...one.children].map(e => e.textContent))")
    )
    assert {name: facts[name] for name in ("Rows per second", "Micro-batch", "Lag", "Batches", "Quarantined")} == {
        "Rows per second": "33.3",
        "Micro-batch": "1.5 s",
        "Lag": "7 messages",
        "Batches": "6",
        "Quarantined": "2",
    }
    assert card.locator(".bars rect").count() == 6


def test_every_command_of_the_page_can_be_typed(sales: EmbeddedCatalog, watch: OpenPage) -> None:
    page = opened(watch(sales.uri), f"graph?node={REVENUE}")
    page.get_by_role("heading", name="On the command line").wait_for()
    commands = page.locator(".command code").all_text_contents()
    assert len(commands) == 5
    for command in commands:
        parse(cli, shlex.split(command)[1:])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(sales: EmbeddedCatalog, watch: OpenPage, scheme: str) -> None:
    watched = watch(sales.uri, color_scheme=scheme)
    for tab in (f"graph?node={REVENUE}&column=revenue", "list", "runs", "streams"):
        page = opened(watched, tab)
        assert axe_violations(page) == [], tab


def test_without_a_project_the_graph_is_what_was_committed(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri).open("pipelines/default")
    page.get_by_text("There is no lakehouse.py where this server runs.").wait_for()
    page.get_by_text("frazil init lakehouse").wait_for()
    assert axe_violations(page) == []
