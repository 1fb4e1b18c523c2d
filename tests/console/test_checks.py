"""Checks that the project in the server's folder declares, next to the rows that broke them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.console.project import FILE_NAME
from tests.console.conftest import OpenPage
from tests.console.lake import MARKUP
from tests.kit.access import guarded_catalog, namespace, table
from tests.kit.browser import axe_violations, grid_rows

CHECKS = ["amount >= 0", f"note <> '{MARKUP}'"]
PROJECT = f"""
from frazil import Table, column

orders = Table("shop.orders", column("amount", "long"), column("note", "string"), checks={CHECKS!r})
plain = Table("shop.plain", column("id", "long"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / FILE_NAME).write_text(PROJECT, encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path, project: Path) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path, routes_of=["frazil.console"], project=project) as server:
        lake = FrazilCatalog("lake", **server.properties)
        lake.create_namespace("shop")
        lake.create_table(("shop", "orders"), pa.schema([("amount", pa.int64()), ("note", pa.string())]))
        for name in ("plain", "other"):
            lake.create_table(("shop", name), pa.schema([("id", pa.int64())]))
        rows = [{"amount": amount, "note": MARKUP} for amount in (5, -1, -2)]
        options = {"catalog": lake, "bad_rows": "quarantine", "checks": CHECKS[:1]}
        with frazil.sinks.open("shop.orders", name="s", **options) as sink:
            sink.write_with_offsets(rows, source="events", offsets=[0, 1, 2])
        yield server


def test_checks_and_quarantined_rows_are_in_the_list_and_on_the_overview(
    shop: EmbeddedCatalog, watch: OpenPage
) -> None:
    watched = watch(shop.uri)
    watched.page.set_default_timeout(60_000)  # the project's code is loaded
    page = watched.open()
    page.get_by_role("gridcell", name="2 2 ✕", exact=True).wait_for()
    heads = page.get_by_role("columnheader").all_inner_texts()
    cells = {row[0]: row[heads.index("Checks")] for row in grid_rows(page)}
    assert cells == {"shop.orders": "2 2 ✕", "shop.plain": "0", "shop.other": "–"}
    page.get_by_role("gridcell", name="shop.orders").click()
    checks = page.locator(".block", has=page.get_by_role("heading", name="Checks", exact=True))
    checks.get_by_role("link", name="2 quarantined rows").wait_for()
    assert checks.get_by_role("listitem").all_inner_texts() == CHECKS
    assert page.evaluate("window.hit") is None
    assert axe_violations(page) == []
    watched.open("table/default/shop/other").get_by_text("The project does not declare this table.").wait_for()


def test_a_table_that_its_caller_may_not_read_tells_no_checks(tmp_path: Path, project: Path) -> None:
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database, routes_of=["frazil.console"], project=project) as guarded:
        for name in ("orders", "plain"):
            guarded.admin.create(name, "shop")
        reader = guarded.user("reader", ("read", table("plain", "shop")), ("discover", namespace("shop")))
        path = "/console/api/default"
        assert list(reader.raw("GET", f"{path}/checks").body["checks"]) == ["shop.plain"]
        assert reader.raw("GET", f"{path}/namespaces/shop/tables/orders/checks").status == 403
        assert guarded.admin.raw("GET", f"{path}/checks").body["checks"]["shop.orders"] == CHECKS
