"""What the tests of scans do inside Spark's process: called with the session, by name."""

from __future__ import annotations

from typing import Any

from frazil import Lake
from frazil.config import load_settings
from frazil.lake.engines import prepare
from frazil.scan.engines.spark import run_sql


def read_scan(spark: Any, flags: dict[str, str], name: str, where: str | None, columns: list[str]) -> list[Any]:
    """The rows of a scan as Spark has them, in order."""
    scan = Lake(load_settings(flags=flags)).table(name).scan(where, columns)
    return sorted([list(row) for row in scan.to_spark(spark).collect()], key=repr)


def explain_scan(spark: Any, flags: dict[str, str], name: str, where: str, columns: list[str]) -> list[Any]:
    """What Spark pushes down, keeps to itself, and which columns it asks for."""
    engine = (
        Lake(load_settings(flags=flags)).table(name).scan(where, columns).explain(engine="spark", session=spark).engine
    )
    assert engine is not None
    return [list(engine.pushed), list(engine.kept), list(engine.columns), engine.plan]


def query(spark: Any, flags: dict[str, str], sql: str, at: Any) -> list[Any]:
    """The rows of a query on Spark at a point."""
    lake = Lake(load_settings(flags=flags))
    return [
        list(row.values())
        for row in run_sql(spark, prepare(lake, sql, "spark", at=at), catalog=lake.settings.catalog.name).to_pylist()
    ]
