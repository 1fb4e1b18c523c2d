"""Every engine and client whose configuration `frazil connect` prints."""

from __future__ import annotations

from collections.abc import Callable

from frazil.engine_config import clients
from frazil.engine_config.engines import daft, duckdb, pyiceberg, spark, trino

# ---------------------------------------------------------------------------------------------------------------------

ENGINES: dict[str, Callable[..., str]] = {
    "trino": trino,
    "spark": spark,
    "pyiceberg": pyiceberg,
    "duckdb": duckdb,
    "daft": daft,
    "polars": clients.polars,
    "ibis": clients.ibis,
    "dlt": clients.dlt,
    "dbt": clients.dbt,
    "clickhouse": clients.clickhouse,
    "sail": clients.sail,
    "flink": clients.flink,
    "kafka-connect": clients.kafka_connect,
    "go": clients.go,
    "rust": clients.rust,
    "env": clients.variables,
}

SIGNED = ("spark",)  # that can have the catalog sign their requests
VENDED = ("trino", "spark", "pyiceberg", "duckdb", "daft")  # that can ask the catalog for credentials
