"""What upserts leave on SeaweedFS, copy-on-write and merge-on-read, reads the same in every engine."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import frazil.sinks
from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.write.files.partitioning import partition_spec
from tests.engines.walkers import WALKERS, Daft, Pyiceberg, Sql, Walker
from tests.kit.changes import SCHEMA, WAYS, Oracle, Rows, change, gone
from tests.kit.stack import Project
from tests.kit.stack_lake import connection, environment

NAMESPACE = "upsert_readers"
# Written in Python: copy-on-write, position deletes, deletion vectors; on Spark: copy-on-write, position deletes.
PYTHON = {"python": WAYS["copy-on-write"], "marks": WAYS["position deletes"], "vectors": WAYS["deletion vectors"]}
SPARK = {"copy": WAYS["copy-on-write"], "merge": WAYS["position deletes"]}
TABLES = PYTHON | SPARK
FORMAT_2 = ("daft", "trino")  # read no deletion vectors
COLUMNS = ("id", "region", "version", "value")


def batches() -> list[Rows]:
    """Forty rows, then changes of some of them: new versions, late ones, moves to another partition, deletes."""
    chance = random.Random(7)
    result = [[change(number, 5, region=chance.choice("abc")) for number in range(40)]]
    for start in (4, 6):
        ids = chance.sample(range(50), 20)
        result.append(
            [
                gone(n, start + n % 3) if n % 5 == 0 else change(n, start + n % 3, region=chance.choice("abc"))
                for n in ids
            ]
        )
    return result


def expected() -> list[tuple[Any, ...]]:
    oracle = Oracle()
    for batch in batches():
        oracle.apply(batch)
    return [tuple(row[name] for name in COLUMNS) for row in oracle.all()]


@pytest.fixture(scope="module")
def written(live_stack: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    """The tables, after the same changes."""
    catalog, log = FrazilCatalog("lake", **connection(live_stack)), tmp_path_factory.mktemp("upsert") / "spark.log"
    catalog.create_namespace(NAMESPACE)
    for name, properties in TABLES.items():
        catalog.create_table(
            f"{NAMESPACE}.{name}", SCHEMA, partition_spec=partition_spec(SCHEMA, ["region"]), properties=properties
        )
        upsert(catalog, name, batches() if name in PYTHON else batches()[:1])
    run_writer(live_stack, log, f"{NAMESPACE}.copy", f"{NAMESPACE}.merge")
    yield catalog
    for name in TABLES:
        catalog.purge_table(f"{NAMESPACE}.{name}")
    for name in catalog.list_tables(NAMESPACE):
        catalog.purge_table(name)
    catalog.drop_namespace(NAMESPACE)


def upsert(catalog: FrazilCatalog, table: str, some: list[Rows]) -> None:
    with frazil.sinks.open(
        f"{NAMESPACE}.{table}", name="py", catalog=catalog, mode="upsert", key="id", sequence="version", op="op"
    ) as sink:
        for batch in some:
            sink.write(batch)
            sink.commit()


def run_writer(project: Project, log: Path, *tables: str) -> None:
    command = [sys.executable, "-m", "tests.engines.upsert_writer", str(log), *tables]
    done = subprocess.run(
        command, input=json.dumps(batches()[1:]), env=environment(project), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]


def ask(engine: Walker, table: str) -> list[tuple[Any, ...]]:
    if isinstance(engine, Sql):
        return sorted(
            tuple(row)
            for row in engine.sql(f"SELECT {', '.join(COLUMNS)} FROM {engine.catalog_name}.{NAMESPACE}.{table}")
        )
    if isinstance(engine, Pyiceberg):
        result = engine.catalog.load_table(f"{NAMESPACE}.{table}").scan().to_arrow()
    else:
        assert isinstance(engine, Daft)
        import daft

        result = daft.read_iceberg(
            engine.pyiceberg.catalog.load_table(f"{NAMESPACE}.{table}"), io_config=engine.io
        ).to_arrow()
    return sorted(tuple(row[name] for name in COLUMNS) for row in result.to_pylist())


@pytest.mark.requirement("spark.upsert")
@pytest.mark.requirement("daft.upsert")
@pytest.mark.parametrize("engine", WALKERS)
def test_every_engine_reads_the_rows_of_the_dictionary(
    engine: str, written: FrazilCatalog, engines: dict[str, Walker]
) -> None:
    tables = [table for table in TABLES if table != "vectors" or engine not in FORMAT_2]
    assert {table: ask(engines[engine], table) for table in tables} == dict.fromkeys(tables, expected())


def test_our_scan_reads_the_rows_of_the_dictionary(written: FrazilCatalog) -> None:
    scans = {table: Lake(catalog=written).table(f"{NAMESPACE}.{table}").scan().to_polars() for table in TABLES}
    rows = {table: sorted(frame.select(COLUMNS).rows()) for table, frame in scans.items()}
    assert rows == dict.fromkeys(TABLES, expected())


def test_merge_on_read_left_deletes_and_the_others_none(written: FrazilCatalog) -> None:
    totals = {}
    for name in TABLES:
        snapshot = written.load_table(f"{NAMESPACE}.{name}").current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        totals[name] = int(snapshot.summary["total-delete-files"] or 0) > 0
    assert totals == {"python": False, "marks": True, "vectors": True, "copy": False, "merge": True}
