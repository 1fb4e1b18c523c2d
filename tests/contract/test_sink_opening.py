"""`frazil.sinks.open`: one call and the same options for every host and target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import frazil.sinks
from frazil.errors import SinkError
from frazil.sinks.bytewax import IcebergSinkConfig, SourceRows, TableSink
from frazil.sinks.delta import create_delta_table
from frazil.sinks.spark import FrameSink
from tests.contract.history_lake import ARROW, SCHEMA, Past, rows
from tests.kit.changes import WAYS
from tests.kit.raising import raises


@pytest.fixture(params=["name", "identifier", "path", "location", "delta:"])
def target(request: pytest.FixtureRequest, past: Past, tmp_path: Path) -> Any:
    """A table by each kind of name."""
    if request.param in ("name", "identifier"):
        return past.name if request.param == "name" else tuple(past.name.split("."))
    create_delta_table(str(tmp_path / "t"), SCHEMA)
    kinds = {"path": tmp_path / "t", "location": str(tmp_path / "t"), "delta:": f"delta:{tmp_path / 't'}"}
    return kinds[request.param]


def ids(target: Any, past: Past) -> list[int]:
    if isinstance(target, tuple) or target == past.name:
        return sorted(past.table.scan().to_arrow()["id"].to_pylist())
    return sorted(DeltaTable(str(target).removeprefix("delta:")).to_pyarrow_table()["id"].to_pylist())


def data_files(past: Past) -> set[str]:
    return set(past.live.inspect.data_files()["file_path"].to_pylist())


def test_python_writes_to_every_target(past: Past, target: Any) -> None:
    with frazil.sinks.open(target, name="s", catalog=past.catalog, flush_rows=2) as sink:
        sink.write(rows(1, 2), position=2)
        assert ids(target, past) == [1, 2]
        sink.write(rows(3), position=3)
    assert ids(target, past) == [1, 2, 3]


def test_bytewax_writes_to_every_target(past: Past, target: Any) -> None:
    sink = frazil.sinks.open(target, host="bytewax", catalog=past.catalog, parts=2, flush_rows=2)
    assert (type(sink), sink.list_parts()) == (TableSink, ["part-0", "part-1"])
    part = sink.build_part("flow.lake", sink.part_of("events/0"), None)
    part.write_batch([SourceRows(rows(1, 2), "events/0", [0, 1])])
    assert ids(target, past) == [1, 2]
    part.write_batch([SourceRows(rows(3), "events/0", [2])])
    assert part.snapshot() == {"position": {"events/0": 3}}
    assert ids(target, past) == [1, 2, 3]


def test_spark_opens_every_target(past: Past, target: Any) -> None:
    sink = frazil.sinks.open(target, host="spark", name="daily", catalog=past.catalog, bad_rows="quarantine")
    assert (type(sink), sink.position) == (FrameSink, {})


def test_a_daft_frame_is_streamed_into_the_sink(past: Past) -> None:
    import daft

    frame = daft.from_arrow(rows(1, 2, 3)).where(daft.col("id") > 1)
    with frazil.sinks.open(past.name, name="s", catalog=past.catalog) as sink:
        sink.write(frame, position=3)
    assert ids(past.name, past) == [2, 3]


def test_the_names_of_bytewax_are_aliases_everywhere(past: Past) -> None:
    with frazil.sinks.open(past.name, name="s", catalog=past.catalog, batch_size=1, batch_interval_seconds=60) as sink:
        sink.write(rows(1), position=1)
        assert ids(past.name, past) == [1]
    dataflow = frazil.sinks.open(past.name, host="bytewax", catalog=past.catalog, num_partitions=3, batch_size=1)
    assert len(dataflow.list_parts()) == 3
    config = IcebergSinkConfig("http://127.0.0.1:1", "rest", None, "a.b", flush_rows=7, flush_seconds=3, parts=2)
    assert (config.batch_size, config.batch_interval_seconds, config.num_partitions) == (7, 3, 2)
    with raises(SinkError, option="batch_size"):
        frazil.sinks.open(past.name, name="s", catalog=past.catalog, batch_size=1, flush_rows=1)


@pytest.mark.parametrize("way", WAYS)
def test_bytewax_upserts_by_key_under_a_name_of_its_own(past: Past, way: str) -> None:
    past.live.transaction().set_properties(WAYS[way]).commit_transaction()
    past.append(1, 2)
    before = data_files(past)
    sink = frazil.sinks.open(past.name, host="bytewax", name="crm", catalog=past.catalog, mode="upsert", key="id")
    part = sink.build_part("flow.lake", "part-0", None)
    changes = pa.table({"id": [2, 3], "name": ["new", "new"]}, schema=ARROW)
    part.write_batch([SourceRows(changes, "events/0", [0, 1])])
    part.snapshot()
    result = past.table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["name"]) for row in result] == [(1, "n1"), (2, "new"), (3, "new")]
    assert [report.part for report in past.table.audit().parts] == ["crm/part-0-of-1"]
    assert (before <= data_files(past)) == (way != "copy-on-write")


def test_a_lake_and_a_table_open_sinks(past: Past) -> None:
    with past.lake.sink(past.name, name="a") as sink:
        sink.write(rows(1), position=1)
    with past.table.sink(name="b", mode="upsert", key="id") as sink:
        sink.write(rows(1, 2), position=2)
    with frazil.sinks.open(past.name, name="c", catalog=past.lake) as sink:
        sink.write(rows(3), position=1)
    assert ids(past.name, past) == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"host": "flink"}, "host"),
        ({"host": "spark", "flush_rows": 5}, "flush_rows"),
        ({"host": "spark", "mode": "upsert", "key": "id"}, "mode"),
        ({"parts": 2}, "parts"),
        ({"storage_options": {"a": "b"}}, "storage_options"),
    ],
)
def test_what_a_host_cannot_do_is_said_before_the_table_is_loaded(options: dict[str, Any], wrong: str) -> None:
    with raises(SinkError, option=wrong):
        frazil.sinks.open("lake.t", **{"name": "s", "catalog": "http://127.0.0.1:1", **options})


def test_open_delta_works_with_a_warning(tmp_path: Path) -> None:
    create_delta_table(str(tmp_path / "t"), SCHEMA)
    with pytest.warns(DeprecationWarning, match=r"use frazil.sinks.open\(\)"):
        sink = frazil.sinks.open_delta(str(tmp_path / "t"), name="s")
    with sink:
        sink.write(rows(1), position=1)
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["id"].to_pylist() == [1]
