"""What the page of a table can change, in a real browser: each effect is looked up in the catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from playwright.sync_api import Page

import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage
from tests.console.lake import MARKUP
from tests.console.test_table_page import cells
from tests.kit.access import guarded_catalog, namespace
from tests.kit.browser import Watched, axe_violations

ORDERS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("amount", pa.decimal128(12, 2)), ("note", pa.string())]
)
TABLE = "table/default/shop"
WAIT_MS = 180_000  # a process starts for the first change
API = "/console/api/default/namespaces/shop/tables"


def order(number: int, amount: object = 1, **more: object) -> dict[str, Any]:
    return {"id": number, "amount": Decimal(amount) if isinstance(amount, int) else amount, "note": MARKUP, **more}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path_factory.mktemp("shop"), routes_of=["frazil.console"]) as server:
        FrazilCatalog("lake", **server.properties).create_namespace("shop")
        yield server


def open_page(watched: Watched, address: str) -> Page:
    watched.page.set_default_timeout(WAIT_MS)
    return watched.open(address)


def open_lake(server: EmbeddedCatalog) -> FrazilCatalog:
    return FrazilCatalog("lake", **server.properties)


def add_orders(server: EmbeddedCatalog, name: str, appends: int = 3) -> list[int]:
    """A table of some appends of ten rows; gives the ids of its snapshots."""
    table = open_lake(server).create_table(("shop", name), ORDERS)
    for number in range(appends):
        rows = [order(10 * number + at) for at in range(10)]
        table.append(pa.Table.from_pylist(rows, schema=ORDERS))
    return [snapshot.snapshot_id for snapshot in table.metadata.snapshots]


def quarantine_orders(server: EmbeddedCatalog, name: str) -> None:
    """A table of two good rows; three others break a check, one has a text for a number, and one no id."""
    open_lake(server).create_table(("shop", name), ORDERS)
    rows = [order(1), order(2), *(order(number, -number) for number in (3, 4, 5)), order(6, "many"), order(7, id=None)]
    with frazil.sinks.open(
        f"shop.{name}", name="s", catalog=open_lake(server), bad_rows="quarantine", checks=["amount >= 0"]
    ) as sink:
        sink.write_with_offsets(rows, source="events", offsets=list(range(len(rows))))


def test_a_tag_and_a_branch_are_created_and_dropped(shop: EmbeddedCatalog, watch: OpenPage) -> None:
    first = add_orders(shop, "named")[0]
    page = open_page(watch(shop.uri), f"{TABLE}/named/snapshots")
    for kind in ("tag", "branch"):
        page.locator(".grid-row").nth(2).click()
        page.get_by_role("button", name=f"Create {kind}…").click()
        dialog = page.get_by_role("dialog")
        assert dialog.get_by_role("button", name=f"Create {kind}").is_disabled()
        dialog.get_by_role("textbox", name="Name").fill(f"{kind} <b>")
        assert dialog.locator("code").text_content() == f"frazil {kind} create shop.named '{kind} <b>' --at {first}"
        page.keyboard.press("Enter")
        dialog.get_by_text(f"is at snapshot {first}").wait_for()
        dialog.get_by_role("button", name="Close").click()
        page.locator(".grid-row .ref", has_text=f"{kind} <b>").wait_for()
    refs = open_lake(shop).load_table("shop.named").metadata.refs
    assert {name: ref.snapshot_id for name, ref in refs.items() if name != "main"} == {
        "tag <b>": first,
        "branch <b>": first,
    }
    for kind in ("tag", "branch"):
        page.locator(".grid-row").nth(2).click()
        page.get_by_role("button", name=f"Drop {kind} {kind} <b>…").click()
        page.get_by_role("dialog").get_by_text("No file is deleted").wait_for()
        assert axe_violations(page) == []
        page.get_by_role("dialog").get_by_role("button", name=f"Drop {kind}").click()
        page.get_by_role("dialog").get_by_text("To have it again").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        page.locator(".grid-row .ref", has_text=f"{kind} <b>").wait_for(state="detached")
    assert list(open_lake(shop).load_table("shop.named").metadata.refs) == ["main"]


def test_a_table_goes_back_after_it_was_said_what_that_undoes(shop: EmbeddedCatalog, watch: OpenPage) -> None:
    snapshots = add_orders(shop, "back")
    page = open_page(watch(shop.uri), f"{TABLE}/back/snapshots")
    page.locator(".grid-row").nth(2).click()
    page.get_by_role("button", name="Roll back to here…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("2 snapshots undone").wait_for()
    assert dialog.get_by_text("Out: 2 data files (20 rows). Back: 0 data files (0 rows).").count() == 1
    assert [row[0] for row in cells(page, "dialog tbody tr")] == [str(snapshots[2]), str(snapshots[1])]
    assert dialog.locator("code").text_content() == f"frazil rollback shop.back --at {snapshots[0]}"
    assert axe_violations(page) == []
    dialog.get_by_role("button", name="Roll back").click()
    dialog.get_by_text("To undo this").wait_for()
    table = open_lake(shop).load_table("shop.back")
    head = table.current_snapshot()
    assert head is not None
    assert head.snapshot_id not in snapshots
    assert table.scan().to_arrow().num_rows == 10
    assert dialog.locator("code").text_content() == f"frazil rollback shop.back --at {snapshots[2]}"


def test_progress_goes_back_or_stays_as_it_was_chosen(shop: EmbeddedCatalog, watch: OpenPage) -> None:
    lake = open_lake(shop)
    lake.create_table(("shop", "fed"), ORDERS)
    for number in range(2):
        with frazil.sinks.open("shop.fed", name="s", catalog=lake) as sink:
            sink.write_with_offsets([order(number)], source="events", offsets=[number])
    before = lake.load_table("shop.fed").metadata.properties
    page = open_page(watch(shop.uri), f"{TABLE}/fed/snapshots")
    page.locator(".grid-row", has_text="+1").nth(1).click()
    page.get_by_role("button", name="Roll back to here…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Say what becomes of their progress.").wait_for()
    assert dialog.get_by_role("button", name="Roll back").is_disabled()
    dialog.get_by_label("They go back, too:").check()
    assert (dialog.locator("code").text_content() or "").endswith("--with-progress")
    dialog.get_by_role("button", name="Roll back").click()
    dialog.get_by_text("To undo this").wait_for()
    table = lake.load_table("shop.fed")
    assert table.scan().to_arrow()["id"].to_pylist() == [0]
    assert table.metadata.properties != before


def test_a_table_that_has_moved_since_the_page_was_loaded_is_left_alone(shop: EmbeddedCatalog, watch: OpenPage) -> None:
    add_orders(shop, "moving")
    watched = watch(shop.uri)
    page = open_page(watched, f"{TABLE}/moving/snapshots")
    page.locator(".grid-row").nth(2).click()
    page.get_by_role("button", name="Roll back to here…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("2 snapshots undone").wait_for()
    table = open_lake(shop).load_table("shop.moving")
    table.append(pa.Table.from_pylist([order(99)], schema=ORDERS))
    dialog.get_by_role("button", name="Roll back").click()
    dialog.get_by_text("The table has changed").wait_for()
    assert table.refresh().current_snapshot() == table.metadata.snapshots[3]
    dialog.get_by_role("button", name="Load the page again").click()
    page.locator(".grid-row").nth(3).wait_for()
    watched.faults = [fault for fault in watched.faults if "status of 409" not in fault]  # the browser's own note


def test_quarantined_rows_are_shown_by_reason_and_come_in_when_they_pass(
    shop: EmbeddedCatalog, watch: OpenPage
) -> None:
    quarantine_orders(shop, "held")
    lake = open_lake(shop)
    page = open_page(watch(shop.uri), f"{TABLE}/held/quarantine")
    page.get_by_text("5 rows in quarantine").wait_for()
    reasons = page.locator(".reason bdi").all_text_contents()
    assert reasons[0] == "check 'amount >= 0' failed"
    page.locator(".sample summary").first.click()
    assert json.loads(page.locator(".sample pre").first.text_content() or "")["note"] == MARKUP
    assert axe_violations(page) == []
    page.get_by_role("button", name="Replay all…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("No row would come in.").wait_for()
    with lake.load_table("shop.held").update_schema(allow_incompatible_changes=True) as update:
        update.make_column_optional("id")
    dialog.get_by_label("Leave out fields that the table does not have").check()
    dialog.get_by_text("1 row would come in").wait_for()
    assert dialog.get_by_text("4 rows stay in quarantine").count() == 1
    assert dialog.locator("code").text_content() == "frazil quarantine replay shop.held --extra-fields ignore"
    dialog.get_by_role("button", name="Replay", exact=True).click()
    dialog.get_by_text("1 row came in").wait_for()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_text("4 rows in quarantine").wait_for()
    assert lake.load_table("shop.held").scan().to_arrow()["id"].to_pylist().count(None) == 1
    assert lake.load_table("shop.held__quarantine").scan().to_arrow().num_rows == 4
    assert page.evaluate("window.hit") is None


def test_rows_of_one_reason_are_paged_and_come_in_by_themselves(shop: EmbeddedCatalog, watch: OpenPage) -> None:
    lake, numbers = open_lake(shop), range(100, 160)
    lake.create_table(("shop", "paged"), ORDERS)
    rows = [*(order(number, -number) for number in numbers), order(1, id=None)]
    with frazil.sinks.open("shop.paged", name="s", catalog=lake, bad_rows="quarantine", checks=["amount >= 0"]) as sink:
        sink.write_with_offsets(rows, source="events", offsets=list(range(len(rows))))
    page = open_page(watch(shop.uri), f"{TABLE}/paged/quarantine")
    page.get_by_text("61 rows in quarantine").wait_for()
    negative = page.locator(".block", has_text="check 'amount >= 0' failed")
    for shown in (30, 55, 60):
        negative.get_by_role("button", name="Show more").click()
        negative.locator(".sample").nth(shown - 1).wait_for()
    assert negative.get_by_role("button", name="Show more").count() == 0
    texts = negative.locator(".sample pre").all_text_contents()
    assert sorted(int(json.loads(text)["amount"]) for text in texts) == sorted(-number for number in numbers)
    with lake.load_table("shop.paged").update_schema(allow_incompatible_changes=True) as update:
        update.make_column_optional("id")
    page.locator(".block", has_text="id").last.get_by_role("button", name="Replay these…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Leave out fields that the table does not have").check()
    dialog.get_by_text("1 row would come in").wait_for()
    assert " --reason " in (dialog.locator("code").text_content() or "")
    dialog.get_by_role("button", name="Replay", exact=True).click()
    dialog.get_by_text("1 row came in").wait_for()
    assert lake.load_table("shop.paged__quarantine").scan().to_arrow().num_rows == 60
    seen = {"head": "1", "reason": "check 'amount >= 0' failed", "skip": 0}
    moved = requests.post(f"{shop.uri}{API}/paged/quarantine/rows", json=seen, timeout=WAIT_MS / 1000)
    assert moved.status_code == 409, "it is not the quarantine that the page has seen"


def test_a_quarantine_that_has_moved_is_left_alone(shop: EmbeddedCatalog) -> None:
    quarantine_orders(shop, "shifting")
    seen = requests.get(f"{shop.uri}{API}/shifting/quarantine", timeout=WAIT_MS / 1000).json()["snapshot_id"]
    body = {"head": str(int(seen) - 1), "reason": None, "extra_fields": "ignore"}
    for path in ("replay/preview", "replay"):
        answer = requests.post(f"{shop.uri}{API}/shifting/{path}", json=body, timeout=WAIT_MS / 1000)
        assert answer.status_code == 409, answer.text
    assert open_lake(shop).load_table("shop.shifting__quarantine").scan().to_arrow().num_rows == 5


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("rollback", {"ref": "main", "head": 5, "snapshot": "1"}),
        ("rollback", {"ref": "", "head": "5", "snapshot": "1"}),
        ("rollback", {"ref": "main", "head": "5", "snapshot": "1", "with_progress": 1}),
        ("refs", {"kind": "table", "name": "x", "snapshot": "1"}),
        ("refs/drop", {"kind": "tag", "name": ["x"], "snapshot": "1"}),
        ("replay", {"head": "1", "extra_fields": "evil"}),
        ("quarantine/rows", {"head": "1", "reason": "x", "skip": -1}),
    ],
)
def test_what_makes_no_sense_is_refused(shop: EmbeddedCatalog, path: str, body: dict[str, Any]) -> None:
    answer = requests.post(f"{shop.uri}{API}/any/{path}", json=body, timeout=WAIT_MS / 1000)
    assert answer.status_code == 400, answer.text
    foreign = {"sec-fetch-site": "cross-site"}
    assert (
        requests.post(f"{shop.uri}{API}/any/{path}", json=body, headers=foreign, timeout=WAIT_MS / 1000).status_code
        == 403
    )


def test_a_reader_looks_and_changes_nothing(tmp_path: Path) -> None:
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}", routes_of=["frazil.console"]) as guarded:
        token = str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")
        lake = FrazilCatalog("lake", uri=guarded.server.uri, token=token)
        lake.create_namespace("shop")
        table = lake.create_table(("shop", "t"), ORDERS)
        for number in range(2):
            table.append(pa.Table.from_pylist([order(number)], schema=ORDERS))
        first, last = (str(snapshot.snapshot_id) for snapshot in table.metadata.snapshots)
        body = {"ref": "main", "head": last, "snapshot": first, "with_progress": None}
        reader, writer = (guarded.user(name, (name, namespace("shop"))) for name in ("read", "write"))
        assert reader.raw("POST", f"{API}/t/rollback/preview", body).body["undone"]["count"] == 1
        assert reader.raw("POST", f"{API}/t/rollback", body).status == 403
        ref = {"kind": "tag", "name": "x", "snapshot": first}
        assert [reader.raw("POST", f"{API}/t/{path}", ref).status for path in ("refs", "refs/drop")] == [403, 403]
        assert writer.raw("POST", f"{API}/t/refs", ref).status == 200
        assert writer.raw("POST", f"{API}/t/rollback", body).status == 200
        assert table.refresh().scan().to_arrow()["id"].to_pylist() == [0]
