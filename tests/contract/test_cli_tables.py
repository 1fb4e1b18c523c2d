"""`frazil tables` on a real catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import NoSuchNamespace
from tests.contract.history_lake import SCHEMA, rows


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCatalog]:
    """`shop.orders` (two snapshots, three rows), its quarantine, `shop.eu.empty`, and `other.t`."""
    with running_catalog() as running:
        catalog = FrazilCatalog("lake", **running.properties)
        for namespace in ("shop", ("shop", "eu"), "other"):
            catalog.create_namespace(namespace)
        for name in ("shop.orders", "shop.orders__quarantine", "shop.eu.empty", "other.t"):
            catalog.create_table(name, SCHEMA)
        catalog.load_table("shop.orders").append(rows(1, 2))
        catalog.load_table("shop.orders").append(rows(3))
        yield running


def tables(server: EmbeddedCatalog, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--set", f"catalog.uri={server.uri}", "tables", *words], catch_exceptions=False)


def names(server: EmbeddedCatalog, *words: str) -> list[str]:
    return [entry["table"] for entry in json.loads(tables(server, *words, "--output", "json").stdout)["tables"]]


def test_tables_are_listed_by_namespace_and_without_companion_tables(server: EmbeddedCatalog) -> None:
    assert names(server) == ["other.t", "shop.eu.empty", "shop.orders"]
    assert names(server, "--all") == ["other.t", "shop.eu.empty", "shop.orders", "shop.orders__quarantine"]
    assert (names(server, "shop"), names(server, "shop.eu")) == (["shop.eu.empty", "shop.orders"], ["shop.eu.empty"])


def test_numbers_come_from_the_metadata_and_no_manifest_is_read(server: EmbeddedCatalog) -> None:
    live = FrazilCatalog("lake", **server.properties).load_table("shop.orders")
    for manifest in Path(live.location().removeprefix("file://"), "metadata").glob("*.avro"):
        manifest.rename(manifest.with_suffix(".away"))
    snapshot = live.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    orders = json.loads(tables(server, "shop", "--output", "json").stdout)["tables"][1]
    assert orders == {
        "table": "shop.orders",
        "format_version": 2,
        "snapshots": 2,
        "snapshot_id": snapshot.snapshot_id,
        "rows": 3,
        "delete_files": 0,
        "data_files": 2,
        "bytes": int(snapshot.summary.additional_properties["total-files-size"]),
        "updated_ms": live.metadata.last_updated_ms,
        "location": live.location(),
        "error": None,
    }


def test_a_table_without_snapshots_has_zero_rows(server: EmbeddedCatalog) -> None:
    (empty,) = json.loads(tables(server, "shop.eu", "--output", "json").stdout)["tables"]
    assert (empty["snapshots"], empty["rows"], empty["bytes"], empty["snapshot_id"]) == (0, 0, 0, None)


def test_people_get_a_line_per_table(server: EmbeddedCatalog) -> None:
    lines = tables(server, "shop").stdout.splitlines()
    (line,) = (line for line in lines if "shop.orders" in line)
    assert line.split()[:4] == ["shop.orders", "2", "3", "2"]


def test_an_unknown_namespace_is_an_error(server: EmbeddedCatalog) -> None:
    with pytest.raises(NoSuchNamespace) as caught:
        tables(server, "nowhere")
    assert caught.value.name == "nowhere"


def test_a_broken_table_does_not_hide_the_others(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("shop")
        broken = catalog.create_table("shop.a", SCHEMA)
        catalog.create_table("shop.b", SCHEMA)
        Path(broken.metadata_location.removeprefix("file://")).write_text("{")
    with running_catalog(tmp_path) as server:  # a new one: the first keeps metadata in memory
        listed = json.loads(tables(server, "--output", "json").stdout)["tables"]
    assert [(entry["table"], entry["error"] is None) for entry in listed] == [("shop.a", False), ("shop.b", True)]
