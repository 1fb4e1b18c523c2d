"""DuckDB's Iceberg extension writes through the catalog into a warehouse of local files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from duckdb_extensions import import_extension

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from frazil.engine_config.connection import Connection
from frazil.engine_config.engines import duckdb as duckdb_statements


@contextmanager
def attached(server: EmbeddedCatalog) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with what `frazil connect duckdb` prints."""
    connection = duckdb.connect()
    for name in ("httpfs", "avro", "iceberg"):
        import_extension(name, con=connection)
    statements = duckdb_statements(Connection("lake", server.uri))
    connection.execute("\n".join(line for line in statements.splitlines() if not line.startswith("INSTALL")))
    yield connection
    connection.close()


@pytest.fixture
def duck(server: EmbeddedCatalog) -> Iterator[duckdb.DuckDBPyConnection]:
    FrazilCatalog("lake", **server.properties).create_namespace("ns")
    with attached(server) as connection:
        yield connection


def rows(server: EmbeddedCatalog, table: str) -> list[tuple[int, str]]:
    result = FrazilCatalog("lake", **server.properties).load_table(table).scan().to_arrow()
    return sorted((row["id"], row["name"]) for row in result.to_pylist())


def test_duckdb_creates_a_table_from_a_query(server: EmbeddedCatalog, duck: duckdb.DuckDBPyConnection) -> None:
    duck.execute("CREATE TABLE lake.ns.made AS SELECT 1::BIGINT AS id, 'a' AS name UNION ALL SELECT 2, 'b'")
    assert rows(server, "ns.made") == [(1, "a"), (2, "b")]


def test_duckdb_creates_and_fills_a_table_in_one_transaction(
    server: EmbeddedCatalog, duck: duckdb.DuckDBPyConnection
) -> None:
    duck.execute(
        "BEGIN; CREATE TABLE lake.ns.filled (id BIGINT, name VARCHAR); INSERT INTO lake.ns.filled VALUES (1, 'a'); "
        "COMMIT"
    )
    duck.execute("INSERT INTO lake.ns.filled VALUES (2, 'b')")
    assert rows(server, "ns.filled") == [(1, "a"), (2, "b")]


def test_a_staged_create_makes_folders_in_the_warehouse_alone(
    server: EmbeddedCatalog, duck: duckdb.DuckDBPyConnection
) -> None:
    duck.execute("BEGIN; CREATE TABLE lake.ns.left_over (id BIGINT); ROLLBACK")
    folder = Path(server.warehouse.removeprefix("file://")) / "ns" / "left_over"
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    # the name and the place are free
    duck.execute("CREATE TABLE lake.ns.left_over AS SELECT 1::BIGINT AS id, 'a' AS name")
    assert rows(server, "ns.left_over") == [(1, "a")]
