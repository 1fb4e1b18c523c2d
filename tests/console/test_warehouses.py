"""Two warehouses with a table of the same name: what the console shows for one acts on that one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.test_table_page import TABS

NO_CATALOG = ("token", "role", "audit-log", "grant", "revoke", "who-can", "why", "serve", "init", "upkeep")


def client(server: EmbeddedCatalog, warehouse: str) -> FrazilCatalog:
    return FrazilCatalog("lake", uri=server.uri, warehouse=warehouse)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    roots = {"default": str(tmp_path / "default"), "cold.store": str(tmp_path / "cold")}
    with running_catalog(tmp_path, warehouses=roots, routes_of=["frazil.console"]) as running:
        for name in roots:
            rows = pa.table({"id": [1]})
            client(running, name).create_namespace("shop")
            client(running, name).create_table(("shop", "orders"), rows.schema).append(rows)
        yield running


def tags(server: EmbeddedCatalog, warehouse: str) -> list[str]:
    return sorted(client(server, warehouse).load_table("shop.orders").refs())


def test_a_copied_command_changes_the_table_of_its_warehouse(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open("table/cold.store/shop/orders/snapshots")
    page.locator(".grid-row").first.click()
    page.get_by_role("button", name="Create tag…").click()
    page.get_by_label("Name", exact=True).fill("month-end")
    line = page.get_by_role("dialog").locator(".command code").inner_text()
    done = CliRunner().invoke(cli, ["--set", f"catalog.uri={server.uri}", *shlex.split(line)[1:]])
    assert done.exit_code == 0, done.output
    assert (tags(server, "cold.store"), tags(server, "default")) == (["main", "month-end"], ["main"])


def test_every_command_names_a_warehouse_that_is_not_the_usual_one(server: EmbeddedCatalog, watch: OpenPage) -> None:
    watched = watch(server.uri)
    watched.page.set_default_timeout(180_000)
    pages = [f"table/{{}}/shop/orders/{tab}" for tab in TABS if tab not in ("grants", "quarantine")]
    for warehouse, named in (("cold.store", True), ("default", False)):
        for address in ("tables/{}", "connect/{}", "sql/{}", "pipelines/{}", *pages):
            page = watched.open(address.format(warehouse))
            page.locator(".command code, .tab-body > :not(.loading)").first.wait_for()
            lines = [shlex.split(line) for line in page.locator(".command code").all_text_contents()]
            of_catalog = [line for line in lines if line[1] not in NO_CATALOG]
            assert all((line[1:3] == ["--set", "catalog.warehouse=cold.store"]) is named for line in of_catalog), (
                address
            )
