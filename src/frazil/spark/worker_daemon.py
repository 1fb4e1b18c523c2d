"""The process from which Spark forks its Python workers, with what they need loaded: then it is loaded once, not by
each of them.

Measured: 2.7 s of CPU and 100 MB a worker, and a run has two workers a core. Spark starts it by name
(`spark.python.daemon.module`).
"""

from __future__ import annotations

import importlib
from contextlib import suppress

# Spark asks for pandas in every worker; sqlglot reads the checks.
MODULES = (
    "pandas",
    "sqlglot",
    "pyspark.worker",
    "frazil.pipelines.files.read_csv",
    "frazil.pipelines.files.rows",
    "frazil.sinks.spark.frame_rows",
    "frazil.pipelines.upsert.task",
)


def main() -> None:
    """Loads, and hands over to Spark's own daemon."""
    from pyspark import daemon

    for name in MODULES:
        with suppress(ImportError):  # a worker that needs it says so in its own words
            importlib.import_module(name)
    daemon.manager()  # type: ignore[no-untyped-call]  # PySpark's


if __name__ == "__main__":
    main()
