"""One case in a process of its own: `python -m benchmarks.upsert.case WRITER TABLE FOLDER URI`; prints what it cost as
JSON.

WRITER is ours, merge (on Spark), python or pyiceberg (the latter two with -two for a key of two columns), or raw, which
changes nothing; the changes are in FOLDER/changes.parquet. In plain Python, TABLE is two names with a comma in between:
the second one is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow.parquet as pq

from benchmarks.batch.tree import TreeMeter
from benchmarks.upsert.rows import SCHEMA
from frazil.client import connect
from frazil.config import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog

COLUMNS = [field.name for field in SCHEMA.fields]


def ours(spark: SparkSession, catalog: FrazilCatalog, table: str, changes: str) -> None:
    """With contract, progress and one commit."""
    from frazil.pipelines.upsert.frames import upsert_frame

    frame = spark.read.parquet(changes)
    upsert_frame(
        frame, table, name="bench", key=["id"], sequence="version", op="op", catalog=catalog, position={"changes": 1}
    )


def merge(spark: SparkSession, catalog: FrazilCatalog, table: str, changes: str) -> None:
    """What one writes without Frazil."""
    spark.read.parquet(changes).createOrReplaceTempView("changes")
    values = ", ".join(f"t.{name} = s.{name}" for name in COLUMNS)
    spark.sql(f"""
        MERGE INTO {catalog.name}.{table} t USING changes s ON t.id = s.id
        WHEN MATCHED AND s.version >= t.version AND s.op = 'd' THEN DELETE
        WHEN MATCHED AND s.version >= t.version THEN UPDATE SET {values}
        WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({", ".join(COLUMNS)})
            VALUES ({", ".join(f"s.{name}" for name in COLUMNS)})""")


def python(catalog: FrazilCatalog, table: str, changes: str, key: list[str]) -> None:
    """The sink."""
    import frazil.sinks

    with frazil.sinks.open(
        table, name="bench", catalog=catalog, mode="upsert", key=key, sequence="version", flush_rows=None
    ) as sink:
        sink.write(pq.read_table(changes), position=1)


def pyiceberg(catalog: FrazilCatalog, table: str, changes: str, key: list[str]) -> None:
    """The library's own."""
    catalog.load_table(table).upsert(pq.read_table(changes).cast(SCHEMA.as_arrow()), join_cols=key)


def raw(catalog: FrazilCatalog, table: str, changes: str, _key: list[str]) -> None:
    """What copy-on-write cannot do without when every file has a changed row: each is read and written once, by pyarrow
    alone.
    """
    from frazil.write.files.options import WriteOptions

    for number, task in enumerate(catalog.load_table(table).scan().plan_files()):
        rows = pq.read_table(urlsplit(task.file.file_path).path)
        pq.write_table(rows, Path(changes).with_name(f"raw-{number}.parquet"), **WriteOptions().for_pyarrow())


def measured_alone(write: Callable[[], None]) -> dict[str, float]:
    """What a call costs that starts no processes; its memory is the most that this process has had."""
    start, cpu = time.perf_counter(), time.process_time()
    write()
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    return {"cpu_s": cpu_s, "wall_s": wall_s, "peak_mb": _highest_mb()}


def _highest_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def measured(write: Callable[[], None]) -> dict[str, float]:
    """What a call costs."""
    meter, start = TreeMeter(), time.perf_counter()
    with meter.measured():
        write()
    return {"cpu_s": meter.cpu_s, "wall_s": time.perf_counter() - start, "peak_mb": meter.peak_mb}


def main(writer: str, table: str, folder: str, uri: str) -> None:
    """Runs the case and prints its cost."""
    settings = load_settings(flags={"catalog.uri": uri, "spark.master": "local[2]"}, folder=Path(folder), environ={})
    catalog, changes = connect(settings), str(Path(folder) / "changes.parquet")
    name, _, two = writer.partition("-")
    if name in ("python", "pyiceberg", "raw"):
        import pyarrow.dataset  # noqa: F401  # loading code is not what is measured
        from pyiceberg.table import upsert_util  # noqa: F401

        from frazil.sinks import opening, upsert_sink  # noqa: F401

        write, key = {"python": python, "pyiceberg": pyiceberg, "raw": raw}[name], ["customer", "id"] if two else ["id"]
        first, second = (measured_alone(partial(write, catalog, name, changes, key)) for name in table.split(","))
        print(json.dumps({**second, "first_s": first["wall_s"]}))
        return
    from frazil.spark.session import spark_session

    with spark_session(settings, app_name="upsert", log=Path(folder) / "spark.log") as spark:
        merged = {"ours": ours, "merge": merge}[writer]
        print(json.dumps(measured(lambda: merged(spark, catalog, table, changes))))


if __name__ == "__main__":
    main(*sys.argv[1:])
