"""The upkeep page in a real browser: the debt of tables, what would be done, and having it done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import requests

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.lake import MARKUP, NOTES
from tests.kit.browser import axe_violations, grid_rows
from tests.kit.upkeep import make_worker, status_of

SLOW_MS = 120_000  # a process starts
OLD = {"history.expire.max-snapshot-age-ms": "1", "upkeep.compact.min-input-files": "2"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    """A catalog with tables of many small files; no worker runs."""
    with running_catalog(tmp_path_factory.mktemp("upkeep"), routes_of=["frazil.console"]) as running:
        catalog = FrazilCatalog("lake", **running.properties)
        catalog.create_namespace("shop")
        for name, properties in (("orders", OLD), (MARKUP, {}), ("off", {"upkeep.enabled": "false"})):
            table = catalog.create_table(("shop", name), NOTES, properties=properties)
            for number in range(6):
                table.append(pa.table({"id": [number], "note": [MARKUP]}, schema=NOTES))
        catalog.create_table(("shop", "empty"), NOTES)
        yield running


def path_of(server: EmbeddedCatalog, name: str) -> str:
    return f"{server.uri}/console/api/default/namespaces/shop/tables/{name}/upkeep"


def ask(server: EmbeddedCatalog, name: str, *steps: Any) -> requests.Response:
    return requests.post(path_of(server, name), json={"steps": list(steps)}, timeout=60)


def test_tables_are_listed_with_the_score_of_each_step(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open("upkeep/default")
    page.get_by_text("4 tables").wait_for()
    page.get_by_role("row").filter(has_text="shop.orders").wait_for()
    assert {row[0] for row in grid_rows(page)} == {"shop.orders", f"shop.{MARKUP}"}
    page.get_by_role("button", name="All").click()
    page.get_by_role("row").filter(has_text="shop.empty").wait_for()
    rows = {row[0]: row for row in grid_rows(page)}
    assert (rows["shop.off"][1], rows["shop.empty"][1]) == ("Off", "Empty")
    assert float(rows["shop.orders"][2]) >= 1
    assert page.evaluate("window.hit") is None
    page.get_by_role("row").filter(has_text="shop.off").click()
    page.get_by_text("off for this table by its property").wait_for()
    assert page.get_by_role("button", name="Preview", exact=True).is_disabled()
    assert page.get_by_text("upkeep=Upkeep(enabled=True)", exact=True).is_visible()
    page.get_by_role("row").filter(has_text=MARKUP).click()
    page.get_by_role("heading", name=f"shop.{MARKUP}").wait_for()
    assert page.locator("main img").count() == 0
    assert axe_violations(page) == []


def test_what_would_be_done_is_shown_then_done_by_a_process_of_the_server(
    server: EmbeddedCatalog, watch: OpenPage
) -> None:
    page = watch(server.uri).open("upkeep/default?table=shop.orders")
    catalog = FrazilCatalog("lake", **server.properties)
    page.get_by_role("button", name="Preview", exact=True).click()
    panel = page.get_by_label("Upkeep of the table")
    panel.get_by_text("rewrite 6 data files").wait_for(timeout=SLOW_MS)
    panel.get_by_text("expire 5 snapshots older than").wait_for()
    assert len(catalog.load_table(("shop", "orders")).metadata.snapshots) == 6, "a preview changes nothing"
    assert axe_violations(page) == []
    panel.get_by_role("button", name="Run", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("expire 5 snapshots").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    assert status_of(server.app.ctx.database, "shop.orders")["request"] is None
    panel.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Expire").click()
    panel.get_by_text("Done", exact=True).wait_for(timeout=SLOW_MS)
    panel.get_by_text("rewrote 6 data files").wait_for()
    table = catalog.load_table(("shop", "orders"))
    assert (len(table.inspect.files()), table.scan().to_arrow().num_rows) == (1, 6)
    assert len(table.metadata.snapshots) < 6
    page.get_by_role("button", name="Needs upkeep 1").wait_for()


def test_a_request_waits_for_a_worker_that_is_there(server: EmbeddedCatalog, watch: OpenPage) -> None:
    """A worker that says it looks for tables is enough: the server starts none."""
    database, name = server.app.ctx.database, MARKUP
    worker = make_worker(database, server.properties)
    worker._note()
    assert ask(server, "empty", "compact").json()["state"] == "queued"
    page = watch(server.uri).open("upkeep/default?all=&table=shop.empty")
    panel = page.get_by_label("Upkeep of the table")
    panel.get_by_text("1 worker will take it in turn").wait_for()
    worker.requested_only = True
    worker.run(once=True)
    panel.get_by_text("Nothing to do", exact=True).wait_for()
    run = status_of(database, "shop.empty")["last_run"]
    assert (run["outcome"], run["asked"]["steps"], run["owner"]) == ("nothing", ["compact"], worker.owner)
    assert status_of(database, f"shop.{name}")["last_run"] is None, "it was not asked for"


def test_what_cannot_be_asked_for_is_refused(server: EmbeddedCatalog) -> None:
    for steps in ([], ["orphans"], ["compact", "drop"], [1]):
        assert ask(server, "orders", *steps).status_code == 400, steps
    answer = ask(server, "off", "compact")
    assert (answer.status_code, "upkeep.enabled" in answer.text) == (400, True)
    assert ask(server, "missing", "compact").status_code == 404
    assert requests.post(f"{path_of(server, 'orders')}/plan", json={}, timeout=60).status_code == 400
