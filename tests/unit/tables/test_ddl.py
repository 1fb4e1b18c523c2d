"""CREATE TABLE in the words of Trino and Spark: honoured, or an error that names the clause."""

from __future__ import annotations

import pytest

from frazil import Table, column
from frazil.errors import DeclarationError
from frazil.tables.declare import Column

# As it stands in the specification of the sales table.
SALES = """
CREATE TABLE IF NOT EXISTS iceberg.lakehouse.sales (
    order_id       VARCHAR     NOT NULL,
    customer_id    VARCHAR     NOT NULL,
    amount         DECIMAL(12,2) NOT NULL,
    country        VARCHAR,
    ingestion_date DATE        NOT NULL
)
WITH (
    format         = 'PARQUET',
    partitioning   = ARRAY['ingestion_date']
);
"""
SALES_IN_SPARK = """
CREATE TABLE IF NOT EXISTS lake.lakehouse.sales (
    order_id STRING NOT NULL, customer_id STRING NOT NULL, amount DECIMAL(12,2) NOT NULL, country STRING,
    ingestion_date DATE NOT NULL
) USING iceberg PARTITIONED BY (ingestion_date) TBLPROPERTIES ('write.format.default' = 'parquet')
"""


@pytest.mark.parametrize(("text", "dialect"), [(SALES, "trino"), (SALES_IN_SPARK, "spark")])
def test_the_sales_table_is_accepted_as_it_stands(text: str, dialect: str) -> None:
    declared = Table.from_ddl(text, dialect=dialect, checks=["amount >= 0"], key=["order_id"])  # type: ignore[arg-type]
    assert declared == Table(
        "lakehouse.sales",
        column("order_id", "string", required=True),
        column("customer_id", "string", required=True),
        column("amount", "decimal(12,2)", required=True),
        column("country", "string"),
        column("ingestion_date", "date", required=True),
        partition_by=["ingestion_date"],
        properties={"write.format.default": "parquet"},
        checks=["amount >= 0"],
        key=["order_id"],
    )


def test_trino_s_types_and_properties_are_honoured() -> None:
    text = """
        CREATE TABLE iceberg.l.T (
            Id BIGINT NOT NULL COMMENT 'who', a ARRAY(ROW(x INTEGER, y REAL)), m MAP(VARCHAR, DOUBLE), b BOOLEAN,
            u UUID, v VARBINARY,
            t TIME(6), ts TIMESTAMP(6), tz TIMESTAMP(6) WITH TIME ZONE
        ) COMMENT 'all of it'
        WITH (
            format = 'ORC', format_version = 2, location = 's3://lake/l/t/',
            partitioning = ARRAY['day(ts)', 'bucket(Id, 16)'],
            sorted_by = ARRAY['id DESC NULLS FIRST'], object_store_layout_enabled = true, max_commit_retry = 7,
            extra_properties = MAP(ARRAY['a.b'], ARRAY['c'])
        )"""
    assert Table.from_ddl(text, dialect="trino") == Table(
        "l.t",
        column("id", "long", required=True, doc="who"),
        column("a", "list<struct<x: int, y: float>>"),
        column("m", "map<string, double>"),
        *(column(name, kind) for name, kind in [("b", "boolean"), ("u", "uuid"), ("v", "binary")]),
        *(column(name, kind) for name, kind in [("t", "time"), ("ts", "timestamp"), ("tz", "timestamptz")]),
        partition_by=["day(ts)", "bucket(16, id)"],
        sort_by=["id desc nulls first"],
        properties={
            "comment": "all of it",
            "write.format.default": "orc",
            "write.object-storage.enabled": "true",
            "commit.retry.num-retries": "7",
            "a.b": "c",
        },
        format_version=2,
        location="s3://lake/l/t",
    )


def test_spark_s_types_and_clauses_are_honoured() -> None:
    text = """
        CREATE TABLE lake.l.t (
            id BIGINT NOT NULL COMMENT 'who', s STRUCT<a: INT NOT NULL COMMENT 'x', b: ARRAY<STRING>>,
            m MAP<STRING, INT>, n SMALLINT,
            ts TIMESTAMP, local TIMESTAMP_NTZ, y DATE, f FLOAT DEFAULT 1.5, z DATE, d DATE DEFAULT DATE '2024-01-15',
            i INT DEFAULT -3,
            PRIMARY KEY (id), CONSTRAINT positive CHECK (id > 0)
        ) USING iceberg
        PARTITIONED BY (days(ts), bucket(16, id), truncate(4, s.a), n, hours(local), year(y), months(z))
        LOCATION 's3://lake/l/t' COMMENT 'all' TBLPROPERTIES ('format-version' = '3', 'a.b' = 'c')"""
    assert Table.from_ddl(text, dialect="spark") == Table(
        "l.t",
        column("id", "long", required=True, doc="who"),
        column("s", "struct<a: required int 'x', b: list<string>>"),
        *(
            column(name, kind)
            for name, kind in [
                ("m", "map<string, int>"),
                ("n", "int"),
                ("ts", "timestamptz"),
                ("local", "timestamp"),
                ("y", "date"),
            ]
        ),
        Column("f", "float", default=1.5),
        column("z", "date"),
        Column("d", "date", default="2024-01-15"),
        Column("i", "int", default=-3),
        partition_by=["day(ts)", "bucket(16, id)", "truncate(4, s.a)", "n", "hour(local)", "year(y)", "month(z)"],
        properties={"comment": "all", "a.b": "c"},
        checks=["id > 0"],
        key=["id"],
        format_version=3,
        location="s3://lake/l/t",
    )


@pytest.mark.parametrize(
    ("dialect", "text", "message"),
    [
        ("trino", "SELECT 1", "expected one CREATE TABLE, got: SELECT 1"),
        (
            "trino",
            "CREATE TABLE l.t (a INTEGER); CREATE TABLE l.u (a INTEGER)",
            "expected one CREATE TABLE, got: CREATE TABLE l.t (a INTEGER)",
        ),
        ("trino", "CREATE TABLE l.t (a INTEGER", "the statement is not understood as trino's SQL: Expecting )"),
        ("trino", "CREATE TABLE t (a INTEGER)", "table 't' has no namespace"),
        ("trino", "CREATE TABLE l.t AS SELECT 1 AS a", "the statement declares no columns"),
        (
            "trino",
            "CREATE TABLE l.t (a VARCHAR(3))",
            "table 'l.t': column 'a': Iceberg has no VARCHAR(3): its texts and binaries have no length",
        ),
        ("trino", "CREATE TABLE l.t (a TINYINT)", "table 'l.t': column 'a': Iceberg has no type TINYINT"),
        ("trino", "CREATE TABLE l.t (a TIMESTAMP(3))", "table 'l.t': column 'a': Iceberg has no TIMESTAMP(3)"),
        ("trino", "CREATE TABLE l.t (a INTEGER) WITH (shards = 3)", "table 'l.t': WITH (shards = ...) is not honoured"),
        (
            "trino",
            "CREATE TABLE l.t (a INTEGER) WITH (partitioning = ARRAY['b'])",
            "table 'l.t' is partitioned by 'b', but has no column 'b'",
        ),
        ("trino", "CREATE TABLE l.t (LIKE l.u)", "table 'l.t': '(LIKE l.u)' cannot be honoured"),
        ("spark", "CREATE TABLE l.t (a INT) USING delta", "table 'l.t': USING delta is not honoured"),
        ("spark", "CREATE OR REPLACE TABLE l.t (a INT) USING iceberg", "table 'l.t': 'REPLACE' cannot be honoured"),
        ("spark", "CREATE TABLE l.t (a INT) USING iceberg AS SELECT 1", "table 'l.t': 'SELECT 1' cannot be honoured"),
        ("spark", "CREATE EXTERNAL TABLE l.t (a INT)", "table 'l.t': 'EXTERNAL' cannot be honoured"),
        (
            "spark",
            "CREATE TABLE l.t (a INT) CLUSTERED BY (a) INTO 4 BUCKETS",
            "table 'l.t': 'CLUSTERED BY (a) INTO 4 BUCKETS' cannot be",
        ),
        (
            "spark",
            "CREATE TABLE l.t (a INT) PARTITIONED BY (b DATE)",
            "table 'l.t': 'PARTITIONED BY b DATE' cannot be honoured",
        ),
        ("spark", "CREATE TABLE l.t (a INT UNIQUE)", "table 'l.t': 'column 'a': UNIQUE' cannot be honoured"),
        (
            "spark",
            "CREATE TABLE l.t (a INT DEFAULT rand())",
            "table 'l.t': 'column 'a': DEFAULT RAND()' cannot be honoured",
        ),
        (
            "spark",
            "CREATE TABLE l.t (a INT DEFAULT 3)",
            "column 'a' of table 'l.t' has a default, which needs format version 3",
        ),
        ("mysql", "CREATE TABLE l.t (a INT)", "there is no dialect 'mysql'"),
    ],
)
def test_what_cannot_be_honoured_is_named(dialect: str, text: str, message: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        Table.from_ddl(text, dialect=dialect)  # type: ignore[arg-type]
    assert raised.value.message[: len(message)] == message
