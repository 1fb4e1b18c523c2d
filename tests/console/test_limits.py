"""What the console does with tables that are large, wide, or say what cannot be."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
import requests

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from frazil.console import rows
from tests.console.conftest import OpenPage
from tests.kit.browser import grid_rows
from tests.kit.console_tables import DAY_MS, add_tables, metadata, snapshot

LAST_MS = 2**63 - 1  # in the year 292277026
NOTES = pa.schema([("note", pa.string())])


def get(server: EmbeddedCatalog, name: str, part: str = "rows", **headers: str) -> requests.Response:
    uri = f"{server.uri}/console/api/default/namespaces/big/tables/{name}/{part}"
    return requests.get(uri, headers={name.replace("_", "-"): value for name, value in headers.items()}, timeout=60)


def add(server: EmbeddedCatalog, name: str, table: pa.Table) -> None:
    catalog = FrazilCatalog("lake", **server.properties)
    catalog.create_namespace_if_not_exists("big")
    catalog.create_table(("big", name), table.schema).append(table)


def test_rows_of_too_many_bytes_are_refused(server: EmbeddedCatalog) -> None:
    add(server, "heavy", pa.table({"note": [f"{number:03}" * 100_000 for number in range(100)]}, schema=NOTES))
    answer = get(server, "heavy")
    assert answer.status_code == 400
    assert "bytes" in answer.json()["error"]["message"]


def test_only_the_first_columns_are_read(server: EmbeddedCatalog) -> None:
    add(server, "wide", pa.table({f"c{number}": [number] for number in range(230)}))
    answer = get(server, "wide").json()
    assert [column["name"] for column in answer["columns"]] == [f"c{number}" for number in range(200)]
    assert (answer["rows"][0][-1], answer["more_columns"]) == ("199", 30)


def test_rows_end_at_a_deadline(server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    add(server, "slow", pa.table({"note": ["a"]}, schema=NOTES))
    monkeypatch.setattr(rows, "MOST_SECONDS", -1.0)
    answer = get(server, "slow")
    assert answer.status_code == 422
    assert "frazil query" in answer.text
    monkeypatch.undo()
    assert get(server, "slow").json()["rows"] == [["a"]]


@pytest.mark.parametrize("part", ["rows", "files", "partitions", "compaction"])
def test_other_sites_get_no_data_and_no_answer_is_cached(server: EmbeddedCatalog, part: str) -> None:
    add(server, "notes", pa.table({"note": ["a"]}, schema=NOTES))
    for site in ("cross-site", "same-site"):
        assert get(server, "notes", part, sec_fetch_site=site).status_code == 403
    answer = get(server, "notes", part, sec_fetch_site="same-origin")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_parents_in_a_circle_and_times_beyond_all_years_are_shown(server: EmbeddedCatalog, watch: OpenPage) -> None:
    now_ms = time.time_ns() // 1_000_000
    snapshots = [
        snapshot(1, None, now_ms - 3 * DAY_MS),
        snapshot(2, 3, now_ms - 2 * DAY_MS),
        snapshot(3, 2, LAST_MS),
    ]
    add_tables(server, "odd", iter([("odd", metadata(f"{server.warehouse}/odd/odd", snapshots, {"main": 1}))]))
    page = watch(server.uri).open()
    page.get_by_text("1 table").wait_for()
    page.locator(".grid-row", has_text="odd.odd").click()
    page.get_by_role("heading", name="Upkeep").wait_for()
    page.get_by_role("link", name="Snapshots").click()
    page.locator(".grid-row").nth(2).wait_for()
    assert page.get_by_text("9223372036854776000 ms").count() == 1
    assert len(grid_rows(page)) == 3
    page.locator(".grid").focus()
    page.keyboard.press("End")
    page.keyboard.press("Space")
    page.get_by_role("heading", name="Compare").wait_for()
    assert page.get_by_text("does not follow").count() == 1


def test_an_address_without_a_page_shows_the_tables(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open("constructor/default")
    page.get_by_text("There are no tables yet.").wait_for()


def test_a_token_that_no_header_can_have_is_named(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open()
    page.get_by_text("There are no tables yet.").wait_for()
    page.evaluate("sessionStorage.setItem('frazil.token', 'frz_\u20ac')")
    page.reload()
    page.get_by_text("characters that no token has").wait_for()


def test_deleted_shares_and_commands_hold_for_odd_tables(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open()
    shares = """async () => (await import("/console/static/format.js")).deletedShare"""
    lines = [{"delete_ratio": 3, "equality_deletes": 0}, {"delete_ratio": 0, "equality_deletes": 5}, {}]
    asked = f"async lines => {{ const share = await ({shares})(); return lines.map(share); }}"
    assert page.evaluate(asked, lines) == [1, None, None]
    words = """async words => (await import("/console/static/dom.js")).commandLine("maintain", words, "--dry-run")"""
    assert page.evaluate(words, ["ns.t"]) == "frazil maintain ns.t --dry-run"
    assert page.evaluate(words, ["-ns.a b"]) == "frazil maintain --dry-run -- '-ns.a b'"
