"""What a table is made of, in a real browser: partitions of several specs, and what compaction would do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.console import tree
from frazil.upkeep import Keeper
from tests.console.conftest import OpenPage
from tests.console.lake import MARKUP
from tests.console.parts_lake import build_parts
from tests.console.test_table_page import cells
from tests.kit.browser import axe_violations, grid_rows

TABLE = "table/default/shop"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    """A catalog with the tables of `build_parts`; tests only read it."""
    with running_catalog(tmp_path_factory.mktemp("parts"), routes_of=["frazil.console"]) as server:
        build_parts(FrazilCatalog("lake", **server.properties))
        yield server


def test_each_spec_has_a_heat_map_of_its_partitions(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(parts.uri).open(f"{TABLE}/events/partitions")
    page.get_by_role("heading", name="day(at), shop").wait_for()
    assert page.get_by_text("16 partitions").count() == 1
    assert [row[0] for row in grid_rows(page)[1:3]] == [
        "at_day=2026-03-31 / shop=bergen",
        "at_day=2026-03-31 / shop=oslo",
    ]
    page.get_by_role("button", name="day(at) (older files)").click()
    page.get_by_text("20 partitions").wait_for()
    page.get_by_role("button", name="Files", exact=True).first.click()
    page.get_by_role("columnheader", name="Files", exact=True).get_by_role("button").click()
    assert [row[0] for row in grid_rows(page)[:2]] == ["at_day=2026-03-01", "at_day=2026-03-02"]
    assert [row[3] for row in grid_rows(page)[:3]] == ["7", "7", "1"]
    assert [page.locator(f".heat path.heat{shade}").get_attribute("d") for shade in (0, 2)] == ["", ""]


def test_a_cell_of_the_heat_map_leads_to_its_line(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(parts.uri).open(f"{TABLE}/events/partitions")
    page.locator(".heat").click(position={"x": 30, "y": 30})
    chosen = page.locator(".grid-row[aria-selected=true]")
    assert (chosen.text_content() or "").startswith("at_day=2026-04-01 / shop=bergen")
    page.keyboard.press("/")
    page.keyboard.type("oslo 04-02")
    assert [row[0] for row in grid_rows(page)] == ["at_day=2026-04-02 / shop=oslo"]


def test_partitions_that_are_markup_are_text(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(parts.uri).open()
    page.get_by_text("5 tables").wait_for()
    page.locator(".grid-row", has_text="txt.exe").click()
    page.get_by_role("link", name="Partitions").click()
    page.get_by_text("1 partition").wait_for()
    assert [row[0] for row in grid_rows(page)] == [f"{MARKUP}={MARKUP}"]
    assert page.evaluate("window.hit") is None


def test_a_table_without_partitions_says_so(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    watched = watch(parts.uri)
    page = watched.open(f"{TABLE}/flat/partitions")
    page.get_by_text("This table is not partitioned.").wait_for()
    assert page.get_by_text("3 data files").count() == 1
    watched.open(f"{TABLE}/empty/partitions").get_by_text("nothing was written").wait_for()


def test_what_compaction_would_do_is_what_upkeep_plans(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(parts.uri).open(f"{TABLE}/events/files")
    page.get_by_role("heading", name="Groups that would be rewritten").wait_for()
    plan = Keeper(FrazilCatalog("lake", **parts.properties), ("shop", "events")).plan("compact").detail
    assert plan is not None
    assert (plan.files_before, plan.files_after) == (32, 1)  # type: ignore[union-attr]
    assert cells(page, ".groups tbody tr")[0][:3] == ["of an older partition spec (partitioned again)", "32", "1"]
    assert cells(page, ".histogram tbody tr")[0][2:4] == ["48", "17"]
    assert page.get_by_text("31 files fewer").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(parts: EmbeddedCatalog, watch: OpenPage, scheme: str) -> None:
    watched = watch(parts.uri, color_scheme=scheme)
    for tab, sign in (("events/partitions", ".heat path"), ("events/files", ".groups")):
        page = watched.open(f"{TABLE}/{tab}")
        page.locator(sign).first.wait_for(state="attached")
        assert axe_violations(page) == [], tab


def test_the_metadata_tree_leads_down_to_the_bounds_of_columns(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(parts.uri).open(f"{TABLE}/events/metadata")
    page.locator(".tree > .level > details > summary").first.click()
    page.get_by_text("8 manifests").wait_for()
    page.locator("summary", has_text="+16 files").click()
    page.locator("summary", has_text="shop=bergen").first.click()
    page.locator(".bounds").wait_for()
    assert cells(page, ".bounds tbody tr") == [
        ["1", "id", "long", "301", "301", "1", "0", ""],
        ["2", "shop", "string", "bergen", "bergen", "1", "0", ""],
        ["3", "at", "timestamptz", "2026-03-31T00:00:00+00:00", "2026-03-31T00:00:00+00:00", "1", "0", ""],
    ]
    assert page.locator("summary .range", has_text="2026-03-31 to 2026-04-03").count() == 1
    assert axe_violations(page) == []
    assert page.evaluate("window.hit") is None


def test_levels_of_the_tree_come_in_pages(
    parts: EmbeddedCatalog, watch: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "PAGE", 3)
    page = watch(parts.uri).open(f"{TABLE}/events/metadata")
    page.get_by_role("button", name="5 more snapshots").click()
    page.get_by_role("button", name="2 more snapshots").click()
    page.locator(".tree > .level > details").nth(7).wait_for()
    assert page.locator(".more").count() == 0


def test_an_index_says_what_it_does_not_cover(parts: EmbeddedCatalog, watch: OpenPage) -> None:
    watched = watch(parts.uri)
    page = watched.open(f"{TABLE}/words/indexes")
    page.get_by_text("1 data file not covered yet").wait_for()
    facts = dict(zip(*(page.locator(f".index-facts {tag}").all_text_contents() for tag in ("dt", "dd")), strict=True))
    assert (facts["Column"], facts["Metric"], facts["Vectors"]) == ("embedding", "cosine", "400")
    assert facts["Coverage"] == "1 of 2 data files"
    assert axe_violations(page) == []
    page = watched.open(f"{TABLE}/flat/indexes")
    page.get_by_text("no column of vectors").wait_for()
    assert page.get_by_role("link", name="Grants").count() == 0, "authentication is off"
