"""Takes the pictures of docs/console.md, each page in both themes: `python -m tests.console.pictures [NAME]...`."""

from __future__ import annotations

import datetime as dt
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from playwright.sync_api import Browser, Page
from pyiceberg.types import StringType

from frazil.catalog import change_grant, create_role
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.vector import Indexes
from tests.console.lake import sales
from tests.console.parts_lake import build_visits
from tests.kit.access import guarded_catalog, namespace, now_ms, table
from tests.kit.browser import running_browser
from tests.kit.console_tables import DAY_MS, add_tables, metadata, snapshot
from tests.kit.project_lake import ProjectLake, copy_project

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "console"
NAMES = (
    *("customers", "customers__quarantine", "daily_revenue", "devices", "devices__ledger", "embeddings", "inventory"),
    *("invoices", "ledger_entries", "order_lines", "orders", "payments", "prices", "product_texts", "products"),
    *("returns", "sessions", "shipments", "stock_levels", "stores", "uplink_events", "weather"),
)
CHECKS = {
    name: ("id IS NOT NULL", "id <> ''", "length(id) < 40")[: 1 + at % 3]
    for at, name in enumerate(name for name in NAMES if "__" not in name)
    if at % 4
} | {"customers": ("id IS NOT NULL", "id <> ''")}
PAGES = {
    "tables": "",
    "overview": "table/default/shop/sales",
    "columns": "table/default/shop/sales/columns",
    "snapshots": "table/default/shop/sales/snapshots",
    "rows": "table/default/shop/sales/rows",
    "files": "table/default/shop/visits/files",
    "partitions": "table/default/shop/visits/partitions",
    "metadata": "table/default/shop/visits/metadata",
    "indexes": "table/default/shop/words/indexes",
    "quarantine": "table/default/shop/visits/quarantine",
    "properties": "table/default/shop/sales/properties",
    "rollback": "table/default/shop/sales/snapshots",
    "upkeep": "upkeep/default?all=&table=shop.sales",
    "connect": "connect/default/spark",
    "sql": "sql/default",
    "sql-chart": "sql/default",
    "sql-scans": "sql/default",
    "sql-history": "sql/default",
    "vector-search": "sql/default",
    "narrow": "table/default/shop/sales",
}
OPERATOR_PAGES = {
    "access": "access/default",
    "roles": "access/default/roles",
    "who-can": "access/default/who-can?kind=name&name=shop.orders",
    "grants": "table/default/shop/orders/grants",
    "audit": "audit/default",
    "sign-in": "",
}
WINDOW, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 844}
QUERY = """-- revenue of the first orders, by hour
SELECT date_trunc('hour', ordered_at) AS hour,
       count(*) AS orders,
       sum(amount) AS revenue
FROM shop.sales
WHERE order_id < 'o-002000'
GROUP BY ALL ORDER BY hour"""
# what is clicked on a page before its picture is taken
OPENED = {
    "metadata": (".tree summary", "details[open] details summary", "details[open] details[open] details summary"),
    "quarantine": (".sample summary",),
    "rollback": (".grid-row[data-at='5']", "button:has-text('Roll back to here')"),
    "who-can": ("button:has-text('Ask')",),
    "roles": (".grid-row[data-at='1']",),
}
VIEWS = {"sql": "Rows", "sql-chart": "Chart", "sql-scans": "Scans", "sql-history": "History"}
PRICES = """
prices = Table("shop.prices", column("sku", "string", required=True), column("price", "decimal(12,2)"))
"""
PROJECT_PAGES = {
    "pipelines": "pipelines/default/graph?node=table%1Fgold%1Frevenue&column=revenue",
    "pipelines-list": "pipelines/default/list",
    "runs": "pipelines/default/runs",
    "streams": "pipelines/default/streams",
    "plan": "plan/default",
}


def made_up(server: EmbeddedCatalog) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables as a shop has them, written for two weeks."""
    chance, now_ms = random.Random(7), time.time_ns() // 1_000_000
    for name in NAMES:
        rows, count = int(10 ** chance.uniform(6, 8.9)), chance.randint(3, 60)
        rows = 1_204 if name.endswith("__quarantine") else rows
        small, late = chance.random() < 0.25, 9 if chance.random() < 0.15 else 0
        snapshots = []
        for number in range(1, count + 1):
            size = rows * 40 // (1 if not small else 9)
            facts = {
                "added-files-size": str(max(size // count, 1) if not small else 40_000),
                "total-records": str(rows * number // count),
                "total-data-files": str(number * (1 if not small else 3)),
                "total-files-size": str(size * number // count),
                "total-position-deletes": str(rows // 90 if chance.random() < 0.2 else 0),
            }
            at_ms = now_ms - int(((count - number) / count * 13.4 + chance.random() / 3 + late) * DAY_MS)
            snapshots.append(snapshot(number, number - 1 if number > 1 else None, at_ms, **facts))
        document = metadata(f"{server.warehouse}/shop/{name}", snapshots, {"main": count})
        rules = {"write.target-file-size-bytes": str(1 << 20), "history.expire.max-snapshot-age-ms": str(30 * DAY_MS)}
        yield name, document | {"properties": rules}


def build(server: EmbeddedCatalog) -> None:
    add_tables(server, "retail", made_up(server))
    catalog = FrazilCatalog("lake", **server.properties)
    catalog.create_namespace("shop")
    build_visits(catalog)
    build_words(catalog)
    first = sales(0, 800)
    text = {"comment": "One row for each order, as the shops report it. Corrections come as upserts within a day."}
    table = catalog.create_table(("shop", "sales"), first.schema, properties=text)
    for number in range(5):
        table.append(named(sales(800 * number, 700 + 37 * number)))
    table.manage_snapshots().create_tag(table.metadata.snapshots[2].snapshot_id, "month-end").commit()
    table.manage_snapshots().create_branch(table.metadata.snapshots[3].snapshot_id, "audit").commit()
    with table.update_schema() as update:
        update.update_column("amount", doc="gross, in euros")
        update.rename_column("customer", "buyer")
    table = catalog.load_table(("shop", "sales"))
    for number, branch in enumerate(("audit", "main", "audit", "main", "main")):
        rows = named(sales(9000 + 300 * number, 120 + 31 * number))
        table.append(rows.rename_columns(["order_id", "buyer", *rows.column_names[2:]]), branch=branch)


def declare(folder: Path) -> Path:
    """A project that declares tables of the shop with checks."""
    folder.mkdir()
    tables = [f"Table({f'retail.{name}'!r}, ID, checks={list(checks)!r})" for name, checks in CHECKS.items()]
    tables.append("Table('shop.sales', ID, checks=['id IS NOT NULL', 'id <> \\'\\''])")
    lines = [f"table_{at} = {table}" for at, table in enumerate(tables)]
    head = 'from frazil import Table, column\n\nID = column("id", "string")\n'
    (folder / "lakehouse.py").write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    return folder


def build_words(catalog: FrazilCatalog) -> None:
    """Words with vectors, and an index that does not cover the newest of them."""
    names = ("ice", "snow", "frost", "sleet", "hail", "slush", "floe", "glacier", "icicle", "powder")

    def words(numbers: range) -> pa.Table:
        chance = random.Random(numbers.start)
        text = [f"{names[number % 10]} {number // 10}" for number in numbers]
        kind = pa.list_(pa.float32())
        vectors = pa.array([[chance.random() for _ in range(8)] for _ in numbers], kind)
        schema = pa.schema([("word", pa.string()), ("embedding", kind)])
        return pa.table([pa.array(text), vectors], schema=schema)

    table = catalog.create_table(("shop", "words"), words(range(1)).schema)
    table.append(words(range(400)))
    Indexes(catalog, "shop.words").create("embedding", lists=4)
    catalog.load_table(("shop", "words")).append(words(range(400, 500)))


def named(rows: Any) -> Any:
    """The same orders, by people."""
    people = ("Ada Lovelace", "Grace Hopper", "Radia Perlman", "Edsger Dijkstra", "محمد علي", "Barbara Liskov")
    names = [people[number * 5 % len(people)] for number in range(rows.num_rows)]
    return rows.set_column(1, rows.schema.field(1), [names])


def build_project(server: EmbeddedCatalog, folder: Path) -> None:
    """The example project after a week of runs, with a stream."""
    lake = ProjectLake(FrazilCatalog("lake", **server.properties), folder)
    chance, now = random.Random(7), dt.datetime.now(dt.UTC)
    for day in range(12, 0, -1):
        began, rows = now - dt.timedelta(hours=9 * day), chance.randint(900, 2400)
        facts = {"files": 3, "bytes": 48 * rows, "rows_in": rows + 3, "rows": rows, "seconds": rows / 160}
        failed = {"error": "3 columns expected, got 2: landing/2026-07-11.csv, line 41"} if day == 5 else facts
        lake.note("daily_sales", "lakehouse.sales", started_at=began, run_id=str(day), quarantined=day % 4, **failed)
        later = began + dt.timedelta(minutes=4)
        lake.note("gold.revenue", "gold.revenue", started_at=later, run_id=f"m{day}", rows=31, seconds=rows / 400)
    lake.stream(24)
    lake.add_sales()
    with lake.catalog.load_table("lakehouse.customers").update_schema() as update:
        update.add_column("phone", StringType())
    text = (folder / "lakehouse.py").read_text(encoding="utf-8")
    text = text.replace('column("name", "string"),', 'column("name", "string"), column("email", "string"),')
    text = text.replace("required=True),\n)", 'required=True),\n    dropped=["phone"],\n)')
    (folder / "lakehouse.py").write_text(text + PRICES, encoding="utf-8")


def take(browser: Browser, server: EmbeddedCatalog, pages: Mapping[str, str]) -> None:
    for theme in ("light", "dark"):
        for name, address in pages.items():
            size = PHONE if name == "narrow" else WINDOW
            page = browser.new_page(viewport=size, color_scheme=theme)  # type: ignore[arg-type]
            page.set_default_timeout(180_000)
            page.goto(f"{server.uri}/#/{address}")
            page.wait_for_load_state("networkidle" if name != "streams" else "load")
            page.wait_for_timeout(300 if name != "streams" else 4000)  # it looks again every few seconds
            if name in OPENED:
                open_parts(page, OPENED[name])
            if name in VIEWS:
                run_query(page, VIEWS[name])
            if name == "vector-search":
                search(page)
            page.screenshot(path=FOLDER / f"{name}-{theme}.png")
            page.close()


def open_parts(page: Page, selectors: Sequence[str]) -> None:
    """Clicks on one element after the other."""
    for selector in selectors:
        page.locator(selector).first.click()
        page.wait_for_load_state("networkidle")
    page.locator("dialog .loading").wait_for(state="detached")
    page.wait_for_timeout(500)


def run_query(page: Page, view: str) -> None:
    """Runs a query on the page for SQL, and opens a view of the result."""
    page.get_by_label("SQL", exact=True).fill(QUERY)
    page.keyboard.press("Control+Enter")
    page.get_by_role("status").filter(has_text="rows,").wait_for()
    page.get_by_role("button", name=view, exact=True).click()
    page.wait_for_timeout(500)


def search(page: Page) -> None:
    """Searches for the words that are nearest to one of them."""
    page.get_by_role("button", name="Vector search").click()
    form = page.locator(".search-form")
    form.locator("select").first.select_option(label="shop.words")
    form.locator("option", has_text="embedding").first.wait_for(state="attached")
    form.get_by_role("textbox").fill("ice 3")
    form.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("status").filter(has_text="rows,").wait_for()
    page.wait_for_timeout(500)


def take_operator_pages(browser: Browser, folder: Path, wanted: Sequence[str]) -> None:
    """The pages of those who manage the server, which need authentication."""
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", routes_of=["frazil.console"]) as guarded:
        for name in ("orders", "customers", "payments"):
            guarded.admin.create(name, "shop")
        guarded.user("analyst", ("read", namespace("shop"))).delete("/namespaces/shop/tables/orders")
        for name, scopes in (("etl", ["write"]), ("dashboard", ["read"]), ("upkeep", ["maintain"])):
            guarded.token(name, scopes=scopes, expires_ms=now_ms() + 90 * DAY_MS)
        guarded.refusals()
        token = guarded.token("ada", roles=["admin"])
        create_role(guarded.database, "analysts", now_ms=now_ms())
        for member in ("grace", "radia"):
            guarded.token(member, roles=["analysts"])
        change_grant(guarded.database, "read", namespace("shop"), "analysts", adding=True, by="ada", now_ms=now_ms())
        guarded.grant("write", table("orders", "shop"), "etl")
        for theme in ("light", "dark"):
            for name in wanted:
                page = browser.new_page(viewport=WINDOW, color_scheme=theme)  # type: ignore[arg-type]
                keep = f"sessionStorage.setItem('frazil.token', '{token}')"
                if name != "sign-in":
                    page.add_init_script(f"if (location.protocol !== 'about:') {keep}")
                page.goto(f"{guarded.server.uri}/#/{OPERATOR_PAGES[name]}")
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(300)
                if name in OPENED:
                    open_parts(page, OPENED[name])
                page.screenshot(path=FOLDER / f"{name}-{theme}.png")
                page.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or [*PAGES, *PROJECT_PAGES, *OPERATOR_PAGES]
    ours, of_project = ({name: pages[name] for name in wanted if name in pages} for pages in (PAGES, PROJECT_PAGES))
    with running_browser() as browser, TemporaryDirectory() as temporary:
        if ours:
            with running_catalog(routes_of=["frazil.console"], project=declare(Path(temporary) / "shop")) as server:
                build(server)
                take(browser, server, ours)
        if of_operators := [name for name in wanted if name in OPERATOR_PAGES]:
            take_operator_pages(browser, Path(temporary), of_operators)
        if of_project:
            folder = copy_project(Path(temporary) / "sales")
            with running_catalog(routes_of=["frazil.console"], project=folder) as server:
                build_project(server, folder)
                take(browser, server, of_project)


if __name__ == "__main__":
    main()
