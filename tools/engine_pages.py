"""docs/engines/: a page per engine, with the configuration that `frazil connect` prints and a first query."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from frazil.engine_config import ENGINES, S3, Connection

# What a project has after `frazil up`: the catalog and the object store on this machine.
STACK = Connection("lake", "http://127.0.0.1:8181", s3=S3("http://127.0.0.1:8333", "us-east-1"))
CLIENTS, PROGRAMS = "tests/contract/test_connect_clients.py", "tests/engines/test_connect_programs.py"
CONNECT = "tests/engines/test_connect.py"
RUN = ("pyiceberg", "duckdb", "daft", "polars")  # the test takes the example from the page
RUN_TOO = f" [Another](../../{CLIENTS}) runs the query above."


class Guide(NamedTuple):
    """How to use one engine."""

    engine: str
    title: str
    purpose: str
    file: str  # where the configuration goes
    config: str  # the language of the configuration
    language: str  # the language of the example
    example: str
    test: str


GUIDES = (
    Guide(
        *("trino", "Trino", "Interactive SQL over many tables, for many people, also with joins to other systems."),
        *("etc/catalog/lake.properties", "ini", "sql"),
        "-- after a restart of Trino\nSELECT product, sum(amount) AS revenue FROM lake.shop.orders GROUP BY product;\n"
        "SELECT count(*) FROM lake.shop.orders FOR VERSION AS OF 'first-day';\n"
        "DELETE FROM lake.shop.orders WHERE order_id = 'A-1';",
        CONNECT,
    ),
    Guide(
        *("spark", "Spark", "Batch and streaming jobs of any size. Frazil's own pipelines need none of this."),
        *("spark-lake.conf", "ini", "sql"),
        "-- spark-sql --properties-file spark-lake.conf\n"
        "SELECT product, sum(amount) AS revenue FROM lake.shop.orders GROUP BY product;\n"
        "SELECT count(*) FROM lake.shop.orders VERSION AS OF 'first-day';\n"
        "INSERT INTO lake.shop.orders VALUES ('A-9', 'tent', 99.00, DATE '2026-11-19');",
        CONNECT,
    ),
    Guide(
        *("pyiceberg", "PyIceberg", "Iceberg's own Python library: tables, scans and metadata without an engine."),
        *(".pyiceberg.yaml", "yaml", "python"),
        'from pyiceberg.catalog import load_catalog\n\norders = load_catalog("lake").load_table("shop.orders")\n'
        "orders.scan(row_filter=\"product = 'boots'\").to_arrow()",
        CONNECT,
    ),
    Guide(
        *("duckdb", "DuckDB", "SQL in a process, on a laptop or in a job. `frazil query` and `lake.sql` use it, too."),
        *("lake.sql", "sql", "sql"),
        "-- duckdb -init lake.sql\nSELECT product, sum(amount) AS revenue FROM lake.shop.orders GROUP BY ALL;\n"
        "CREATE TABLE lake.shop.totals AS SELECT product, count(*) AS orders FROM lake.shop.orders GROUP BY ALL;",
        CONNECT,
    ),
    Guide(
        *("daft", "Daft", "Data frames that run on all cores, also on several machines. [Daft](../daft.md) has more."),
        *("lake_daft.py", "python", "python"),
        'import daft\n\nfrom lake_daft import read\n\nread("shop.orders").where(daft.col("amount") > 100).to_pydict()',
        CONNECT,
    ),
    Guide(
        *("polars", "Polars", "Lazy frames in one process. Filters are pushed into the scan of the table."),
        *("lake_polars.py", "python", "python"),
        "import polars as pl\n\nfrom lake_polars import scan\n\n"
        'scan("shop.orders").filter(pl.col("amount") > 100).sort("order_id").collect()',
        CLIENTS,
    ),
    Guide(
        *("ibis", "Ibis", "One data-frame API for many engines; here DuckDB runs it."),
        *("lake_ibis.py", "python", "python"),
        'from lake_ibis import table\n\ntable("shop.orders").group_by("product").count().to_pyarrow()',
        CLIENTS,
    ),
    Guide(
        *("dlt", "dlt", "Loads from APIs, databases and files into tables of this catalog."),
        *(".dlt/secrets.toml", "toml", "python"),
        'import dlt\n\nrows = dlt.resource([{"id": 1, "name": "a"}], name="people", table_format="iceberg")\n'
        'dlt.pipeline("p", destination="filesystem", dataset_name="loaded").run(rows)',
        CLIENTS,
    ),
    Guide(
        *("dbt", "dbt", "SQL models with dbt-duckdb. Models must be incremental: DuckDB renames no Iceberg table."),
        *("profiles.yml", "yaml", "sql"),
        "-- models/revenue.sql\n{{ config(materialized='incremental') }}\n"
        "SELECT product, sum(amount) AS revenue FROM lake.shop.orders GROUP BY ALL",
        CLIENTS,
    ),
    Guide(
        *("clickhouse", "ClickHouse", "Fast aggregates, by `clickhouse-client` or chdb. It reads and inserts."),
        *("lake.sql", "sql", "sql"),
        "SELECT product, count() FROM lake.`shop.orders` GROUP BY product;",
        CLIENTS,
    ),
    Guide(
        *("sail", "Sail", "A Spark Connect server without a JVM: the same PySpark code, in Rust."),
        *("sail.sh", "sh", "python"),
        "# after: . ./sail.sh && sail spark server --port 50051 &\nfrom pyspark.sql import SparkSession\n\n"
        'spark = SparkSession.builder.remote("sc://localhost:50051").getOrCreate()\n'
        'spark.sql("SELECT product, count(*) FROM lake.shop.orders GROUP BY product").show()',
        CLIENTS,
    ),
    Guide(
        *("flink", "Flink", "Streams and batches in Flink SQL or PyFlink, with Iceberg's runtime."),
        *("lake.sql", "sql", "sql"),
        "SELECT product, amount FROM shop.orders;\nINSERT INTO shop.orders VALUES ('A-9', 'tent', 99.00, "
        "DATE '2026-11-19');",
        PROGRAMS,
    ),
    Guide(
        *("kafka-connect", "Kafka Connect", "Topics into tables by Iceberg's sink connector, without Spark."),
        *("sink.properties", "ini", "sh"),
        "connect-standalone.sh worker.properties sink.properties",
        PROGRAMS,
    ),
    Guide(
        *("go", "Go", "A function that opens the catalog with iceberg-go."),
        *("lake/lake.go", "go", "go"),
        'catalog, err := lake.Open(ctx)\ntable, err := catalog.LoadTable(ctx, []string{"shop", "orders"})',
        PROGRAMS,
    ),
    Guide(
        *("rust", "Rust", "A function that opens the catalog with iceberg-rust and iceberg-storage-opendal."),
        *("src/lake.rs", "rust", "rust"),
        "let catalog = lake::open().await?;\n"
        'let table = catalog.load_table(&TableIdent::from_strs(["shop", "orders"])?).await?;',
        PROGRAMS,
    ),
)


def pages() -> dict[str, Callable[[], str]]:
    """Each page below docs/engines, with what writes it."""
    return {f"docs/engines/{guide.engine}.md": partial(render_page, guide) for guide in GUIDES}


def render_page(guide: Guide) -> str:
    """The page of one engine, as it should be."""
    mark = f"<!-- covered by: {guide.test} -->"
    return f"""\
# {guide.title}

{guide.purpose}

Written by `make docs`. The configuration is what `frazil connect {guide.engine}` prints after
`frazil up`; against your own catalog the same command prints yours.

## Connect

{mark}
```sh
frazil connect {guide.engine} --output {guide.file}
```

The file `{guide.file}`:

{mark}
```{guide.config}
{ENGINES[guide.engine](STACK, show_secrets=False).rstrip()}
```

Keys are not written into it: export `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` where {guide.title} runs, or say
`--show-secrets`. Angle brackets stand for what only you know.

## Use it

{f"<!-- run by: {CLIENTS} -->" if guide.engine in RUN else mark}
```{guide.language}
{guide.example}
```

## Know

- [Other engines](../engines.md) has versions, the options of `connect`, access without keys, and
  notes for {guide.title}.
- [What every engine reads](../engine-matrix.md) shows types, deletes and evolved schemas, engine by engine.
- [The test](../../{guide.test}) runs what `connect` prints, on other tables than these, and reads back
  what was written.{RUN_TOO if guide.engine in RUN else ""}
"""
