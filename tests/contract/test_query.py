"""Queries on DuckDB over our own scan: more statements than SELECT, views, deletes of every kind; and what is sent to
other engines.
"""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.cli.context import Context
from frazil.cli.query import _pages, query
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.errors import DataFileMissing, FrazilError, QueryError
from frazil.lake.engines import prepare
from tests.kit.committed_deletes import delete_from
from tests.kit.raising import raises
from tests.kit.real_tables import MadeDelete

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "country", StringType()))


def rows(*numbers: tuple[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": number, "country": country} for number, country in numbers], schema=SCHEMA.as_arrow()
    )


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    """`lake.t` has had rows 1 to 4, lost 2 and the one without a country to equality deletes and 4 to a position, then
    got 2 again.
    """
    with running_catalog() as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.t", SCHEMA)
        table.append(rows((1, "NO"), (2, "NO"), (3, None), (4, "SE"), (6, "SE")))
        path = next(iter(table.scan().plan_files())).file.file_path
        gone = [{"id": 2}, {"id": 99}]
        delete_from(
            table,
            [
                MadeDelete("equality", table.spec(), (), 0, columns=("id",), values=gone),
                MadeDelete("equality", table.spec(), (), 0, columns=("country",), values=[{"country": None}]),
                MadeDelete("positions", table.spec(), (), 0, positions={path: [3]}),
            ],
        )
        table.append(rows((2, "DK"), (5, None)))
        make_view(catalog, "lake.seen", "SELECT id, COALESCE(country, 'none') AS place FROM t WHERE id < 6", "spark")
        yield Lake(catalog=catalog)


def make_view(catalog: FrazilCatalog, name: str, sql: str, dialect: str) -> None:
    version = ViewVersion(
        **{"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["lake"]},
        representations=[SQLViewRepresentation(type="sql", sql=sql, dialect=dialect)],
    )
    catalog.create_view(name, SCHEMA, version)


def ask(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lake.sql(sql).to_arrow().to_pylist()]


@pytest.mark.requirement("daft.equality-deletes")
def test_a_query_sees_what_deletes_have_left(lake: Lake) -> None:
    assert ask(lake, "SELECT * FROM lake.t ORDER BY id") == [(1, "NO"), (2, "DK"), (5, None), (6, "SE")]
    assert ask(lake, "SELECT count(*) FROM lake.t WHERE country IS NULL OR id = 2") == [(2,)]


def test_statements_other_than_select_that_only_read_are_run(lake: Lake) -> None:
    assert ask(lake, "PIVOT lake.t ON country USING sum(id)") == [(2, 1, 6)]
    assert [row[:2] for row in ask(lake, "DESCRIBE lake.t")] == [("id", "BIGINT"), ("country", "VARCHAR")]
    assert ask(lake, "SUMMARIZE lake.t")[0][:2] == ("id", "BIGINT")
    assert "ARROW_SCAN" in str(ask(lake, "EXPLAIN SELECT id FROM lake.t WHERE id > 5"))


def test_a_pivot_brings_no_second_statement(lake: Lake, tmp_path: Path) -> None:
    with raises(QueryError, problem="several-statements"):
        lake.sql(f"PIVOT lake.t ON country USING sum(id); COPY (SELECT 1) TO '{tmp_path}/out.csv'")
    assert list(tmp_path.iterdir()) == []


def test_a_view_written_for_another_engine_is_translated(lake: Lake) -> None:
    assert ask(lake, "SELECT place, count(*) FROM lake.seen GROUP BY place ORDER BY place") == [
        ("DK", 1),
        ("NO", 1),
        ("none", 1),
    ]


def test_a_view_that_selects_from_itself_is_refused(lake: Lake) -> None:
    make_view(lake.catalog, "lake.snake", "SELECT * FROM lake.tail", "duckdb")
    make_view(lake.catalog, "lake.tail", "SELECT * FROM lake.snake", "duckdb")
    with raises(QueryError, problem="recursive-view"):
        lake.sql("SELECT * FROM lake.snake")


def test_a_query_names_the_data_file_that_is_missing(lake: Lake) -> None:
    table = lake.catalog.create_table("lake.gone", SCHEMA)
    table.append(rows((1, "NO")))
    place = next(iter(table.scan().plan_files())).file.file_path
    Path(urlsplit(place).path).unlink()
    with raises(DataFileMissing, path=re.compile(r"\.parquet$")):
        lake.sql("SELECT sum(id) FROM lake.gone").to_arrow()


# --- other engines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "expected"),
    [("trino", "SELECT id FROM lake.t FOR VERSION AS OF {0}"), ("spark", "SELECT id FROM lake.t VERSION AS OF {0}")],
)
def test_other_engines_get_the_snapshot(lake: Lake, engine: str, expected: str) -> None:
    snapshot = lake.load("lake.t").snapshots()[0].snapshot_id
    assert prepare(lake, "SELECT id FROM lake.t", engine, at=snapshot) == expected.format(snapshot)


READS = [
    "SELECT 1",
    "WITH x AS (SELECT 1) SELECT * FROM x",
    "SELECT 1 UNION SELECT 2",
    "SHOW TABLES",
    "DESCRIBE lake.t",
    "EXPLAIN SELECT 1",
]
WRITES = [
    "DELETE FROM lake.t",
    "INSERT INTO lake.t VALUES (1, 'x')",
    "DROP TABLE lake.t",
    "CREATE TABLE lake.x AS SELECT 1 AS a",
]
WRITES += [
    "MERGE INTO lake.t USING lake.s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "CALL x.y()",
    "ALTER TABLE lake.t DROP COLUMN id",
]


@pytest.mark.parametrize("engine", ["trino", "spark"])
def test_other_engines_only_read_by_default(lake: Lake, engine: str) -> None:
    assert [prepare(lake, sql, engine) for sql in READS] == READS
    for sql in WRITES:
        with raises(QueryError, problem="read-only"):
            prepare(lake, sql, engine)
        assert prepare(lake, sql, engine, write=True) == sql


def test_a_trino_that_is_not_there_is_named(lake: Lake, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = load_settings(flags={"stack.ports.trino": str(port)}, environ={}, folder=tmp_path)
    with raises(QueryError, problem="unreachable"):
        Lake(settings, catalog=lake.catalog).sql("SELECT 1", engine="trino")


# --- the command -----------------------------------------------------------------------------------------------------


def run(lake: Lake, *args: str) -> Any:
    context = Context()
    context.__dict__["catalog"] = lake.catalog
    return CliRunner().invoke(query, args, obj=context)


def test_the_command_prints_what_programs_read(lake: Lake) -> None:
    sql = "SELECT id, country FROM lake.t WHERE id < 5 ORDER BY id"
    assert run(lake, sql, "--output", "csv").output == "id,country\n1,NO\n2,DK\n"
    assert '"id": 2' in run(lake, sql, "--output", "json").output
    assert run(lake, "SELECT 1 WHERE false", "--output", "json").output == "[]\n"
    result = run(lake, sql, "--output", "arrow")
    assert result.exception is None
    stream = pa.ipc.open_stream(io.BytesIO(result.stdout_bytes))
    assert stream.read_all().to_pylist() == [{"id": 1, "country": "NO"}, {"id": 2, "country": "DK"}]


def test_a_result_comes_in_pages_made_as_far_as_someone_reads() -> None:
    read: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 5000, 100):
            read.append(start)
            yield pa.record_batch({"id": list(range(start, start + 100))})

    pages = _pages(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()), ["id"])
    first = next(pages)
    assert ("499" in first, "500" in first, len(read) <= 6) == (True, False, True)
    assert "4999" in list(pages)[-1]


def test_the_embedded_engine_does_not_write(lake: Lake) -> None:
    result = run(lake, "DELETE FROM lake.t", "--write")
    assert isinstance(result.exception, FrazilError)
    assert "the embedded DuckDB only reads" in str(result.exception)
