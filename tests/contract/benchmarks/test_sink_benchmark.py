"""The cases of the sink's benchmark do what they measure."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from benchmarks.sink.rows import write_rows
from frazil.catalog.embedded import running_catalog

ROWS = 20_000


@pytest.fixture
def bench_catalog(tmp_path: Path) -> Iterator[Catalog]:
    with running_catalog(tmp_path / "catalog") as running:
        result = load_catalog("bench", type="rest", uri=running.uri)
        result.create_namespace("bench")
        yield result


def cost_of(writer: str, split: str, source: Path, uri: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.sink.case", writer, split, str(source), uri]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return document


@pytest.mark.requirement("arrow.claim")
@pytest.mark.parametrize(("writer", "split"), [("ours", "day"), ("pandas", "flat")])
def test_a_case_writes_all_rows_and_tells_their_time_and_memory(
    bench_catalog: Catalog, tmp_path: Path, writer: str, split: str
) -> None:
    write_rows(source := tmp_path / "rows.arrow", ROWS)
    cost = cost_of(writer, split, source, bench_catalog.properties["uri"])
    assert min(cost["cpu_s"], cost["wall_s"], cost["peak_mb"]) > 0
    (table,) = bench_catalog.list_tables("bench")
    order = [("device_id", "ascending"), ("event_timestamp", "ascending"), ("payload", "ascending")]
    result = pa.ipc.open_file(pa.memory_map(str(source))).read_all()
    assert bench_catalog.load_table(table).scan().to_arrow().cast(result.schema).sort_by(order) == result.sort_by(order)
