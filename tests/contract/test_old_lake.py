"""A lake made by commit 6cefdda opens, resumes and audits with this version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import bytewax.operators as op
import pytest
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig
from bytewax.testing import TestingSource, run_main
from deltalake import DeltaTable

import frazil.sinks
from frazil.quarantine.held import Choice
from frazil.quarantine.replay import IcebergQuarantine
from frazil.sinks.audit import audit_delta
from frazil.sinks.bytewax import IcebergSink, IcebergSinkConfig, SourceRows
from tests.kit.old_lake import OldLake, serving_old_lake

TABLES = ("customers", "events", "flow", "sales")


@pytest.fixture
def lake() -> Iterator[OldLake]:
    with serving_old_lake() as lake:
        yield lake


def test_every_table_is_listed_and_its_rows_are_read(lake: OldLake) -> None:
    companions = ("events__quarantine", "sales__ledger", "sales__quarantine", "sales__runs")
    assert sorted(name for _, name in lake.catalog.list_tables("lake")) == sorted((*TABLES, *companions))
    assert sorted(row["id"] for row in lake.rows("events")) == list(range(20))
    assert {row["sort"] for row in lake.rows("events")} == {"k0", "k1"}
    assert {row["id"]: row["kind"] for row in lake.rows("customers")} == {
        0: "old",
        1: "new",
        3: "old",
        4: "old",
        9: "late",
    }
    assert sorted((row["order_id"], str(row["amount"])) for row in lake.rows("sales")) == [
        ("ORD-1", "13.00"),
        ("ORD-3", "7.00"),
    ]
    assert sorted(row["path"] for row in lake.rows("sales__ledger")) == ["landing/a.csv", "landing/b.csv"]


def test_tags_and_branches_are_read(lake: OldLake) -> None:
    events = lake.catalog.load_table("lake.events")
    counts = {}
    for ref in ("first", "audit"):
        snapshot = events.snapshot_by_name(ref)
        assert snapshot is not None
        counts[ref] = events.scan(snapshot_id=snapshot.snapshot_id).count()
    assert counts == {"first": 10, "audit": 20}


@pytest.mark.parametrize("table", TABLES)
def test_every_table_passes_the_audit(lake: OldLake, table: str) -> None:
    document = json.loads(lake.frazil("audit", f"lake.{table}", "--output", "json"))
    assert document["problems"] == []


def test_a_python_sink_resumes_at_its_offset(lake: OldLake) -> None:
    with frazil.sinks.open("lake.events", name="s", catalog=lake.catalog, bad_rows="quarantine") as sink:
        assert sink.offset == 21
        sink.write([{"id": 20, "sort": "k0"}, {"id": "bad", "sort": "k1"}], position=23)
    assert sorted(row["id"] for row in lake.rows("events")) == list(range(21))
    assert len(lake.rows("events__quarantine")) == 3


def test_an_upsert_sink_resumes_and_finds_the_rows_of_its_keys(lake: OldLake) -> None:
    options: dict[str, Any] = {"mode": "upsert", "key": "id", "op": "op"}
    with frazil.sinks.open("lake.customers", name="crm", catalog=lake.catalog, **options) as sink:
        assert sink.offset == 2
        sink.write([{"op": "d", "id": 0, "kind": None}, {"op": "u", "id": 9, "kind": "newer"}], position=3)
    assert {row["id"]: row["kind"] for row in lake.rows("customers")} == {1: "new", 3: "old", 4: "old", 9: "newer"}


def test_quarantined_rows_are_replayed_once_they_are_edited(lake: OldLake) -> None:
    quarantine = IcebergQuarantine(lake.catalog, ("lake", "events"))
    row, _ = quarantine.rows()
    assert "expected long" in row.reason
    result = quarantine.replay(edits={row.id: json.dumps({"id": 100, "sort": "k9"})})
    assert (result.replayed, lake.rows("events", row_filter="id = 100")) == (1, [{"id": 100, "sort": "k9"}])
    assert len(lake.rows("events__quarantine")) == 1


def test_rows_count_by_one_reason_whichever_release_quarantined_them(lake: OldLake) -> None:
    with frazil.sinks.open("lake.events", name="s", catalog=lake.catalog, bad_rows="quarantine") as sink:
        sink.write([{"id": "bad", "sort": "k1"}], position=22)
    quarantine = IcebergQuarantine(lake.catalog, ("lake", "events"))
    old, new = "field 'id': expected long, found 'no number'", "field 'id': expected long, got 'bad'"
    assert sorted(row.reason for row in quarantine.rows()) == [old, old, new]
    assert quarantine.holding().reasons == {"field 'id': expected long": 3}
    assert quarantine.drop(Choice(reason="expected long, got 'no number'")).dropped == 2
    assert [row.reason for row in quarantine.rows()] == [new]


def test_a_bytewax_dataflow_resumes_from_its_recovery_store(lake: OldLake) -> None:
    before = len(lake.catalog.load_table("lake.flow").snapshots())
    flow = Dataflow("flow")
    numbers = op.input("numbers", flow, TestingSource(range(10)))
    read: list[int] = []

    def as_rows(number: int) -> tuple[str, SourceRows]:
        read.append(number)
        return "e/0", SourceRows([{"id": number, "kind": "k"}], "e/0", [number])

    config = IcebergSinkConfig(lake.uri, "rest", None, "lake.flow", batch_size=2, num_partitions=1)
    op.output("lake", op.map("rows", numbers, as_rows), IcebergSink(config))
    run_main(flow, epoch_interval=timedelta(0), recovery_config=RecoveryConfig(str(lake.folder / "recovery")))
    assert (read[0] > 0, read[-1]) == (True, 9)  # the store says which items were read before the abort
    assert sorted(row["id"] for row in lake.rows("flow")) == list(range(10))
    assert len(lake.catalog.load_table("lake.flow").snapshots()) > before


def test_a_delta_sink_resumes_at_its_offset(lake: OldLake) -> None:
    where = str(lake.folder / "delta")
    with frazil.sinks.open(where, name="s") as sink:
        assert sink.offset == 3
        sink.write([{"id": 3, "kind": "k"}], position=4)
    assert sorted(DeltaTable(where).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3]
    assert audit_delta(where).problems == ()


def test_upkeep_of_an_old_table_keeps_its_rows_and_its_progress(lake: OldLake) -> None:
    lake.frazil("maintain", "lake.events", "--yes")
    assert sorted(row["id"] for row in lake.rows("events")) == list(range(20))
    with frazil.sinks.open("lake.events", name="s", catalog=lake.catalog) as sink:
        assert sink.offset == 21
