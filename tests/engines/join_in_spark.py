"""What the tests of vector joins do inside Spark's process: called with the session, by name."""

from __future__ import annotations

from typing import Any

from frazil import Lake
from frazil.config import load_settings
from frazil.errors import VectorError
from frazil.vector import nearest_join


def join(
    spark: Any, flags: dict[str, str], name: str, rows: list[Any], kind: str, options: dict[str, Any]
) -> list[Any]:
    """The joined rows of a frame of numbers and vectors, in order, with their columns."""
    scan = (
        Lake(load_settings(flags=flags))
        .table(name)
        .scan(options.pop("filter", None), ["id"], at=options.pop("at", None))
    )
    frame = spark.createDataFrame(rows, f"number long, embedding {kind}").repartition(3)
    joined = nearest_join(frame, scan, "embedding", **options)
    matches = [[row["number"], row["id"], row["_distance"]] for row in joined.collect()]
    return [joined.columns, sorted(matches, key=lambda row: (row[0], row[2], row[1]))]


def join_itself(spark: Any, flags: dict[str, str], name: str) -> list[Any]:
    """The rows of a table, each with the nearest of the same table: while it changes, they stay those of the start."""
    table = Lake(load_settings(flags=flags)).table(name)
    frame = table.scan("id < 20").to_spark(spark)
    joined = nearest_join(frame, table, "embedding", k=1, prefix="near_")
    table.overwrite([])
    rows = joined.collect()
    return [joined.columns, sorted([row["id"], row["near_id"]] for row in rows)]


def refusal(spark: Any, flags: dict[str, str], name: str, kind: str, options: dict[str, Any]) -> list[Any]:
    """What the driver says of a join that is not possible."""
    table = Lake(load_settings(flags=flags)).table(name)
    frame = spark.createDataFrame([], f"number long, embedding {kind}")
    column = options.pop("column", "embedding")
    scan = table.scan(columns=options.pop("columns", ["id"]))
    try:
        nearest_join(frame, scan, column, **options)
    except VectorError as exc:
        return [exc.message, exc.facts.get("column"), exc.facts.get("option"), exc.facts.get("problem")]
    return []
